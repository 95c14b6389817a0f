"""Turns as JSON: the form in which they are recorded and checkpointed. Round trips are exact."""

import dataclasses
from typing import Any

import numpy as np

from jopd.types import Candidate, Speaker, Turn

Record = dict[str, Any]
"""What one line of JSON holds."""

_ARRAYS = {
    "prompt_tokens": np.int32,
    "response_tokens": np.int32,
    "response_mask": bool,
    "behaviour_logprobs": np.float32,
    "teacher_logprobs": np.float32,
    "teacher_mask": bool,
}
_FIELDS = tuple(field.name for field in dataclasses.fields(Turn))


def turn_to_record(turn: Turn) -> Record:
    """Every field of a turn under its own name; arrays become lists, masks lists of 0 and 1."""
    values = dataclasses.asdict(turn)
    for name, dtype in _ARRAYS.items():
        if values[name] is not None:
            stored = np.uint8 if dtype is bool else dtype
            values[name] = values[name].astype(stored).tolist()
    values["speaker"] = turn.speaker.value
    return values


def turn_from_record(record: Record) -> Turn:
    """The turn of a record; further keys are ignored.

    Raises:
      KeyError: a field is missing.
    """
    values: Record = {name: record[name] for name in _FIELDS}
    for name, dtype in _ARRAYS.items():
        if values[name] is not None:
            values[name] = np.array(values[name], dtype)
    values["speaker"] = Speaker(values["speaker"])
    return Turn(**values)


def candidate_to_record(candidate: Candidate) -> Record:
    """A candidate with its stamp; the turn's record under "turn"."""
    return {
        "turn": turn_to_record(candidate.turn),
        "valid": candidate.valid,
        "first_seen": candidate.first_seen,
        "disagreement": candidate.disagreement,
        "effective_tokens": candidate.effective_tokens,
    }


def candidate_from_record(record: Record) -> Candidate:
    """The candidate of a record."""
    values: Record = {**record, "turn": turn_from_record(record["turn"])}
    return Candidate(**values)
