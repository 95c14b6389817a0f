"""Packs the turns of one update into rows of one fixed shape.

Several turns share a row, told apart by segment ids. The weight of a token carries the whole
reduction of the loss, so neither the packing nor a split into micro-batches or devices changes it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from jopd.algorithms.distillation import Reduction, row_weights
from jopd.experience.validity import supervised_tokens, total_tokens
from jopd.types import HostBools, HostFloats, Turn, TurnBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """The one shape of all batches of a run.

    Attributes:
      rows_per_micro_batch: rows of one forward/backward pass.
      row_length: tokens of a row; no turn may be longer.
      max_micro_batches: micro-batches that the arrays have room for.
    """

    rows_per_micro_batch: int
    row_length: int
    max_micro_batches: int

    @classmethod
    def for_batch(
        cls, batch_size: int, *, rows_per_micro_batch: int, row_length: int
    ) -> "RowLayout":
        """The layout that holds any `batch_size` turns, even if each needs a row of its own."""
        return cls(
            rows_per_micro_batch=rows_per_micro_batch,
            row_length=row_length,
            max_micro_batches=-(-batch_size // rows_per_micro_batch),
        )

    @property
    def max_rows(self) -> int:
        """Rows of the arrays."""
        return self.rows_per_micro_batch * self.max_micro_batches


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedBatch:
    """Turns in rows.

    Attributes:
      batch: the arrays, [max_rows, row_length].
      used_micro_batches: how many leading micro-batches hold a turn, at least 1.
      num_turns: turns of the update, dead ones included.
      real_tokens: tokens in the rows.
      fill: share of the places of the used micro-batches that hold a token.
      places: [turns, 2] row and segment id of each turn in the order given; -1 for a dead turn,
        which is not in the rows.
    """

    batch: TurnBatch
    used_micro_batches: int
    num_turns: int
    real_tokens: int
    fill: float
    places: Int[np.ndarray, "turns 2"]


def pack(
    turns: Sequence[Turn], layout: RowLayout, *, reduction: Reduction, num_rows: int | None = None
) -> PackedBatch:
    """Packs turns for distillation: the tokens with a usable teacher score carry weight.

    Args:
      turns: the turns of one update; a dead one takes no place in the rows but counts in N.
      layout: the shape.
      reduction: see `row_weights`.
      num_rows: N of Eq. 3 of DivOPD; None for the number of turns.

    Raises:
      ValueError: a turn is longer than a row, or the rows do not suffice.
    """
    segments = [_supervised_by_teacher(turn) for turn in turns]
    return _pack(segments, layout, reduction, len(turns) if num_rows is None else num_rows)


def pack_demonstrations(
    turns: Sequence[Turn], layout: RowLayout, *, reduction: Reduction
) -> PackedBatch:
    """Packs turns for supervised learning: every response token carries weight, whoever spoke.

    Teacher and behaviour log-probs are 0. Arguments and errors are those of `pack`.
    """
    zeros = [np.zeros(len(turn.response_tokens), np.float32) for turn in turns]
    segments = [
        _Segment(turn, turn.response_mask, nothing, nothing)
        for turn, nothing in zip(turns, zeros, strict=True)
    ]
    return _pack(segments, layout, reduction, len(turns))


@dataclass(frozen=True, slots=True)
class _Segment:
    """A turn and what is trained of it; the arrays are aligned to its response."""

    turn: Turn
    mask: HostBools
    teacher_logprobs: HostFloats
    behaviour_logprobs: HostFloats

    @property
    def name(self) -> str:
        return f"turn {self.turn.index} of rollout {self.turn.rollout_id}"

    @property
    def length(self) -> int:
        return total_tokens(self.turn)


def _supervised_by_teacher(turn: Turn) -> _Segment:
    mask, scores = supervised_tokens(turn), turn.teacher_logprobs
    if scores is None or not mask.any():
        nothing = np.zeros(len(mask), np.float32)
        return _Segment(turn, mask, nothing, nothing)
    return _Segment(turn, mask, scores, turn.behaviour_logprobs)


def _pack(
    segments: Sequence[_Segment], layout: RowLayout, reduction: Reduction, num_rows: int
) -> PackedBatch:
    valid_tokens = np.array([segment.mask.sum() for segment in segments], np.int64)
    weights = row_weights(valid_tokens, reduction=reduction, num_rows=num_rows)
    live = [i for i, segment in enumerate(segments) if segment.mask.any()]
    rows = _first_fit_decreasing({i: segments[i].length for i in live}, layout.row_length)
    _check(segments, live, len(rows), layout)
    batch = _empty_batch(layout)
    places = np.full((len(segments), 2), -1, np.int32)
    for row, members in enumerate(rows):
        start = 0
        for segment_id, i in enumerate(members, start=1):
            _write(batch, (row, start), segment_id, segments[i], float(weights[i]))
            places[i] = row, segment_id
            start += segments[i].length
    real_tokens = sum(segments[i].length for i in live)
    used = max(1, -(-len(rows) // layout.rows_per_micro_batch))
    return PackedBatch(
        batch=batch,
        used_micro_batches=used,
        num_turns=len(segments),
        real_tokens=real_tokens,
        fill=real_tokens / (used * layout.rows_per_micro_batch * layout.row_length),
        places=places,
    )


def _first_fit_decreasing(lengths: dict[int, int], row_length: int) -> list[list[int]]:
    """Members of each row: longest first, each into the first row with room for it."""
    rows: list[list[int]] = []
    room: list[int] = []
    for i in sorted(lengths, key=lambda i: -lengths[i]):
        row = next((r for r, free in enumerate(room) if free >= lengths[i]), len(rows))
        if row == len(rows):
            rows.append([])
            room.append(row_length)
        rows[row].append(i)
        room[row] -= lengths[i]
    return rows


def _check(segments: Sequence[_Segment], live: Sequence[int], rows: int, layout: RowLayout) -> None:
    for segment in (segments[i] for i in live):
        if segment.length > layout.row_length:
            raise ValueError(
                f"{segment.name} has {segment.length} tokens, more than row_length = "
                f"{layout.row_length}; raise it to the longest prompt plus the longest response"
            )
        if len(segment.turn.prompt_tokens) == 0:
            raise ValueError(f"{segment.name} has no prompt: nothing predicts its first token")
        if len(segment.mask) != len(segment.turn.response_tokens):
            raise ValueError(
                f"{segment.name} has {len(segment.turn.response_tokens)} response tokens and a "
                f"mask of {len(segment.mask)}"
            )
    if rows > layout.max_rows:
        raise ValueError(
            f"{len(live)} turns need {rows} rows of {layout.row_length} tokens, but the layout has "
            f"{layout.max_micro_batches} micro-batches of {layout.rows_per_micro_batch} rows"
        )


def _empty_batch(layout: RowLayout) -> TurnBatch:
    shape = (layout.max_rows, layout.row_length)
    return TurnBatch(
        tokens=np.zeros(shape, np.int32),
        positions=np.zeros(shape, np.int32),
        segment_ids=np.zeros(shape, np.int32),
        loss_weight=np.zeros(shape, np.float32),
        teacher_logprobs=np.zeros(shape, np.float32),
        behaviour_logprobs=np.zeros(shape, np.float32),
    )


def _write(
    batch: TurnBatch, place: tuple[int, int], segment_id: int, segment: _Segment, weight: float
) -> None:
    """Writes a segment into the row and from the column that `place` names."""
    row, start = place
    end = start + segment.length
    whole = (row, slice(start, end))
    response = (row, slice(start + len(segment.turn.prompt_tokens), end))
    tokens = (segment.turn.prompt_tokens, segment.turn.response_tokens)
    batch.tokens[whole] = np.concatenate(tokens)
    batch.positions[whole] = np.arange(segment.length)
    batch.segment_ids[whole] = segment_id
    batch.loss_weight[response] = np.where(segment.mask, weight, 0)
    batch.teacher_logprobs[response] = np.where(segment.mask, segment.teacher_logprobs, 0)
    batch.behaviour_logprobs[response] = np.where(segment.mask, segment.behaviour_logprobs, 0)
