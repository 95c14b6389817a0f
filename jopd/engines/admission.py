"""Who may enter the engine, and when its weights may change.

Requests wait here in order of arrival. Weights change between turns: once new ones are offered
nobody enters, the turns inside run to their end, the weights are swapped, and the waiting enter.
Every method may be called from any thread; `enter` and `swap` are called under the lock and must be
quick.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

Request = TypeVar("Request")
Weights = TypeVar("Weights")


class Admission(Generic[Request, Weights]):
    """A waiting room of bounded inside.

    Args:
      capacity: how many may be inside.
      enter: lets one in.
      swap: takes over offered weights; nobody is inside when it is called.
    """

    def __init__(
        self, capacity: int, *, enter: Callable[[Request], None], swap: Callable[[Weights], None]
    ):
        self._capacity = capacity
        self._enter = enter
        self._swap = swap
        self._waiting: deque[Request] = deque()
        self._inside = 0
        self._offered: list[Weights] = []  # none or the newest
        self._lock = threading.Lock()

    @property
    def waiting(self) -> int:
        """Requests that have not entered."""
        return len(self._waiting)

    @property
    def inside(self) -> int:
        """Requests that have entered and not left."""
        return self._inside

    def holds(self, request: Request) -> bool:
        """Whether a request still waits."""
        with self._lock:
            return request in self._waiting

    def submit(self, request: Request) -> None:
        """Queues a request; it enters at once if it may."""
        with self._lock:
            self._waiting.append(request)
            self._advance()

    def withdraw(self, request: Request) -> bool:
        """Takes back a request that has not entered; False if it has."""
        with self._lock:
            if request not in self._waiting:
                return False
            self._waiting.remove(request)
            return True

    def leave(self) -> None:
        """One that was inside has left."""
        with self._lock:
            self._inside -= 1
            self._advance()

    def offer(self, weights: Weights) -> None:
        """Swaps the weights as soon as nobody is inside; of several offers the newest wins."""
        with self._lock:
            self._offered = [weights]
            self._advance()

    def _advance(self) -> None:
        if self._offered and self._inside == 0:
            self._swap(self._offered.pop())
        while self._waiting and not self._offered and self._inside < self._capacity:
            self._inside += 1
            self._enter(self._waiting.popleft())
