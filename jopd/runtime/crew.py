"""Starts, watches and stops the explorer threads; the first failure wins.

The learner is the main thread. `with Crew(...)` starts one thread per explorer. When an explorer
raises, its exception is kept, everything that could wait is closed with it, and the main thread's
next wait, or the end of the block, raises it with its traceback. Leaving the block for any reason
closes everything and joins the threads within a deadline; what a thread raises because everything
was closed under it is no failure.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Closable(Protocol):
    """Something that others may wait on."""

    def close(self, error: BaseException | None = None) -> None:
        """Wakes every waiter; with an error, waiters raise from it."""
        ...


class Crew:
    """Explorer threads of a run.

    Attributes:
      jobs: what each thread runs; it must return soon after `closables` are closed.
      closables: closed at the first failure and at the end.
      join_deadline_s: how long threads may take to end.
    """

    def __init__(
        self,
        jobs: Sequence[Callable[[], None]],
        closables: Sequence[Closable],
        *,
        join_deadline_s: float = 60.0,
    ):
        self._closables = tuple(closables)
        self._join_deadline_s = join_deadline_s
        self._failure: BaseException | None = None
        self._is_ending = False
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._watch, args=(job,), name=f"explorer-{i}", daemon=True)
            for i, job in enumerate(jobs)
        ]

    @property
    def failure(self) -> BaseException | None:
        """The first exception of any thread."""
        return self._failure

    def __enter__(self) -> "Crew":
        """Starts the threads."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind, error, traceback) -> None:
        """Closes everything, joins the threads, and raises the first failure of a thread."""
        del kind, traceback
        with self._lock:
            self._is_ending = True
        self._close_all(error if self._failure is None else self._failure)
        stuck = self._join()
        if self._failure is not None:
            raise self._failure
        if stuck and error is None:
            raise RuntimeError(
                f"threads {stuck} did not end within {self._join_deadline_s:g} s "
                "after the run closed"
            )

    def _watch(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            with self._lock:
                if self._failure is None and not self._is_ending:
                    self._failure = error
            self._close_all(error)

    def _close_all(self, error: BaseException | None) -> None:
        for closable in self._closables:
            closable.close(error)

    def _join(self) -> list[str]:
        for thread in self._threads:
            thread.join(self._join_deadline_s)
        return [thread.name for thread in self._threads if thread.is_alive()]
