import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.algorithms.distillation import (
    DistillationSettings,
    describe_loss,
    disagreement,
    loss_weights,
    opd_loss,
    row_weights,
    weighted_opd_loss,
)

# The hand-computed case: advantages of three turns, the second token of the second is not
# supervised, the third turn is dead.
ADVANTAGES = jnp.array([[0.5, -1.0, 9.0, 9.0], [2.0, 9.0, 1.0, 0.3], [9.0, 9.0, 9.0, 9.0]])
MASK = jnp.array([[True, True, False, False], [True, False, True, True], [False] * 4])
LEARNER = jnp.array([[-1.0, -2.0, -0.1, -0.2], [-3.0, -1.5, -0.4, -0.7], [-1.0, -1.0, -1.0, -1.0]])
TEACHER = LEARNER + ADVANTAGES


def loop_loss(learner, teacher, mask, num_rows, distill_coef):
    """Eq. 1 and 3, token by token; and the gradient, Eq. 4."""
    loss, gradient = 0.0, np.zeros(learner.shape)
    for t in range(learner.shape[0]):
        valid = [i for i in range(learner.shape[1]) if mask[t, i]]
        for i in valid:
            advantage = distill_coef * (float(teacher[t, i]) - float(learner[t, i]))
            loss += -advantage / len(valid) / num_rows
            gradient[t, i] = -advantage / len(valid) / num_rows
    return loss, gradient


def test_the_hand_computed_case_has_its_value_and_gradient():
    loss, gradient = jax.value_and_grad(opd_loss)(LEARNER, TEACHER, MASK, num_rows=3)
    np.testing.assert_allclose(loss, -0.283333, atol=1e-6)
    expected = [
        [-0.083333, 0.166667, 0, 0],
        [-0.222222, 0, -0.111111, -0.033333],
        [0, 0, 0, 0],
    ]
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_each_turn_of_the_hand_computed_case_has_its_loss_and_score():
    rows = [[x[t : t + 1] for x in (LEARNER, TEACHER, MASK)] for t in range(3)]
    losses = [opd_loss(*row, num_rows=1) for row in rows]
    np.testing.assert_allclose(losses, [0.25, -1.10, 0], atol=1e-6)
    np.testing.assert_allclose(disagreement(LEARNER, TEACHER, MASK), [0.5, -3.3, 0], atol=1e-6)


def test_the_wrong_readings_have_other_values():
    right = opd_loss(LEARNER, TEACHER, MASK, num_rows=3)
    without_the_dead_row = opd_loss(LEARNER[:2], TEACHER[:2], MASK[:2], num_rows=2)
    token_mean = weighted_opd_loss(
        LEARNER, TEACHER, loss_weights(MASK, reduction="token-mean", num_rows=3)
    )
    response_length = jnp.array([2.0, 4.0, 1.0])[:, None]
    by_length = weighted_opd_loss(LEARNER, TEACHER, jnp.where(MASK, 1 / (3 * response_length), 0.0))
    wrong = [without_the_dead_row, token_mean, by_length]
    np.testing.assert_allclose(wrong, [-0.425, -0.56, -0.191667], atol=1e-6)
    assert all(abs(right - value) > 0.09 for value in wrong)


@pytest.mark.parametrize("distill_coef", [1.0, 0.3, 2.5])
def test_value_and_gradient_agree_with_the_token_loop(distill_coef):
    rng = np.random.default_rng(0)
    learner, teacher = -rng.exponential(size=(2, 5, 7)).astype(np.float32)
    mask = rng.random((5, 7)) < 0.6
    mask[2] = False
    loss, gradient = jax.value_and_grad(opd_loss)(
        learner, teacher, mask, num_rows=5, distill_coef=distill_coef
    )
    expected_loss, expected_gradient = loop_loss(learner, teacher, mask, 5, distill_coef)
    np.testing.assert_allclose(loss, expected_loss, rtol=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, atol=1e-6)


