"""Which row of the scorer's KV pool holds which tokens.

Bookkeeping on the host only, used by the scorer's worker thread alone. The model is frozen, so a
row stays true until it is overwritten; nothing is ever flushed.
"""

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from jopd.types import HostInts

_FIRST_COMPARED = 64  # tokens compared with every row before the rows that differ are left out
_EMPTY = -1
_NOBODY = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """Where the KV of a prefix can be read.

    Attributes:
      row: the row to read.
      shared: how many leading tokens it shares; may be 0.
    """

    row: int
    shared: int


class PoolIndex:
    """Tokens of every row of the pool, who wrote it, and when it was last of use."""

    def __init__(self, rows: int, length: int):
        self._tokens = np.full((rows, length), _EMPTY, np.int32)
        self._held = np.zeros(rows, np.int64)
        self._owner = np.full(rows, _NOBODY, np.int64)
        self._row_of: dict[int, int] = {}
        self._last_use = np.zeros(rows, np.int64)
        self._clock = 0

    def find(self, ids: HostInts, *, rollout_id: int, limit: int, busy: Set[int]) -> Reuse | None:
        """The row with the longest common prefix with `ids`.

        A rollout that goes on from all that its own row holds is not compared with the others.

        Args:
          ids: the tokens whose KV is wanted.
          rollout_id: whose tokens they are.
          limit: how many of them may be reused at most.
          busy: rows that are being written; they cannot be read before the next batch.

        Returns:
          The best row that can be read now; None if waiting for the next batch would at least halve
          what is left to compute, or if every row is busy.
        """
        own = self._row_of.get(rollout_id)
        if own is not None and own not in busy:
            held = int(self._held[own])
            if held <= limit and np.array_equal(self._tokens[own, :held], ids[:held]):
                return Reuse(row=own, shared=held)
        shared = np.minimum(self._shared(ids), limit)
        readable = np.ones(len(shared), bool)
        readable[list(busy)] = False
        if not readable.any():
            return None
        row = int(np.argmax(np.where(readable, shared, _EMPTY)))
        best = shared.max()
        if best > shared[row] and 2 * (len(ids) - best) <= len(ids) - shared[row]:
            return None
        return Reuse(row=row, shared=int(shared[row]))

    def claim(self, ids: HostInts, *, rollout_id: int, reuse: Reuse, busy: Set[int]) -> int:
        """Chooses the row that will hold `ids`: the rollout's own, else the longest unused one.

        Args:
          ids: what the row holds once the batch has run.
          rollout_id: the new owner.
          reuse: what `find` gave; the row it reads counts as used.
          busy: rows that may not be overwritten; never all of them.
        """
        self._clock += 1
        if reuse.shared:
            self._last_use[reuse.row] = self._clock
        row = self._row_of.get(rollout_id)
        if row is None or row in busy:
            ages = self._last_use.copy()
            ages[list(busy)] = self._clock + 1
            row = int(np.argmin(ages))
        self._hand_over(row, rollout_id)
        self._last_use[row] = self._clock
        self._tokens[row, : len(ids)] = ids
        self._tokens[row, len(ids) :] = _EMPTY
        self._held[row] = len(ids)
        return row

    def _hand_over(self, row: int, rollout_id: int) -> None:
        """Keeps `_owner` and `_row_of` inverse to each other."""
        if (former := self._row_of.pop(rollout_id, None)) is not None:
            self._owner[former] = _NOBODY
        if self._owner[row] != _NOBODY:
            del self._row_of[int(self._owner[row])]
        self._owner[row] = rollout_id
        self._row_of[rollout_id] = row

    def _shared(self, ids: HostInts) -> Int[np.ndarray, " rows"]:
        """Length of the common prefix of `ids` with every row.

        The compared stretch doubles, and rows that have differed are left out, so the cost follows
        what is really shared.
        """
        shared = np.zeros(len(self._tokens), np.int64)
        alive = np.flatnonzero(self._tokens[:, 0] != _EMPTY)
        start, width = 0, _FIRST_COMPARED
        while alive.size and start < len(ids):
            stop = min(start + width, len(ids))
            same = self._tokens[alive, start:stop] == ids[start:stop]
            whole = same.all(axis=1)
            shared[alive] = np.where(whole, stop, start + same.argmin(axis=1))
            alive, start, width = alive[whole], stop, 2 * width
        return shared
