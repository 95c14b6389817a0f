"""The bounded queue between explorers and the learner.

Explorers put finished rollouts from any thread; the learner's thread takes turns. Invariants: the
turns of a rollout are contiguous and in order, and arrival numbers ascend without a gap; every
produced turn is queued, taken, rejected, evicted or discarded, and counted as such; every wait has
a deadline or is woken by `close`.
"""

import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from jopd.experience.records import turn_from_record, turn_to_record
from jopd.types import Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSettings:
    """How much experience may wait, and what gives way when there is more.

    Attributes:
      capacity_turns: turns that may wait. A rollout longer than this enters an empty queue.
      policy: "block" the explorer until there is room, or "evict" the oldest turns.
    """

    capacity_turns: int
    policy: Literal["block", "evict"]

    def __post_init__(self):
        if self.capacity_turns < 1:
            raise ValueError(f"capacity_turns must be at least 1, got {self.capacity_turns}")


class QueueClosed(RuntimeError):
    """The queue was closed; `__cause__` is the failure that closed it, if one did."""


class ExperienceQueue:
    """First in, first out, in turns; see the module for who calls what.

    Attributes:
      settings: capacity and policy.
    """

    def __init__(self, settings: QueueSettings):
        self.settings = settings
        self._changed = threading.Condition()
        self._turns: deque[Turn] = deque()
        self._producers: deque[object] = deque()  # who waits for room, in order
        self._produced = self._taken = self._rejected = self._evicted = self._discarded = 0
        self._is_closed = False
        self._error: BaseException | None = None

    def put(
        self,
        turns: Sequence[Turn],
        *,
        timeout_s: float | None = None,
        on_entry: Callable[[tuple[Turn, ...]], None] | None = None,
    ) -> tuple[Turn, ...]:
        """Appends the turns of one finished rollout, and numbers their arrival.

        Blocked producers enter in the order in which they came, so long rollouts are not passed
        over for short ones.

        Args:
          turns: in order; may be empty.
          timeout_s: how long to wait for room under the "block" policy; None for until closed.
          on_entry: told of the numbered turns as they enter, under the queue's lock; see `frozen`.

        Returns:
          The turns with their arrival numbers.

        Raises:
          QueueClosed: the queue is or becomes closed; nothing was stored.
          TimeoutError: there was no room in time; nothing was stored.
        """
        with self._changed:
            if self.settings.policy == "block":
                self._wait_for_room(len(turns), timeout_s)
            self._check_open()
            first = self._produced
            stamped = tuple(
                dataclasses.replace(turn, arrival=first + i) for i, turn in enumerate(turns)
            )
            self._turns.extend(stamped)
            self._produced += len(stamped)
            if on_entry is not None:
                on_entry(stamped)
            if self.settings.policy == "evict":
                self._evict_oldest()
            self._changed.notify_all()
        return stamped

    def take(
        self,
        *,
        max_turns: int,
        min_turns: int,
        accept: Callable[[Turn], bool],
        timeout_s: float | None = None,
    ) -> list[Turn]:
        """Removes turns in order of arrival, waiting only while there are fewer than `min_turns`.

        Turns leave the queue while it waits, so a queue smaller than `min_turns` cannot lock up.

        Args:
          max_turns: no more than so many; the rest stays, untouched.
          min_turns: wait for so many accepted turns; at most `max_turns`.
          accept: turns that it refuses are removed and counted as rejected. Called once a turn.
          timeout_s: how long to wait; None for until closed.

        Returns:
          The accepted turns; fewer than `min_turns` only after the timeout.

        Raises:
          QueueClosed: the queue is or becomes closed; accepted turns are back in the queue.
        """
        if not 0 <= min_turns <= max_turns:
            raise ValueError(f"min_turns must be in 0..{max_turns}, got {min_turns}")
        deadline = _deadline(timeout_s)
        taken: list[Turn] = []
        with self._changed:
            while not self._is_closed:
                self._move(taken, max_turns, accept)
                if len(taken) >= min_turns or not self._wait(lambda: bool(self._turns), deadline):
                    break
            if self._is_closed:
                self._turns.extendleft(reversed(taken))
            self._check_open()
            self._taken += len(taken)
        return taken

    def close(self, error: BaseException | None = None) -> None:
        """Ends the queue: every waiting and every later `put` or `take` raises QueueClosed.

        Args:
          error: why; the first one given stays the cause.
        """
        with self._changed:
            self._is_closed = True
            self._error = self._error or error
            self._changed.notify_all()

    @property
    def counts(self) -> dict[str, int]:
        """Turns since the start: produced = queued + taken + rejected + evicted + discarded."""
        with self._changed:
            return self._counts() | {"queued": len(self._turns)}

    def count(self, accept: Callable[[Turn], bool]) -> int:
        """How many waiting turns satisfy a condition; none is removed."""
        with self._changed:
            return sum(map(accept, self._turns))

    def __len__(self) -> int:
        with self._changed:
            return len(self._turns)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """While inside, no turn enters or leaves, and no `on_entry` runs: for saving one moment."""
        with self._changed:
            yield

    def state(self) -> dict[str, Any]:
        """Content and counts as JSON, for exact resume."""
        with self._changed:
            return {
                "turns": [turn_to_record(turn) for turn in self._turns],
                "counts": self._counts(),
            }

    def restore(self, state: dict[str, Any], *, max_version: int) -> None:
        """Continues from a state.

        Args:
          state: what `state` returned.
          max_version: version of the restored weights; turns of later ones are discarded.
        """
        turns = [turn_from_record(record) for record in state["turns"]]
        with self._changed:
            self._turns = deque(turn for turn in turns if turn.policy_version <= max_version)
            counts = state["counts"]
            self._produced, self._taken = counts["produced"], counts["taken"]
            self._rejected, self._evicted = counts["rejected"], counts["evicted"]
            self._discarded = counts["discarded"] + len(turns) - len(self._turns)
            self._changed.notify_all()

    def _counts(self) -> dict[str, int]:
        return {
            "produced": self._produced,
            "taken": self._taken,
            "rejected": self._rejected,
            "evicted": self._evicted,
            "discarded": self._discarded,
        }

    def _evict_oldest(self) -> None:
        while len(self._turns) > self.settings.capacity_turns:
            self._turns.popleft()
            self._evicted += 1

    def _move(self, taken: list[Turn], max_turns: int, accept: Callable[[Turn], bool]) -> None:
        """Moves waiting turns to `taken`, as many as fit."""
        before = len(self._turns)
        while self._turns and len(taken) < max_turns:
            turn = self._turns.popleft()
            if accept(turn):
                taken.append(turn)
            else:
                self._rejected += 1
        if len(self._turns) < before:
            self._changed.notify_all()

    def _wait_for_room(self, turns: int, timeout_s: float | None) -> None:
        """Waits until this producer is the first in line and its turns fit."""
        me = object()
        self._producers.append(me)
        room = self.settings.capacity_turns - turns

        def may_enter() -> bool:
            return self._producers[0] is me and (len(self._turns) <= room or not self._turns)

        try:
            if not self._wait(may_enter, _deadline(timeout_s)):
                raise TimeoutError(
                    f"no room for {turns} turns in the experience queue within {timeout_s} s: "
                    f"{len(self._turns)} of {self.settings.capacity_turns} turns are waiting"
                )
        finally:
            self._producers.remove(me)
            self._changed.notify_all()

    def _wait(self, condition: Callable[[], bool], deadline: float | None) -> bool:
        """Waits for the condition or for closing; False if the deadline passed first."""
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        return self._changed.wait_for(lambda: self._is_closed or condition(), left)

    def _check_open(self) -> None:
        if self._is_closed:
            raise QueueClosed("the experience queue is closed") from self._error


def _deadline(timeout_s: float | None) -> float | None:
    return None if timeout_s is None else time.monotonic() + timeout_s
