"""The frozen teacher: log-probs of given responses, batched over requests, incremental over turns.

`score` may be awaited by hundreds of coroutines on any event loop. One worker thread takes what
waits, puts requests of similar length into one batch, and starts the next batch while the last one
still runs. A prompt that begins like something scored before is computed from where it differs; a
stretch longer than the largest bucket takes several batches.
"""

import asyncio
import threading
import time
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Literal

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int

from jopd.engines.base import EngineError, Score, ScorerCounts
from jopd.engines.score_desk import Desk, Request
from jopd.engines.score_planner import Plan, Planner, batch_shapes, scored_places
from jopd.engines.score_program import ScoreProgram
from jopd.models.architectures import DecoderConfig
from jopd.parallel import make_mesh
from jopd.types import HostBools, HostInts, Params

PromptIds = Int[np.ndarray, " prompt"]
ResponseIds = Int[np.ndarray, " response"]
FloatType = Literal["float32", "bfloat16"]

_CLOSE_DEADLINE_S = 5.0  # a compilation cannot be interrupted: the thread ends after it


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerSettings:
    """Sizes and types of the scorer.

    Attributes:
      cache_rows: rows of the KV pool; each remembers one rollout, and the longest unused one is
        overwritten. More rows than rollouts in flight keep every turn incremental.
      max_context: prompt and response together at most, in tokens.
      max_batch_rows: rows of a batch at most.
      max_batch_tokens: rows times length of a batch at most; bounds the memory of activations and
        attention scores.
      buckets: lengths that a stretch of new tokens is padded to, increasing.
      head_chunk: tokens whose logits exist at one time.
      compute_dtype: type of activations and matrices, "float32" or "bfloat16".
      cache_dtype: type of the KV pool.
      deadline_s: a score fails when no batch was started or finished for so long; compiling
        counts as no progress.
    """

    cache_rows: int
    max_context: int
    max_batch_rows: int
    max_batch_tokens: int
    buckets: tuple[int, ...]
    head_chunk: int
    compute_dtype: FloatType
    cache_dtype: FloatType
    deadline_s: float

    def __post_init__(self):
        """Refuses sizes that do not fit each other."""
        buckets = self.buckets
        if not buckets or sorted(set(buckets)) != list(buckets) or buckets[0] < 1:
            raise ValueError(f"buckets must be positive and increasing, got {buckets}")
        if buckets[-1] > self.max_context:
            raise ValueError(
                f"buckets must be <= max_context = {self.max_context}, got {buckets[-1]}"
            )
        if not 1 <= self.max_batch_rows <= self.cache_rows:
            raise ValueError(
                f"max_batch_rows must be in 1 .. cache_rows = {self.cache_rows}, "
                f"got {self.max_batch_rows}"
            )


