"""Which requests share the next batch of the scorer, and what shape it has.

Every size is one of a few, so the number of programs is bounded: rows and contexts grow by fours,
the lengths of stretches are the buckets.
"""

import itertools
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from jopd.engines.score_cache import PoolIndex, Reuse
from jopd.engines.score_desk import Request
from jopd.engines.score_program import ScoreBatch, empty_batch

_LEAST_FILL = 0.75  # a longer stretch is cut in two rather than padded by more than this leaves
_GROWTH = 4  # from one number of rows or context to the next
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

    def row_counts(self, length: int) -> tuple[int, ...]:
        """Numbers of rows that a batch of this length may have, increasing."""
        most = self.most_rows(length)
        return (*itertools.takewhile(lambda rows: rows < most, _powers()), most)

    def rows(self, count: int, length: int) -> int:
        """Rows of the next batch of `count` stretches: those that they fill, at least by half."""
        return max(rows for rows in self.row_counts(length) if count >= rows / 2)

    def all(self) -> frozenset[tuple[int, int, int]]:
        """(rows, length, context) of every batch that can occur."""
        return frozenset(
            (rows, length, context)
            for length, context in itertools.product(self.buckets, self.contexts)
            for rows in self.row_counts(length)
        )


def batch_shapes(
    *, buckets: tuple[int, ...], max_context: int, max_rows: int, max_tokens: int
) -> BatchShapes:
    """Shapes whose contexts grow from the largest bucket up to the whole."""
    contexts = [buckets[-1]]
    while contexts[-1] < max_context:
        contexts.append(min(_GROWTH * contexts[-1], max_context))
    return BatchShapes(
        buckets=buckets, contexts=tuple(contexts), max_rows=max_rows, max_tokens=max_tokens
    )


def _powers() -> Iterator[int]:
    return (_GROWTH**exponent for exponent in itertools.count())


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

    def plan(self, waiting: Sequence[Request]) -> tuple[Plan, ...]:
        """Takes the oldest request and those of its shape; marks what it takes as started.

        Args:
          waiting: requests that are not fully started, oldest first; at least one.

        Returns:
          Batches that may run in any order: none reads a row that another one writes.
        """
        stretches, (length, context) = self._take(waiting)
        plans = []
        while stretches:
            rows = self._shapes.rows(len(stretches), length)
            plans.append(self._filled(stretches[:rows], rows, length, context))
            stretches = stretches[rows:]
        return tuple(plans)

    def _take(self, waiting: Sequence[Request]) -> tuple[list[Stretch], tuple[int, int]]:
        """Stretches of one length and context, no more than a full batch; and these two sizes."""
        stretches: list[Stretch] = []
        chosen = (0, 0)
        written: set[int] = set()
        read: set[int] = set()
        for request in waiting[: _LOOKAHEAD * self._shapes.max_rows]:
            reuse = self._index.find(
                request.inputs,
                rollout_id=request.rollout_id,
                limit=max(request.first, request.started),
                busy=written,
            )
            if reuse is None:
                continue
            stop, sizes = self._sizes(request, reuse)
            if not stretches:
                chosen = sizes
            if sizes != chosen:
                continue
            stretch = self._start(request, reuse, stop, written | read)
            stretches.append(stretch)
            written.add(stretch.destination)
            read.update([reuse.row] if reuse.shared else [])
            full = len(stretches) == self._shapes.most_rows(chosen[0])
            if full or len(written | read) == self._pool_rows:
                break
        return stretches, chosen

    def _sizes(self, request: Request, reuse: Reuse) -> tuple[int, tuple[int, int]]:
        """Where the next stretch stops; its length and its context."""
        length = self._shapes.length(len(request.inputs) - reuse.shared)
        stop = min(reuse.shared + length, len(request.inputs))
        return stop, (length, self._shapes.context(stop))

    def _start(self, request: Request, reuse: Reuse, stop: int, busy: Set[int]) -> Stretch:
        destination = self._index.claim(
            request.inputs[:stop], rollout_id=request.rollout_id, reuse=reuse, busy=busy
        )
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

    def _filled(self, stretches: Sequence[Stretch], rows: int, length: int, context: int) -> Plan:
        batch = empty_batch(rows, length, pool_rows=self._pool_rows, context=context)
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
