import jax
import jax.numpy as jnp
import numpy as np
import pytest
from made_turns import make_turn

from jopd.algorithms.distillation import opd_loss, weighted_opd_loss
from jopd.experience.batching import RowLayout, pack, pack_demonstrations
from jopd.experience.validity import supervised_tokens
from jopd.types import Speaker

SEQ_MEAN = "seq-mean-token-mean"


def layout(row_length=32, rows=2, micro_batches=4):
    return RowLayout(
        rows_per_micro_batch=rows, row_length=row_length, max_micro_batches=micro_batches
    )


def random_turns(count=9, seed=0):
    """Turns of uneven lengths with partial masks; the fifth is dead."""
    rng = np.random.default_rng(seed)
    turns = []
    for i in range(count):
        tokens = int(rng.integers(1, 9))
        mask = rng.random(tokens) < 0.8
        mask[0] = True
        turns.append(
            make_turn(
                i,
                0,
                prompt=int(rng.integers(1, 12)),
                tokens=tokens,
                dead=i == 4,
                behaviour_logprobs=-rng.exponential(size=tokens).astype(np.float32),
                teacher_logprobs=-rng.exponential(size=tokens).astype(np.float32),
                teacher_mask=mask,
            )
        )
    return turns


def learner_logprobs(tokens):
    """Stands for a model: a log-prob that depends on the token alone."""
    return -0.5 - jnp.cos(jnp.asarray(tokens, jnp.float32)) / 4


def padded(turns):
    """Learner and teacher log-probs and mask of responses, one turn a row, and no packing."""
    width = max(len(turn.response_tokens) for turn in turns)
    tokens, teacher = np.zeros((len(turns), width), np.int32), np.zeros((len(turns), width))
    mask = np.zeros((len(turns), width), bool)
    for row, turn in enumerate(turns):
        length = len(turn.response_tokens)
        tokens[row, :length] = turn.response_tokens
        teacher[row, :length] = turn.teacher_logprobs
        mask[row, :length] = supervised_tokens(turn)
    return learner_logprobs(tokens), teacher.astype(np.float32), mask


def packed_loss(batch):
    learner = learner_logprobs(batch.tokens)
    return weighted_opd_loss(learner, batch.teacher_logprobs, batch.loss_weight)


def test_every_turn_lies_whole_in_one_row_with_its_own_positions():
    turns = random_turns()
    packed = pack(turns, layout(), reduction=SEQ_MEAN)
    for turn, (row, segment_id) in zip(turns, packed.places.tolist(), strict=True):
        if row < 0:
            continue
        at = np.flatnonzero(packed.batch.segment_ids[row] == segment_id)
        assert (np.diff(at) == 1).all()
        whole = np.concatenate([turn.prompt_tokens, turn.response_tokens])
        np.testing.assert_array_equal(packed.batch.tokens[row, at], whole)
        np.testing.assert_array_equal(packed.batch.positions[row, at], np.arange(len(whole)))
        mask = np.append(np.zeros(len(turn.prompt_tokens), bool), supervised_tokens(turn))
        weight = packed.batch.loss_weight[row, at]
        np.testing.assert_allclose(weight, mask / (9 * mask.sum()), rtol=1e-6)
        response = at[len(turn.prompt_tokens) :]
        for name in ("teacher_logprobs", "behaviour_logprobs"):
            expected = np.where(supervised_tokens(turn), vars_of(turn)[name], 0)
            written = vars_of(packed.batch)[name][row]
            np.testing.assert_array_equal(written[response], expected)
            assert not written[at[: len(turn.prompt_tokens)]].any()


def vars_of(record):
    return {name: object.__getattribute__(record, name) for name in record.__slots__}


def test_places_outside_turns_are_empty():
    turns = random_turns()
    packed = pack(turns, layout(), reduction=SEQ_MEAN)
    empty = packed.batch.segment_ids == 0
    real = sum(len(t.prompt_tokens) + len(t.response_tokens) for i, t in enumerate(turns) if i != 4)
    assert (~empty).sum() == packed.real_tokens == real
    for array in jax.tree.leaves(packed.batch):
        assert not array[empty].any()


@pytest.mark.parametrize("row_length", [20, 33, 256])
@pytest.mark.parametrize("rows", [1, 3])
def test_packing_does_not_change_the_loss(row_length, rows):
    turns = random_turns()
    packed = pack(turns, layout(row_length, rows, 9), reduction=SEQ_MEAN)
    learner, teacher, mask = padded(turns)
    expected = opd_loss(learner, teacher, mask, num_rows=9)
    np.testing.assert_allclose(packed_loss(packed.batch), expected, rtol=1e-5)
    used = packed.used_micro_batches * rows
    micro = [
        packed_loss(jax.tree.map(lambda x, start=start: x[start : start + rows], packed.batch))
        for start in range(0, used, rows)
    ]
    np.testing.assert_allclose(sum(micro), expected, rtol=1e-5)


@pytest.mark.parametrize("row_length", [20, 256])
def test_token_mean_weighs_every_supervised_token_alike(row_length):
    turns = random_turns()
    packed = pack(turns, layout(row_length, 1, 9), reduction="token-mean")
    learner, teacher, mask = (np.asarray(x) for x in padded(turns))
    expected = np.sum((learner - teacher)[mask]) / mask.sum()
    np.testing.assert_allclose(packed_loss(packed.batch), expected, rtol=1e-5)
    assert packed.batch.loss_weight.sum() == pytest.approx(1)


