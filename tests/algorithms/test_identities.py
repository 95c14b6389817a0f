"""The papers' identities, exact on models and pools small enough to enumerate."""

import itertools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.algorithms.composition import COMPOSERS, Pool, compose
from jopd.algorithms.distillation import (
    disagreement,
    loss_weights,
    opd_loss,
    weighted_opd_loss,
)

# --- a language model of four words and three positions -------------------------------------------

VOCAB, LENGTH = 4, 3
SEQUENCES = np.array(list(itertools.product(range(VOCAB), repeat=LENGTH)))
PREFIXES = [0, 1, 1 + VOCAB, 1 + VOCAB + VOCAB**2]  # where prefixes of each length start
COMPLETE = np.ones(SEQUENCES.shape, bool)


def prefix_rows(position):
    """Row of the logits table that predicts the token at `position` of every sequence."""
    before = SEQUENCES[:, :position]
    return PREFIXES[position] + before @ VOCAB ** np.arange(position)[::-1]


ROWS = np.stack([prefix_rows(position) for position in range(LENGTH)], axis=1)


def sequence_logprobs(logits):
    """[sequences, LENGTH] log-prob of each token of each sequence."""
    return jax.nn.log_softmax(logits, axis=-1)[ROWS, SEQUENCES]


@pytest.fixture
def student():
    return jax.random.normal(jax.random.key(1), (PREFIXES[-1], VOCAB))


@pytest.fixture
def teacher():
    return jax.random.normal(jax.random.key(2), (PREFIXES[-1], VOCAB))


def sequence_kl(student, teacher):
    """KL(student || teacher) over whole sequences, by the definition."""
    p, q = (jnp.sum(sequence_logprobs(logits), axis=1) for logits in (student, teacher))
    return jnp.sum(jnp.exp(p) * (p - q))


def probabilities(student):
    """[sequences] probability of each sequence, not differentiated."""
    return jax.lax.stop_gradient(jnp.exp(jnp.sum(sequence_logprobs(student), axis=1)))


def test_t4_expected_disagreement_is_the_sequence_kl(student, teacher):
    scores = disagreement(sequence_logprobs(student), sequence_logprobs(teacher), COMPLETE)
    expected = jnp.sum(probabilities(student) * scores)
    np.testing.assert_allclose(expected, sequence_kl(student, teacher), rtol=1e-5)


def expected_return_to_go_gradient(student, teacher):
    """E[sum_t g_t^seq]: Eq. 1 of STRIDE, the score function weighted by the future gap."""
    gap = sequence_logprobs(teacher) - sequence_logprobs(student)
    to_go = jnp.cumsum(gap[:, ::-1], axis=1)[:, ::-1]
    weight = probabilities(student)[:, None] * to_go
    return jax.grad(lambda logits: jnp.sum(weight * sequence_logprobs(logits)))(student)


def test_t5_the_sequence_level_gradient_is_that_of_the_sequence_kl(student, teacher):
    ours = expected_return_to_go_gradient(student, teacher)
    np.testing.assert_allclose(ours, -jax.grad(sequence_kl)(student, teacher), atol=1e-6)
    direction = jax.random.normal(jax.random.key(3), student.shape)
    step = 1e-2
    ahead, behind = (sequence_kl(student + sign * step * direction, teacher) for sign in (1, -1))
    np.testing.assert_allclose(-jnp.sum(ours * direction), (ahead - behind) / (2 * step), rtol=2e-3)


def expected_loss_gradient(student, teacher):
    """Gradient of the loss of this package, in expectation over sampled sequences."""

    def loss(logits):
        weight = jnp.broadcast_to(probabilities(student)[:, None], SEQUENCES.shape)
        return weighted_opd_loss(sequence_logprobs(logits), sequence_logprobs(teacher), weight)

    return jax.grad(loss)(student)


def frozen_prefix_kl(student, teacher, frozen):
    """Sum over positions of the next-token KL, prefixes drawn from `frozen`."""
    reach = np.zeros(PREFIXES[-1])
    np.add.at(reach, ROWS, np.asarray(probabilities(frozen))[:, None])
    p, q = jax.nn.log_softmax(student, axis=-1), jax.nn.log_softmax(teacher, axis=-1)
    return jnp.sum(reach[:, None] * jnp.exp(p) * (p - q))


def test_t6_the_token_level_gradient_freezes_the_prefix_distribution(student, teacher):
    ours = expected_loss_gradient(student, teacher)
    frozen = jax.grad(lambda logits: frozen_prefix_kl(logits, teacher, student))(student)
    np.testing.assert_allclose(ours, frozen, atol=1e-6)
    assert jnp.abs(ours - jax.grad(sequence_kl)(student, teacher)).max() > 0.01