class TeacherScorer:
    """Scores responses with a frozen decoder on its own devices.

    `params` must not be donated by anyone while the scorer lives.

    Args:
      params: the teacher's parameters, on the host or on any device.
      config: its architecture.
      settings: sizes and types.
      known_ids: [student vocabulary] True where the teacher knows the id; None: it knows them all.
        An id past the teacher's vocabulary is unknown, and read as the last one it has.
      mesh: with axes "fsdp" and "tensor"; None: the device where the parameters lie.
    """

    def __init__(
        self,
        params: Params,
        config: DecoderConfig,
        settings: ScorerSettings,
        *,
        known_ids: Bool[np.ndarray, " student_vocab"] | None = None,
        mesh: Mesh | None = None,
    ):
        self._settings = settings
        every_id = np.ones(config.vocab_size, bool)
        self._known = every_id if known_ids is None else known_ids[: config.vocab_size]
        self._program = ScoreProgram(
            params,
            config,
            pool_rows=settings.cache_rows,
            pool_length=settings.max_context,
            head_chunk=settings.head_chunk,
            compute_dtype=settings.compute_dtype,
            cache_dtype=settings.cache_dtype,
            mesh=mesh or _mesh_of_one(params),
        )
        shapes = batch_shapes(
            buckets=settings.buckets,
            max_context=settings.max_context,
            max_rows=settings.max_batch_rows,
            max_tokens=settings.max_batch_tokens,
        )
        self._planner = Planner(shapes, pool_rows=settings.cache_rows)
        self._vocab_size = config.vocab_size
        self._counts = ScorerCounts()
        self._progress_s = time.monotonic()
        self._desk = Desk()
        self._thread = threading.Thread(target=self._work, name="teacher-scorer")
        self._thread.start()

    @property
    def counts(self) -> ScorerCounts:
        """What the scorer has done so far."""
        return self._counts

    async def score(self, prompt: PromptIds, response: ResponseIds, *, rollout_id: int) -> Score:
        """Log-probs of `response` after `prompt`; see `base.Scorer`.

        Raises:
          ValueError: the prompt is empty, an id is negative, or both together pass `max_context`.
          EngineError: the scorer has died or is closed, or the deadline of `settings` has passed.
        """
        request = self._request(prompt, response, rollout_id)
        if not len(response):
            return Score(logprobs=request.logprobs, mask=request.mask)
        self._desk.submit(request)
        return await self._answer_of(request)

    async def _answer_of(self, request: Request) -> Score:
        deadline_s, asked_s = self._settings.deadline_s, time.monotonic()
        answer = asyncio.wrap_future(request.answer)
        try:
            while not answer.done():
                left_s = max(asked_s, self._progress_s) + deadline_s - time.monotonic()
                if left_s <= 0:
                    raise EngineError(f"no score and no progress for {deadline_s:g} s")
                await asyncio.wait([answer], timeout=left_s)
            return answer.result()
        finally:
            answer.cancel()

    def close(self) -> None:
        """Fails every waiting and later request with EngineError and ends the worker."""
        self._desk.fail(EngineError("the scorer is closed"))
        self._thread.join(_CLOSE_DEADLINE_S)

    def _request(self, prompt: PromptIds, response: ResponseIds, rollout_id: int) -> Request:
        total = len(prompt) + len(response)
        if not len(prompt) or total > self._settings.max_context:
            raise ValueError(
                f"prompt must have a token and fit max_context = {self._settings.max_context} "
                f"with its response, got {len(prompt)} + {len(response)} = {total} tokens"
            )
        ids = np.concatenate([prompt, response]).astype(np.int32)
        if ids.min() < 0:
            raise ValueError(f"ids must not be negative, got {ids.min()}")
        return Request(
            ids=np.minimum(ids, self._vocab_size - 1),
            first=len(prompt) - 1,
            mask=self._is_known(ids[len(prompt) :]),
            rollout_id=rollout_id,
        )

    def _is_known(self, ids: HostInts) -> HostBools:
        listed = ids < len(self._known)
        return listed & self._known[np.where(listed, ids, 0)]

    def _work(self) -> None:
        """The worker: starts batches, answers those before them, until the desk closes."""
        with _Surfacing(self._desk):
            running: list[tuple[Plan, Float[Array, "B T"]]] = []
            while (waiting := self._desk.wait(block=not running)) is not None:
                started = [self._start(plan) for plan in self._planner.plan(waiting)]
                for plan, logprobs in running:
                    self._finish(plan, logprobs)
                running = started

    def _start(self, plan: Plan) -> tuple[Plan, Float[Array, "B T"]]:
        logprobs = self._program.launch(plan.batch, context=plan.context)
        counts = self._counts
        self._counts = replace(
            counts,
            batches=counts.batches + 1,
            batch_places=counts.batch_places + plan.batch.tokens.size,
            computed_tokens=counts.computed_tokens + sum(s.stop - s.start for s in plan.stretches),
            reused_tokens=counts.reused_tokens + sum(s.reused for s in plan.stretches),
            compilations=len(self._program.shapes),
        )
        self._progress_s = time.monotonic()
        return plan, logprobs

    def _finish(self, plan: Plan, logprobs: Float[Array, "B T"]) -> None:
        for stretch, row in zip(plan.stretches, np.asarray(logprobs), strict=False):
            in_row, in_response = scored_places(stretch)
            stretch.request.logprobs[in_response] = row[in_row]
            if stretch.is_last:
                self._answer(stretch.request)
        self._progress_s = time.monotonic()

    def _answer(self, request: Request) -> None:
        finite = np.isfinite(request.logprobs)
        mask = request.mask & finite
        counts = self._counts
        self._counts = replace(
            counts,
            scored_tokens=counts.scored_tokens + int(mask.sum()),
            masked_tokens=counts.masked_tokens + int((~mask).sum()),
            non_finite_tokens=counts.non_finite_tokens + int((~finite).sum()),
        )
        self._desk.answer(request, Score(logprobs=np.where(mask, request.logprobs, 0.0), mask=mask))


def _mesh_of_one(params: Params) -> Mesh:
    leaf = jax.tree.leaves(params)[0]
    devices = leaf.devices() if isinstance(leaf, jax.Array) else jax.local_devices()[:1]
    return make_mesh(list(devices), {"fsdp": 1, "tensor": 1})


class _Surfacing:
    """Ends a worker thread quietly and hands what ended it to everyone who waits."""

    def __init__(self, desk: Desk):
        self._desk = desk

    def __enter__(self) -> None:
        """Nothing to set up."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Fails the desk with `failure` as the cause."""
        if failure is not None:
            error = EngineError(f"the scorer died: {failure!r}")
            error.__cause__ = failure
            self._desk.fail(error)
        return True
