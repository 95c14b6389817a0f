import numpy as np
import pytest
from made_turns import make_turn, misaligned

from jopd.experience.validity import make_candidate, supervised_tokens, total_tokens
from jopd.types import Speaker


def is_valid(turn):
    return make_candidate(turn, first_seen=0).valid


def test_a_complete_turn_is_valid_and_has_its_score():
    candidate = make_candidate(make_turn(score=2.5, tokens=4), first_seen=7)
    assert candidate.valid
    assert candidate.first_seen == 7
    assert candidate.disagreement == 2.5
    assert candidate.effective_tokens == 4


def test_a_response_cut_at_its_limit_stays_valid():
    assert is_valid(make_turn(response_truncated=True))


def test_a_missing_teacher_mask_means_all_usable():
    assert supervised_tokens(make_turn(tokens=3, teacher_mask=None)).tolist() == [True] * 3


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt_truncated": True},
        {"prompt": 0},
        {"teacher_logprobs": None},
        {"response_mask": np.array([False, False])},
        {"teacher_mask": np.array([False, False])},
        {
            "response_mask": np.array([True, False]),
            "teacher_mask": np.array([False, True]),
        },
        {"teacher_logprobs": np.array([np.nan, -np.inf], np.float32)},
        {"behaviour_logprobs": np.array([np.nan, -1.0], np.float32)},
        {"speaker": Speaker.TEACHER},
    ],
)
def test_turns_without_usable_supervision_are_invalid(changes):
    assert not is_valid(make_turn(**changes))


@pytest.mark.parametrize(
    "name", ["teacher_logprobs", "behaviour_logprobs", "response_mask", "teacher_mask"]
)
@pytest.mark.parametrize("length", [1, 3])
def test_misaligned_arrays_make_a_turn_invalid_and_not_a_crash(name, length):
    dtype = bool if name.endswith("mask") else np.float32
    turn = misaligned(make_turn(tokens=2), **{name: np.ones(length, dtype)})
    candidate = make_candidate(turn, first_seen=0)
    assert not candidate.valid
    assert candidate.effective_tokens == 0
    assert candidate.disagreement == 0


def test_a_score_that_is_not_finite_is_masked_and_the_others_count():
    turn = make_turn(teacher_logprobs=np.array([-3.0, -np.inf, -1.0], np.float32), tokens=3)
    assert supervised_tokens(turn).tolist() == [True, False, True]
    candidate = make_candidate(turn, first_seen=0)
    assert candidate.valid
    assert candidate.disagreement == 2.0
    assert candidate.effective_tokens == 2


def test_only_tokens_that_both_masks_admit_are_scored():
    turn = make_turn(
        tokens=3,
        response_mask=np.array([True, True, False]),
        teacher_mask=np.array([False, True, True]),
        teacher_logprobs=np.array([-9.0, -1.5, -9.0], np.float32),
    )
    assert supervised_tokens(turn).tolist() == [False, True, False]
    assert make_candidate(turn, first_seen=0).disagreement == 0.5


def test_a_dead_turn_has_score_zero():
    candidate = make_candidate(make_turn(score=4.0, dead=True), first_seen=0)
    assert not candidate.valid
    assert candidate.disagreement == 0
    assert candidate.effective_tokens == 0


def test_total_tokens_count_the_prompt():
    assert total_tokens(make_turn(prompt=5, tokens=2)) == 7