# --- one batch ------------------------------------------------------------------------------------


@pytest.fixture
def batch():
    rng = np.random.default_rng(4)
    learner, teacher = -rng.exponential(size=(2, 6, 5)).astype(np.float32)
    mask = rng.random((6, 5)) < 0.7
    mask[3] = False
    return learner, teacher, mask


@pytest.mark.parametrize("distill_coef", [1.0, 0.4])
def test_t1_t2_the_clipped_surrogate_has_this_value_and_gradient_at_the_old_weights(
    batch, distill_coef
):
    learner, teacher, mask = batch
    advantage = distill_coef * (teacher - learner)
    assert (advantage[mask] < 0).any()
    assert (advantage[mask] > 0).any()
    weight = loss_weights(mask, reduction="seq-mean-token-mean", num_rows=6)

    def clipped_surrogate(logprobs):
        ratio = jnp.exp(logprobs - learner)
        clipped = jnp.minimum(advantage * ratio, advantage * jnp.clip(ratio, 0.8, 1.2))
        dual = jnp.where(advantage < 0, jnp.maximum(clipped, 3.0 * advantage), clipped)
        return -jnp.sum(weight * dual)

    value, gradient = jax.value_and_grad(clipped_surrogate)(learner)
    loss, ours = jax.value_and_grad(opd_loss)(
        learner, teacher, mask, num_rows=6, distill_coef=distill_coef
    )
    np.testing.assert_allclose(loss, value, rtol=1e-6)
    np.testing.assert_allclose(loss, -jnp.sum(weight * advantage), rtol=1e-6)
    np.testing.assert_allclose(ours, gradient, atol=1e-7)
    np.testing.assert_allclose(ours, -weight * advantage, atol=1e-7)


@pytest.mark.parametrize("distill_coef", [1.0, 0.4])
def test_t3_the_score_is_the_row_loss_times_tokens_over_beta(batch, distill_coef):
    learner, teacher, mask = batch
    scores = disagreement(learner, teacher, mask)
    for t in range(6):
        row_loss = opd_loss(
            learner[[t]], teacher[[t]], mask[[t]], num_rows=1, distill_coef=distill_coef
        )
        np.testing.assert_allclose(scores[t], mask[t].sum() / distill_coef * row_loss, atol=1e-5)


# --- a pool whose row gradients come from the loss ------------------------------------------------

ROLLOUT = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2])
DEAD = np.array([False] * 8 + [True])
POOL_SIZE, BATCH = 9, 4


@pytest.fixture
def gradients():
    """[pool, 3] gradient of the loss of each row alone, 0 for the dead one."""
    rng = np.random.default_rng(5)
    features = rng.normal(size=(POOL_SIZE, 4, 3)).astype(np.float32)
    teacher = -rng.exponential(size=(POOL_SIZE, 4)).astype(np.float32)
    mask = (rng.random((POOL_SIZE, 4)) < 0.7) & ~DEAD[:, None]
    theta = jnp.array([0.3, -0.8, 0.5])

    def loss(theta, rows, num_rows):
        learner = -jax.nn.softplus(features[rows] @ theta)
        return opd_loss(learner, teacher[rows], mask[rows], num_rows=num_rows)

    batch_gradient = jax.grad(loss)(theta, np.arange(BATCH), BATCH)
    rows = [jax.grad(loss)(theta, np.array([t]), 1) for t in range(POOL_SIZE)]
    np.testing.assert_allclose(batch_gradient, np.mean(rows[:BATCH], axis=0), rtol=1e-5)
    return np.array(rows, np.float64)


def test_l1_selection_shifts_the_gradient_by_a_covariance(gradients):
    subsets = list(itertools.combinations(range(POOL_SIZE), BATCH))
    chance = np.random.default_rng(6).dirichlet(np.ones(len(subsets)))
    expected = sum(
        c * gradients[list(s)].mean(axis=0) for c, s in zip(chance, subsets, strict=True)
    )
    inclusion = np.array(
        [sum(c for c, s in zip(chance, subsets, strict=True) if t in s) for t in range(POOL_SIZE)]
    )
    np.testing.assert_allclose(inclusion.sum(), BATCH)
    covariance = (inclusion[:, None] * gradients).mean(axis=0) - inclusion.mean() * gradients.mean(
        axis=0
    )
    shift = expected - gradients.mean(axis=0)
    np.testing.assert_allclose(shift, POOL_SIZE / BATCH * covariance, atol=1e-12)