def test_the_order_of_the_turns_does_not_matter():
    turns = random_turns()
    expected = packed_loss(pack(turns, layout(), reduction=SEQ_MEAN).batch)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(turns))
        packed = pack([turns[i] for i in order], layout(), reduction=SEQ_MEAN)
        np.testing.assert_allclose(packed_loss(packed.batch), expected, rtol=1e-5)


def test_dead_turns_take_no_place_and_stay_in_the_denominator():
    turns = random_turns()
    live = [turn for i, turn in enumerate(turns) if i != 4]
    with_dead, without = (pack(t, layout(), reduction=SEQ_MEAN) for t in (turns, live))
    assert with_dead.places[4].tolist() == [-1, -1]
    assert with_dead.num_turns == 9
    np.testing.assert_array_equal(with_dead.batch.tokens, without.batch.tokens)
    np.testing.assert_allclose(
        with_dead.batch.loss_weight * 9, without.batch.loss_weight * 8, rtol=1e-6
    )


def test_the_denominator_can_be_the_configured_batch_size():
    turns = random_turns()
    packed = pack(turns, layout(), reduction=SEQ_MEAN, num_rows=64)
    assert packed.batch.loss_weight.sum() == pytest.approx(8 / 64)


def test_a_batch_of_dead_turns_has_no_weight_and_one_micro_batch():
    packed = pack([make_turn(dead=True)], layout(), reduction=SEQ_MEAN)
    assert packed.used_micro_batches == 1
    assert packed.real_tokens == packed.fill == 0
    assert not packed.batch.loss_weight.any()


def test_the_longest_turns_are_placed_first():
    lengths = (2, 6, 3, 5, 4)
    turns = [make_turn(i, 0, prompt=1, tokens=length - 1) for i, length in enumerate(lengths)]
    packed = pack(turns, layout(row_length=10, rows=2), reduction=SEQ_MEAN)
    assert packed.places.tolist() == [[1, 3], [0, 1], [1, 2], [1, 1], [0, 2]]
    assert packed.used_micro_batches == 1
    assert packed.fill == 1.0


def test_used_micro_batches_are_rounded_up_and_the_shape_stays():
    turns = [make_turn(i, 0, prompt=5, tokens=5) for i in range(3)]
    packed = pack(turns, layout(row_length=10, rows=2, micro_batches=4), reduction=SEQ_MEAN)
    assert packed.used_micro_batches == 2
    assert packed.fill == 0.75
    assert packed.batch.tokens.shape == (8, 10)
    assert not packed.batch.segment_ids[3:].any()


def test_the_layout_of_a_batch_size_holds_turns_that_need_a_row_each():
    wide = RowLayout.for_batch(5, rows_per_micro_batch=2, row_length=10)
    turns = [make_turn(i, 0, prompt=5, tokens=5) for i in range(5)]
    packed = pack(turns, wide, reduction=SEQ_MEAN)
    assert packed.used_micro_batches == wide.max_micro_batches == 3


def test_a_turn_longer_than_a_row_is_named_and_not_cut():
    turns = [make_turn(0, 0), make_turn(12, 3, prompt=8, tokens=4)]
    with pytest.raises(
        ValueError, match="turn 3 of rollout 12 has 12 tokens, more than row_length"
    ):
        pack(turns, layout(row_length=11), reduction=SEQ_MEAN)


def test_a_dead_turn_longer_than_a_row_does_no_harm():
    turns = [make_turn(0, 0), make_turn(12, 3, prompt=80, tokens=1, dead=True)]
    packed = pack(turns, layout(row_length=11), reduction=SEQ_MEAN)
    assert packed.places[1].tolist() == [-1, -1]


def test_a_trained_turn_without_a_prompt_is_refused():
    with pytest.raises(ValueError, match="turn 0 of rollout 3 has no prompt"):
        pack([make_turn(3, 0, prompt=0)], layout(), reduction=SEQ_MEAN)


def test_too_few_rows_are_refused():
    turns = [make_turn(i, 0, prompt=5, tokens=5) for i in range(3)]
    with pytest.raises(ValueError, match="3 turns need 3 rows of 10 tokens"):
        pack(turns, layout(row_length=10, rows=1, micro_batches=2), reduction=SEQ_MEAN)


def test_unusable_scores_are_not_written():
    turn = make_turn(teacher_logprobs=np.array([-np.inf, -2.0], np.float32))
    batch = pack([turn], layout(), reduction=SEQ_MEAN).batch
    assert np.isfinite(batch.teacher_logprobs).all()
    assert batch.loss_weight[0, 3:5].tolist() == [0, 1]


def test_demonstrations_weigh_every_response_token_of_any_speaker():
    turns = [
        make_turn(0, 0, prompt=4, tokens=3, speaker=Speaker.TEACHER),
        make_turn(1, 0, prompt=2, tokens=5, speaker=Speaker.TEACHER, teacher_logprobs=None),
    ]
    packed = pack_demonstrations(turns, layout(row_length=16), reduction="token-mean")
    assert packed.batch.segment_ids[0, :14].tolist() == [1] * 7 + [2] * 7
    expected = np.array([0] * 4 + [1] * 3 + [0] * 2 + [1] * 5) / 8
    np.testing.assert_allclose(packed.batch.loss_weight[0, :14], expected, rtol=1e-6)
    assert not packed.batch.teacher_logprobs.any()
    assert not packed.batch.behaviour_logprobs.any()