def test_dead_rows_shrink_the_gradient_and_padding_rows_do_not():
    live, live_gradient = jax.value_and_grad(opd_loss)(
        LEARNER[:2], TEACHER[:2], MASK[:2], num_rows=2
    )
    dead, dead_gradient = jax.value_and_grad(opd_loss)(LEARNER, TEACHER, MASK, num_rows=3)
    padded, padded_gradient = jax.value_and_grad(opd_loss)(LEARNER, TEACHER, MASK, num_rows=2)
    np.testing.assert_allclose(dead, live * 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(dead_gradient[:2], live_gradient * 2 / 3, rtol=1e-6)
    np.testing.assert_allclose(padded, live, rtol=1e-6)
    np.testing.assert_allclose(padded_gradient[:2], live_gradient, rtol=1e-6)


@pytest.mark.parametrize("bad", [-np.inf, np.inf, np.nan])
@pytest.mark.parametrize("where", ["learner", "teacher", "both"])
def test_masked_log_probs_may_be_anything(bad, where):
    expected = jax.value_and_grad(opd_loss)(LEARNER, TEACHER, MASK, num_rows=3)
    learner = jnp.where(MASK, LEARNER, bad) if where != "teacher" else LEARNER
    teacher = jnp.where(MASK, TEACHER, bad) if where != "learner" else TEACHER
    loss, gradient = jax.value_and_grad(opd_loss)(learner, teacher, MASK, num_rows=3)
    np.testing.assert_array_equal(loss, expected[0])
    np.testing.assert_array_equal(gradient, expected[1])
    expected_scores = disagreement(LEARNER, TEACHER, MASK)
    np.testing.assert_array_equal(disagreement(learner, teacher, MASK), expected_scores)


def test_a_batch_of_dead_rows_has_zero_loss_and_gradient():
    nothing = jnp.zeros_like(MASK)
    for reduction in ("seq-mean-token-mean", "token-mean"):
        weight = loss_weights(nothing, reduction=reduction, num_rows=3)
        loss, gradient = jax.value_and_grad(weighted_opd_loss)(LEARNER, TEACHER, weight)
        assert loss == 0
        assert not gradient.any()


def test_the_teacher_gets_no_gradient():
    gradient = jax.grad(opd_loss, argnums=1)(LEARNER, TEACHER, MASK, num_rows=3)
    assert not gradient.any()


def test_one_pass_has_the_gradient_of_two():
    def two_passes(learner):
        old = jax.lax.stop_gradient(LEARNER)  # the same weights, computed before
        ratio = jnp.exp(learner - old)
        weight = loss_weights(MASK, reduction="seq-mean-token-mean", num_rows=3)
        return -jnp.sum(weight * (TEACHER - old) * ratio)

    one = jax.value_and_grad(opd_loss)(LEARNER, TEACHER, MASK, num_rows=3)
    two = jax.value_and_grad(two_passes)(LEARNER)
    np.testing.assert_allclose(one[0], two[0], rtol=1e-6)
    np.testing.assert_allclose(one[1], two[1], rtol=1e-6)


@pytest.mark.parametrize("reduction", ["seq-mean-token-mean", "token-mean"])
def test_losses_of_the_parts_of_a_batch_add_up_however_it_is_cut(reduction):
    weight = loss_weights(MASK, reduction=reduction, num_rows=3)
    whole = weighted_opd_loss(LEARNER, TEACHER, weight)
    flat = [x.reshape(-1) for x in (LEARNER, TEACHER, weight)]
    for cuts in ([4, 8], [1, 5, 11], [6]):
        parts = zip(*(jnp.split(x, cuts) for x in flat), strict=True)
        total = sum(weighted_opd_loss(*part) for part in parts)
        np.testing.assert_allclose(total, whole, rtol=1e-6)


def test_weights_say_what_a_token_counts():
    valid_tokens = np.array([2, 3, 0])
    by_row = row_weights(valid_tokens, reduction="seq-mean-token-mean", num_rows=3)
    np.testing.assert_allclose(by_row, [1 / 6, 1 / 9, 0])
    by_token = row_weights(valid_tokens, reduction="token-mean", num_rows=3)
    np.testing.assert_allclose(by_token, [1 / 5, 1 / 5, 0])
    assert isinstance(by_row, np.ndarray)
    on_device = row_weights(jnp.array(valid_tokens), reduction="token-mean", num_rows=3)
    np.testing.assert_allclose(on_device, by_token, rtol=1e-6)


def test_the_loss_is_the_kl_from_student_to_teacher_and_not_the_reverse():
    student = jax.nn.log_softmax(jnp.array([0.3, -1.2, 2.0, 0.1]))
    teacher = jax.nn.log_softmax(jnp.array([1.5, 0.4, -0.7, 0.2]))
    p, q = np.exp(student), np.exp(teacher)
    expected_loss = weighted_opd_loss(student, teacher, jnp.exp(student))
    np.testing.assert_allclose(expected_loss, np.sum(p * np.log(p / q)), rtol=1e-5)
    assert abs(expected_loss - np.sum(q * np.log(q / p))) > 0.1


def test_a_gradient_step_moves_the_student_towards_the_teacher():
    logits = jnp.array([0.3, -1.2, 2.0, 0.1])
    teacher = jax.nn.log_softmax(jnp.array([1.5, 0.4, -0.7, 0.2]))

    def expected_loss(logits):
        student = jax.nn.log_softmax(logits)
        return weighted_opd_loss(student, teacher, jax.lax.stop_gradient(jnp.exp(student)))

    def kl(logits):
        student = jax.nn.log_softmax(logits)
        return jnp.sum(jnp.exp(student) * (student - teacher))

    moved = logits - 0.1 * jax.grad(expected_loss)(logits)
    assert kl(moved) < kl(logits)


def test_disagreement_is_a_signed_sum_and_keeps_numpy():
    student, teacher = np.float32([-1.0, -2.0, -3.0]), np.float32([-4.0, -1.0, -np.inf])
    score = disagreement(student, teacher, np.array([True, True, False]))
    assert isinstance(score, np.ndarray)
    assert score == 2.0


def test_short_batches_divide_by_the_configured_denominator():
    settings = {"reduction": "seq-mean-token-mean", "distill_coef": 1.0}
    by_rows = DistillationSettings(denominator="rows", **settings)
    by_size = DistillationSettings(denominator="batch_size", **settings)
    assert by_rows.num_rows(50, batch_size=64) == 50
    assert by_size.num_rows(50, batch_size=64) == 64


@pytest.mark.parametrize("distill_coef", [0.0, -1.0, float("nan")])
def test_a_teacher_without_weight_is_refused(distill_coef):
    with pytest.raises(ValueError, match="distill_coef must be positive"):
        DistillationSettings(reduction="token-mean", denominator="rows", distill_coef=distill_coef)


def test_the_resolved_loss_is_described_in_words():
    settings = {"denominator": "rows", "distill_coef": 0.5}
    divopd = describe_loss(DistillationSettings(reduction="seq-mean-token-mean", **settings))
    stride = describe_loss(DistillationSettings(reduction="token-mean", **settings))
    assert "reverse KL(student || teacher)" in divopd
    assert "0.5 * (teacher - student log-prob)" in divopd
    assert "turns without a valid token included" in divopd
    assert "mean over all valid tokens of the batch" in stride
