"""Which requests share the next batch of the scorer, and what shape it has.

Every size is rounded up to one of a few, so the number of programs is bounded: rows to powers of
two, the length of a stretch to the buckets, the part of the cache that takes part to the contexts.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from jopd.engines.score_cache import PoolIndex, Reuse
from jopd.engines.score_desk import Request
from jopd.engines.score_program import ScoreBatch, empty_batch

_LEAST_FILL = 0.75  # a longer stretch is cut in two rather than padded by more than this leaves
_LOOKAHEAD = 2  # waiting requests that are looked at, in full batches


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchShapes:
    """The sizes that batches may have.

    Attributes:
      buckets: lengths of a stretch, increasing.
      contexts: leading parts of the cache, increasing; the last is the whole.
      max_rows: rows of a batch at most.
      max_tokens: rows times length at most, unless one row alone is longer.
    """

    buckets: tuple[int, ...]
    contexts: tuple[int, ...]
    max_rows: int
    max_tokens: int

    def length(self, tokens: int) -> int:
        """The bucket for the next stretch of `tokens`; the stretch may be shorter or longer."""
        index = next((i for i, size in enumerate(self.buckets) if size >= tokens), None)
        if index is None:
            return self.buckets[-1]
        fits = index == 0 or tokens >= _LEAST_FILL * self.buckets[index]
        return self.buckets[index if fits else index - 1]

    def context(self, tokens: int) -> int:
        """The smallest context that holds `tokens`."""
        return next(size for size in self.contexts if size >= tokens)

    def most_rows(self, length: int) -> int:
        """Rows of a full batch of this length."""
        return max(1, min(self.max_rows, self.max_tokens // length))

    def rows(self, count: int, length: int) -> int:
        """The smallest number of rows that holds `count`: a power of two, or a full batch."""
        return min(1 << (count - 1).bit_length(), self.most_rows(length))

    def all(self) -> frozenset[tuple[int, int, int]]:
        """(rows, length, context) of every batch that can occur."""
        return frozenset(
            (self.rows(count, length), length, context)
            for length, context in itertools.product(self.buckets, self.contexts)
            for count in range(1, self.most_rows(length) + 1)
        )


def batch_shapes(
    *, buckets: tuple[int, ...], max_context: int, max_rows: int, max_tokens: int
) -> BatchShapes:
    """Shapes whose contexts double from the largest bucket up to the whole."""
    contexts = [buckets[-1]]
    while contexts[-1] < max_context:
        contexts.append(min(2 * contexts[-1], max_context))
    return BatchShapes(
        buckets=buckets, contexts=tuple(contexts), max_rows=max_rows, max_tokens=max_tokens
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Places start .. stop - 1 of a request, computed in one batch.

    Attributes:
      request: whose places they are.
      start: the first place; everything before it is read from `source`.
      stop: the place after the last.
      reused: tokens that nobody has computed for this request.
      source: pool row that is read.
      destination: pool row that is written.
    """

    request: Request
    start: int
    stop: int
    reused: int
    source: int
    destination: int

    @property
    def is_last(self) -> bool:
        """The request is complete once this stretch is computed."""
        return self.stop == len(self.request.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One batch and whose stretches its rows are."""

    stretches: tuple[Stretch, ...]
    batch: ScoreBatch
    context: int


class Planner:
    """Puts waiting requests into batches, reusing what the pool's rows hold."""

    def __init__(self, shapes: BatchShapes, *, pool_rows: int):
        self._shapes = shapes
        self._pool_rows = pool_rows
        self._index = PoolIndex(pool_rows, shapes.contexts[-1])

    def plan(self, waiting: Sequence[Request]) -> Plan:
        """Takes the oldest request and those of its shape; marks what it takes as started.

        Args:
          waiting: requests that are not fully started, oldest first; at least one.
        """
        shape: tuple[int, int] | None = None
        stretches: list[Stretch] = []
        busy: set[int] = set()
        most = len(waiting)
        for request in waiting[: _LOOKAHEAD * self._shapes.max_rows]:
            limit = max(request.first, request.started)
            reuse = self._index.find(
                request.inputs, rollout_id=request.rollout_id, limit=limit, busy=busy
            )
            if reuse is None:
                continue
            length = self._shapes.length(len(request.inputs) - reuse.shared)
            stop = min(reuse.shared + length, len(request.inputs))
            context = self._shapes.context(stop)
            if shape is None:
                shape, most = (length, context), self._shapes.most_rows(length)
            if shape == (length, context):
                stretches.append(self._take(request, reuse, stop, busy))
            if len(stretches) == most:
                break
        assert shape is not None, "nothing is busy when the oldest request is looked at"
        return self._filled(stretches, *shape)

    def _take(self, request: Request, reuse: Reuse, stop: int, busy: set[int]) -> Stretch:
        destination = self._index.claim(
            request.inputs[:stop], rollout_id=request.rollout_id, reuse=reuse, busy=busy
        )
        busy.add(destination)
        reused = 0 if request.started else reuse.shared
        request.started = stop
        return Stretch(
            request=request,
            start=reuse.shared,
            stop=stop,
            reused=reused,
            source=reuse.row,
            destination=destination,
        )

    def _filled(self, stretches: Sequence[Stretch], length: int, context: int) -> Plan:
        batch = empty_batch(
            self._shapes.rows(len(stretches), length),
            length,
            pool_rows=self._pool_rows,
            context=context,
        )
        for row, stretch in enumerate(stretches):
            _fill(batch, row, stretch)
        return Plan(stretches=tuple(stretches), batch=batch, context=context)


def scored_places(stretch: Stretch) -> tuple[slice, slice]:
    """The places of a stretch that predict response tokens: in its batch row, in the response."""
    first = stretch.request.first
    begin = max(stretch.start, first)
    end = max(stretch.stop, begin)  # a stretch inside the prompt has none
    return (
        slice(begin - stretch.start, end - stretch.start),
        slice(begin - first, end - first),
    )


def _fill(batch: ScoreBatch, row: int, stretch: Stretch) -> None:
    request, start, stop = stretch.request, stretch.start, stretch.stop
    width = stop - start
    batch.sources[row], batch.destinations[row] = stretch.source, stretch.destination
    batch.tokens[row, :width] = request.ids[start:stop]
    batch.positions[row, :width] = range(start, stop)
    batch.targets[row, :width] = request.ids[start + 1 : stop + 1]
    in_row, in_response = scored_places(stretch)
    batch.mask[row, in_row] = request.mask[in_response]
