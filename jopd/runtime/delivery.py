"""Where finished rollouts go: into the queue, the recorded files and the counts, as one event.

Called by explorer threads. Invariant: a turn enters the queue, is recorded and has its task marked
consumed under the queue's lock, so a checkpoint taken under that lock sees all of it or nothing.
"""

from collections.abc import Sequence
from typing import Any

from jopd.experience.queue import ExperienceQueue, QueueClosed
from jopd.experience.recorder import Recorder
from jopd.runtime.explorer import RunEnded
from jopd.tasks import TaskStream
from jopd.types import Rollout, StopReason, Turn


class Delivery:
    """Delivers rollouts of all explorers of a run.

    Attributes:
      update_index: updates applied so far; set by the learner, stored with every turn.
    """

    def __init__(self, queue: ExperienceQueue, recorder: Recorder, tasks: TaskStream):
        self._queue = queue
        self._recorder = recorder
        self._tasks = tasks
        self._rollouts = 0
        self._env_errors = 0
        self._fresh_outcomes: list[bool] = []
        self.update_index = 0

    def __call__(self, rollout: Rollout) -> None:
        """Delivers one rollout; blocks while the queue is full.

        Raises:
          RunEnded: the queue is closed.
        """
        try:
            self._queue.put(rollout.turns, on_entry=lambda turns: self._enter(rollout, turns))
        except QueueClosed as closed:
            raise RunEnded from closed

    def _enter(self, rollout: Rollout, turns: Sequence[Turn]) -> None:
        self._recorder.record(rollout, turns, enqueue_update=self.update_index)
        self._tasks.mark_consumed(rollout.rollout_id)
        self._rollouts += 1
        self._env_errors += rollout.stop_reason is StopReason.ENV_ERROR
        self._fresh_outcomes.append(rollout.success)

    def metrics(self) -> dict[str, float]:
        """Numbers for the log; the success rate is of the rollouts since the last call."""
        outcomes, self._fresh_outcomes = self._fresh_outcomes, []
        fresh = {"explore/success_rate": sum(outcomes) / len(outcomes)} if outcomes else {}
        return {
            "explore/rollouts": float(self._rollouts),
            "explore/env_errors": float(self._env_errors),
            **fresh,
        }

    def state(self) -> dict[str, Any]:
        """Counts as JSON; call it under the queue's lock."""
        return {"rollouts": self._rollouts, "env_errors": self._env_errors}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from a state."""
        self._rollouts, self._env_errors = state["rollouts"], state["env_errors"]