def test_p1_gating_undoes_dead_slot_dilution_and_keeps_the_direction(gradients):
    live = np.flatnonzero(~DEAD)
    subsets = itertools.combinations(live, BATCH)
    gated = np.mean([gradients[list(s)].mean(axis=0) for s in subsets], axis=0)
    scale = POOL_SIZE / (POOL_SIZE - DEAD.sum())
    np.testing.assert_allclose(gated, scale * gradients.mean(axis=0), rtol=1e-6)


def covariance(points, chance):
    mean = chance @ points
    return (points - mean).T @ (chance[:, None] * (points - mean)), mean


@pytest.mark.parametrize(("dead_share", "effective"), [(0.05, 60.8), (0.28, 46.1)])
def test_p1b_a_gated_batch_has_less_variance(gradients, dead_share, effective):
    size, live = 64, gradients[~DEAD]
    chance = np.full(len(live), 1 / len(live))
    sigma, mu = covariance(live, chance)
    with_dead = np.vstack([live, np.zeros(3)])
    slots, _ = covariance(with_dead, np.append((1 - dead_share) * chance, dead_share))
    ungated = slots / size / (1 - dead_share) ** 2
    outer = np.outer(mu, mu)
    np.testing.assert_allclose(
        ungated, (sigma + dead_share * outer) / (size * (1 - dead_share)), atol=1e-12
    )
    gap = ungated - sigma / size
    np.testing.assert_allclose(
        gap, dead_share * (sigma + outer) / (size * (1 - dead_share)), atol=1e-12
    )
    assert np.linalg.eigvalsh(gap).min() >= 0
    assert round((1 - dead_share) * size, 1) == effective


SCORES = np.array([1.0, 4.0, -2.0, 3.0, 0.5, 2.0, 1.0, 7.0, 0.0], np.float32)


def chosen_by(composer, batch_size, cap, seed=0):
    turn = np.array([np.sum(ROLLOUT[:i] == ROLLOUT[i]) for i in range(POOL_SIZE)], np.int32)
    pool = Pool(
        rollout_id=ROLLOUT.astype(np.int32),
        turn=turn,
        first_seen=np.zeros(POOL_SIZE, np.int32),
        arrival=np.arange(POOL_SIZE, dtype=np.int32),
        score=SCORES,
        valid=~DEAD,
        present=np.ones(POOL_SIZE, bool),
    )
    settings = {"max_pending_age": 8, "update_index": 0, "seed": seed}
    selection = compose(
        pool,
        composer=COMPOSERS[composer],
        batch_size=batch_size,
        first_pass_cap=cap,
        **settings,
    )
    return np.asarray(selection.places)


def valid_turns(rollout):
    return np.flatnonzero((rollout == ROLLOUT) & ~DEAD)


def expected_base_gradient(gradients, given, batch_size):
    """Mean over every subset that base can draw, given its turns per rollout."""
    choices = [itertools.combinations(valid_turns(r), n) for r, n in sorted(given.items())]
    batches = [np.concatenate(parts) for parts in itertools.product(*choices)]
    return np.mean([gradients[rows].sum(axis=0) / batch_size for rows in batches], axis=0)


@pytest.mark.parametrize(("batch_size", "cap"), [(4, 2), (5, 2), (7, 1), (6, 3)])
def test_c1_base_averages_rollouts_by_the_slots_they_get(gradients, batch_size, cap):
    given = Counter(ROLLOUT[chosen_by("divopd_base", batch_size, cap)].tolist())
    expected = sum(
        n / batch_size * gradients[valid_turns(r)].mean(axis=0) for r, n in given.items()
    )
    enumerated = expected_base_gradient(gradients, given, batch_size)
    np.testing.assert_allclose(enumerated, expected, atol=1e-12)
    drawn = {tuple(sorted(chosen_by("divopd_base", batch_size, cap, seed))) for seed in range(40)}
    assert all(Counter(ROLLOUT[list(rows)].tolist()) == given for rows in drawn)


@pytest.mark.parametrize(("batch_size", "cap"), [(4, 2), (5, 2), (6, 3)])
def test_c2_focus_moves_the_gradient_from_dropped_to_kept_turns(gradients, batch_size, cap):
    kept = chosen_by("divopd", batch_size, cap)
    given = Counter(ROLLOUT[kept].tolist())
    shift = gradients[kept].mean(axis=0) - expected_base_gradient(gradients, given, batch_size)
    expected = np.zeros(3)
    for rollout, n in given.items():
        turns = valid_turns(rollout)
        best_first = turns[np.argsort(-SCORES[turns], kind="stable")]
        if n < len(turns):
            contrast = gradients[best_first[:n]].mean(axis=0) - gradients[best_first[n:]].mean(
                axis=0
            )
            expected += n * (len(turns) - n) / len(turns) * contrast / batch_size
    np.testing.assert_allclose(shift, expected, atol=1e-12)
    assert np.abs(shift).max() > 1e-3
