"""Which tokens of a turn are supervised, and whether the turn may be trained at all."""

import math

import numpy as np

from jopd.algorithms.distillation import disagreement
from jopd.types import Candidate, HostBools, Speaker, Turn


def supervised_tokens(turn: Turn) -> HostBools:
    """[R] True where a token is the student's own and has a usable teacher score.

    No token of a turn that is not the student's, was not scored, or whose arrays do not align is
    supervised. A score that is not finite is not usable.
    """
    scores = turn.teacher_logprobs
    if turn.speaker is not Speaker.STUDENT or scores is None or not _is_aligned(turn):
        return np.zeros(len(turn.response_tokens), bool)
    usable = np.isfinite(scores) if turn.teacher_mask is None else turn.teacher_mask
    return turn.response_mask & usable & np.isfinite(scores)


def make_candidate(turn: Turn, *, first_seen: int) -> Candidate:
    """Stamps a turn that enters the pool, and computes what the composer needs of it.

    VALID(u) of DivOPD's Algorithm 1: a complete prompt, tokens, log-probs of both models for every
    one of them, at least one supervised token, and a finite score. A response that was cut at its
    length limit stays valid.

    Args:
      turn: the turn, with behaviour and teacher log-probs.
      first_seen: update at which it enters the pool.
    """
    mask = supervised_tokens(turn)
    score = 0.0
    if turn.teacher_logprobs is not None and mask.any():
        score = float(disagreement(turn.behaviour_logprobs, turn.teacher_logprobs, mask))
    is_complete = not turn.prompt_truncated and len(turn.prompt_tokens) > 0
    return Candidate(
        turn=turn,
        valid=bool(is_complete and mask.any() and math.isfinite(score)),
        first_seen=first_seen,
        disagreement=score,
        effective_tokens=int(mask.sum()),
    )


def total_tokens(turn: Turn) -> int:
    """Prompt and response tokens: what training on the turn costs."""
    return len(turn.prompt_tokens) + len(turn.response_tokens)


def _is_aligned(turn: Turn) -> bool:
    arrays = (turn.response_mask, turn.behaviour_logprobs, turn.teacher_logprobs, turn.teacher_mask)
    length = len(turn.response_tokens)
    return all(len(array) == length for array in arrays if array is not None)
