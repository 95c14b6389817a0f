"""Which tokens' keys and values lie in which row of the KV cache: the host's side of prefix reuse.

The prefill thread asks (`match`), the generate thread claims rows, the detokenize thread releases
them, whoever swaps the weights flushes. A row's tokens name only keys and values that programs
already launched have computed, or will have before any program launched later.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from jopd.types import HostInts

_NOTHING = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """A row that holds the beginning of a prompt.

    Attributes:
      row: row of the cache.
      length: how many leading tokens of the prompt it holds; at least one token is left to compute.
    """

    row: int
    length: int


@dataclass(slots=True)
class _Row:
    tokens: np.ndarray
    busy: bool
    claimed_at: int  # number of flushes before the claim
    last_used: int


class PrefixIndex:
    """Rows of a KV cache, what they hold, and which one a prompt should get.

    Args:
      num_rows: rows of the cache.
      cost: work of computing so many tokens (their padded count).
      reuse: False makes every prompt find nothing.
    """

    def __init__(self, num_rows: int, *, cost: Callable[[int], int], reuse: bool = True):
        self._rows = [_Row(_NOTHING, False, 0, 0) for _ in range(num_rows)]
        self._cost = cost
        self._reuse = reuse
        self._clock = 0
        self._flushes = 0
        self._lock = threading.Lock()

    def match(self, prompt: HostInts) -> Match | None:
        """The row with the longest common prefix, or None when it is not worth a copy.

        It is when it holds half of the prompt, or lowers the padded count that is computed.
        """
        if not self._reuse:
            return None
        with self._lock:
            shared = [common_prefix_length(row.tokens, prompt) for row in self._rows]
        best = int(np.argmax(shared))
        length = min(shared[best], len(prompt) - 1)
        cheaper = self._cost(len(prompt) - length) < self._cost(len(prompt))
        worth_it = length > 0 and (cheaper or 2 * length >= len(prompt))
        return Match(row=best, length=length) if worth_it else None

    def claim(self, prompt: HostInts, match: Match | None = None) -> int:
        """Takes a free row for `prompt`: the matched one if little is lost, else the oldest.

        A matched row is extended in place when the prompt goes on from most of what it holds;
        otherwise its history may still be wanted and the match is copied from it.

        Raises:
          RuntimeError: every row is busy.
        """
        with self._lock:
            free = [index for index, row in enumerate(self._rows) if not row.busy]
            if not free:
                raise RuntimeError(f"all {len(self._rows)} rows of the cache are busy")
            chosen = min(free, key=lambda index: self._rows[index].last_used)
            if match is not None and self._goes_on_from(match):
                chosen = match.row
            self._clock += 1
            self._rows[chosen] = _Row(prompt, True, self._flushes, self._clock)
            return chosen

    def _goes_on_from(self, match: Match) -> bool:
        row = self._rows[match.row]
        return not row.busy and 2 * match.length >= len(row.tokens)

    def release(self, row: int, tokens: HostInts) -> None:
        """Frees a row that now holds `tokens`; after a flush it holds nothing."""
        with self._lock:
            self._clock += 1
            kept = tokens if self._rows[row].claimed_at == self._flushes else _NOTHING
            self._rows[row] = _Row(kept, False, self._flushes, self._clock if len(kept) else 0)

    def flush(self) -> None:
        """Forgets the content of every row: the weights that computed it are gone."""
        with self._lock:
            self._flushes += 1
            for row in self._rows:
                row.tokens = _NOTHING
                row.last_used = 0


def common_prefix_length(
    first: Int[np.ndarray, " first"], second: Int[np.ndarray, " second"]
) -> int:
    """How many leading tokens two sequences share."""
    length = min(len(first), len(second))
    different = np.flatnonzero(first[:length] != second[:length])
    return int(different[0]) if len(different) else length
