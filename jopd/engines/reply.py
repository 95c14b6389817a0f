"""The return channel of one turn, between JetStream's threads and the coroutine that awaits it."""

import asyncio
import contextlib
import time

import numpy as np

from jopd.engines.base import EngineError
from jopd.engines.jetstream_messages import Prompt, TokenSample
from jopd.types import FinishReason, Generation


class Reply:
    """Gathers a turn's samples and resolves its future; stands where JetStream has a multifuture.

    Must be made in the awaiting event loop; every other method may be called from any thread.

    Attributes:
      prompt: the request.
      future: resolves to the `Generation`, or fails with EngineError.
      settled: the outcome is on its way to the future.
      stage: where the turn is, in words.
      progress_s: `time.monotonic()` of its last progress.
    """

    def __init__(self, prompt: Prompt):
        self._loop = asyncio.get_running_loop()
        self._samples: list[TokenSample] = []
        self._cancelled = False
        self.settled = False
        self.prompt = prompt
        self.future: asyncio.Future[Generation] = self._loop.create_future()
        self.move_on("waiting to be admitted")

    def move_on(self, stage: str) -> None:
        """Notes progress."""
        self.stage = stage
        self.progress_s = time.monotonic()

    def add_result(self, samples: list[TokenSample]) -> None:
        """Takes the tokens of one block."""
        self._samples.extend(samples)
        self.move_on("decoding")

    def cancel(self) -> None:
        """Nobody waits any more: the slot is freed at its next block."""
        self._cancelled = True

    def cancelled(self) -> bool:
        """Whether nobody waits any more."""
        return self._cancelled

    def close(self) -> None:
        """The response is whole."""
        if not self._cancelled:
            self._settle(self._generation())

    def fail(self, error: EngineError) -> None:
        """There will be no response."""
        self._settle(error)

    def _generation(self) -> Generation:
        tokens = np.array([id for sample in self._samples for id in sample.token_ids], np.int32)
        stopped = int(tokens[-1]) in self.prompt.sampling.stop_ids
        return Generation(
            tokens=tokens,
            logprobs=np.concatenate([sample.logprobs for sample in self._samples]),
            finish_reason=FinishReason.STOP if stopped else FinishReason.LENGTH,
            policy_version=self._samples[0].policy_version,
        )

    def _settle(self, outcome: Generation | EngineError) -> None:
        def settle() -> None:
            if self.future.done():
                return
            if isinstance(outcome, EngineError):
                self.future.set_exception(outcome)
            else:
                self.future.set_result(outcome)

        self.settled = True
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(settle)
