"""The endless shuffled order in which training plays its tasks."""

import threading
from dataclasses import dataclass

import grain

from jopd.panels import Task, TaskPanel


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedTask:
    """A task on its way.

    Attributes:
      number: place in the training order, from 0; to be given back to `mark_consumed`.
      task: what to play.
    """

    number: int
    task: Task


@dataclass(frozen=True, slots=True, kw_only=True)
class CursorState:
    """Where training is, counted by what it has used up and not by what it has handed out.

    Attributes:
      first_unconsumed: all tasks before this number are consumed.
      consumed_beyond: consumed numbers above it, ascending.
    """

    first_unconsumed: int = 0
    consumed_beyond: tuple[int, ...] = ()


class TaskStream:
    """Training tasks in an endless order, shuffled anew for each pass over the panel.

    Explorers call `next_task` and whoever finishes with a task's rollout calls `mark_consumed`,
    from any thread. Invariant: a restored stream first issues again, in order, every task that was
    issued and not consumed; it never issues a consumed one.
    """

    def __init__(self, panel: TaskPanel, *, seed: int, state: CursorState | None = None):
        self._order = grain.MapDataset.source(panel.tasks).seed(seed).shuffle().repeat()
        self._lock = threading.Lock()
        self.restore(state or CursorState())

    def next_task(self) -> IssuedTask:
        """Issues the next task."""
        with self._lock:
            number = max(self._next, self._first)
            while number in self._beyond:
                number += 1
            self._next = number + 1
            self._issued.add(number)
        task = self._order[number]
        assert task is not None  # only a filtered place of a Grain pipeline holds None
        return IssuedTask(number=number, task=task)

    def mark_consumed(self, number: int) -> None:
        """Says that the issued task `number` needs not be played again.

        Raises:
          ValueError: it is not on its way.
        """
        with self._lock:
            if number not in self._issued:
                raise ValueError(f"task number {number} was not issued, or is consumed already")
            self._issued.remove(number)
            self._beyond.add(number)
            while self._first in self._beyond:
                self._beyond.remove(self._first)
                self._first += 1

    def state(self) -> CursorState:
        """What `restore` needs to go on from here."""
        with self._lock:
            beyond = tuple(sorted(self._beyond))
            return CursorState(first_unconsumed=self._first, consumed_beyond=beyond)

    def restore(self, state: CursorState) -> None:
        """Goes to `state`, forgetting which tasks are on their way.

        Raises:
          ValueError: no stream was ever in such a state.
        """
        if any(number <= state.first_unconsumed for number in state.consumed_beyond):
            raise ValueError(f"consumed numbers must lie beyond the first unconsumed one: {state}")
        if state.first_unconsumed < 0:
            raise ValueError(f"the first unconsumed number must not be negative: {state}")
        with self._lock:
            self._first = self._next = state.first_unconsumed
            self._beyond = set(state.consumed_beyond)
            self._issued: set[int] = set()
