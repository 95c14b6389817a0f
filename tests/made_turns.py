"""Turns with a chosen score, made by hand."""

import numpy as np

from jopd.experience.reader import ComposerSettings
from jopd.types import Speaker, Turn


def make_turn(
    rollout_id=0, index=0, version=0, *, score=0.0, tokens=2, prompt=3, dead=False, **changes
):
    """A student's turn whose disagreement is `score`, all of it on the first response token.

    Tokens are numbered so that every one of a small test is another: the prompt counts up from
    1000 * rollout_id + 100 * index, the response goes on from there.
    """
    first = 1000 * rollout_id + 100 * index + 1
    behaviour = np.full(tokens, -1.0, np.float32)
    teacher = behaviour - np.eye(1, tokens, dtype=np.float32)[0] * np.float32(score)
    fields = {
        "rollout_id": rollout_id,
        "index": index,
        "task_id": f"task-{rollout_id}",
        "domain": "made",
        "policy_version": version,
        "speaker": Speaker.STUDENT,
        "sampling_temperature": 1.0,
        "prompt_tokens": np.arange(first, first + prompt, dtype=np.int32),
        "response_tokens": np.arange(first + prompt, first + prompt + tokens, dtype=np.int32),
        "response_mask": np.full(tokens, not dead),
        "behaviour_logprobs": behaviour,
        "teacher_logprobs": teacher,
        "teacher_mask": None,
        "prompt_truncated": dead,
        "response_truncated": False,
    }
    return Turn(**fields | changes)


def make_rollout_turns(rollout_id, count, version=0, *, scores=None, dead=()):
    """The turns of one rollout in order."""
    scores = [0.0] * count if scores is None else scores
    return [
        make_turn(rollout_id, i, version, score=scores[i], dead=i in dead) for i in range(count)
    ]


def misaligned(turn, **changes):
    """A turn with arrays that no constructor would accept."""
    for name, value in changes.items():
        object.__setattr__(turn, name, value)
    return turn


def settings(**changes):
    """Composer settings of the worked example, with changes."""
    defaults = {
        "composer": "divopd",
        "batch_size": 6,
        "pool_multiplier": 2,
        "first_pass_cap": 2,
        "max_staleness": 2,
        "max_pending_age": 8,
        "age_offset": 0,
        "fill": "available",
        "seed": 0,
    }
    return ComposerSettings(**defaults | changes)


def names(candidates):
    """(rollout, turn) of candidates or turns."""
    turns = [getattr(c, "turn", c) for c in candidates]
    return [(turn.rollout_id, turn.index) for turn in turns]
