"""Where callers on any event loop leave requests, and where the scorer's one worker takes them.

`submit` runs on the callers' threads, `wait` on the worker's, `fail` on any. Every request is
answered exactly once: its future takes the first of score, failure and cancellation.
"""

import contextlib
import threading
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Bool, Float, Int

from jopd.engines.base import EngineError, Score

_IDLE_S = 1.0  # how often an idle worker looks whether the process is ending


@dataclass(slots=True, eq=False, kw_only=True)
class Request:
    """One response to be scored, and how far it has come.

    Attributes:
      ids: [P + R] prompt and response as the model reads them.
      first: P - 1, the place whose hidden state predicts the response's first token.
      mask: [R] True where the log-prob is wanted.
      rollout_id: the rollout it belongs to.
      logprobs: [R] filled in as batches come back.
      started: places before this one are computed or under way.
      answer: what the caller waits for.
    """

    ids: Int[np.ndarray, " total"]
    first: int
    mask: Bool[np.ndarray, " response"]
    rollout_id: int
    logprobs: Float[np.ndarray, " response"] = field(init=False)
    started: int = 0
    answer: Future[Score] = field(default_factory=Future)

    def __post_init__(self):
        """Makes room for the log-probs."""
        self.logprobs = np.zeros(len(self.mask), np.float32)

    @property
    def inputs(self) -> Int[np.ndarray, " inputs"]:
        """[P + R - 1] the ids that are read; nothing waits for what follows the last one."""
        return self.ids[:-1]

    @property
    def fully_started(self) -> bool:
        """Nothing is left to put into a batch."""
        return self.started == len(self.inputs)


class Desk:
    """Requests that wait for the worker, in order of arrival."""

    def __init__(self):
        self._changed = threading.Condition()
        self._open: list[Request] = []
        self._closed_by: EngineError | None = None

    def submit(self, request: Request) -> None:
        """Leaves a request.

        Raises:
          EngineError: the desk has failed or is closed.
        """
        with self._changed:
            if self._closed_by is not None:
                raise _copy(self._closed_by)
            self._open.append(request)
            self._changed.notify()

    def wait(self, *, block: bool) -> list[Request] | None:
        """Requests that are not fully started, oldest first.

        Args:
          block: wait until there is one.

        Returns:
          None once the desk is closed or the process is ending.
        """
        with self._changed:
            while True:
                if self._closed_by is not None or not threading.main_thread().is_alive():
                    return None
                self._open = [request for request in self._open if not request.answer.done()]
                waiting = [request for request in self._open if not request.fully_started]
                if waiting or not block:
                    return waiting
                self._changed.wait(_IDLE_S)

    def answer(self, request: Request, score: Score) -> None:
        """Gives a score, unless the caller has gone or was told of a failure."""
        with contextlib.suppress(InvalidStateError):
            request.answer.set_result(score)

    def fail(self, error: EngineError) -> None:
        """Closes the desk: every open and later request raises `error`. The first failure stays."""
        with self._changed:
            if self._closed_by is None:
                self._closed_by = error
            forsaken, self._open = self._open, []
            self._changed.notify_all()
        for request in forsaken:
            with contextlib.suppress(InvalidStateError):
                request.answer.set_exception(_copy(self._closed_by))


def _copy(error: EngineError) -> EngineError:
    """One exception per waiter: a raised exception carries its own traceback."""
    copy = EngineError(*error.args)
    copy.__cause__ = error.__cause__
    return copy
