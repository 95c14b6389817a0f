"""The channel forward: tasks, queue, reader and recorder of a run, saved and restored as one."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from jopd.experience.queue import ExperienceQueue, QueueSettings
from jopd.experience.reader import BatchReader, ComposerSettings, turn_balance
from jopd.experience.recorder import Recorder
from jopd.panels import TaskPanel
from jopd.runtime.delivery import Delivery
from jopd.tasks import CursorState, TaskStream


class ExperienceStream:
    """Everything between the explorers and the learner.

    Attributes:
      queue: where finished rollouts wait.
      reader: composes batches; the learner's thread only.
      tasks: what explorers play.
      delivery: where explorers deliver.
    """

    def __init__(
        self,
        panel: TaskPanel,
        *,
        queue: QueueSettings,
        composer: ComposerSettings,
        directory: Path,
        seed: int,
    ):
        self.queue = ExperienceQueue(queue)
        self.reader = BatchReader(self.queue, composer)
        self.tasks = TaskStream(panel, seed=seed)
        self._recorder = Recorder(directory)
        self.delivery = Delivery(self.queue, self._recorder, self.tasks)

    def state(self) -> dict[str, Any]:
        """Content, stamps, cursor and counts as JSON, of one moment; flushes the recorded turns."""
        with self.queue.frozen():
            self._recorder.flush()
            return {
                "queue": self.queue.state(),
                "reader": self.reader.state(),
                "tasks": asdict(self.tasks.state()),
                "delivery": self.delivery.state(),
            }

    def restore(self, state: dict[str, Any], *, version: int) -> None:
        """Continues from a state whose weights have the given version."""
        self.queue.restore(state["queue"], max_version=version)
        self.reader.restore(state["reader"], max_version=version)
        cursor = state["tasks"]
        self.tasks.restore(
            CursorState(
                first_unconsumed=cursor["first_unconsumed"],
                consumed_beyond=tuple(cursor["consumed_beyond"]),
            )
        )
        self.delivery.restore(state["delivery"])
        self._recorder.truncate_to(state["queue"]["counts"]["produced"])

    def restart(self) -> None:
        """Forgets what an earlier try recorded that no checkpoint knows of."""
        self._recorder.truncate_to(0)

    def metrics(self) -> dict[str, float]:
        """Where every produced turn is, and what was delivered."""
        balance = turn_balance(self.queue, self.reader)
        named = {
            "queue/turns": balance["queued"],
            "queue/produced_turns": balance["produced"],
            "queue/stale_turns": balance["stale"],
            "queue/aged_turns": balance["aged_out"],
            "queue/invalid_turns": balance["invalid"],
            "queue/discarded_turns": balance["discarded"],
            "queue/trained_turns": balance["trained"],
        }
        return {name: float(count) for name, count in named.items()} | self.delivery.metrics()

    def close(self) -> None:
        """Closes the queue and the recorded files."""
        self.queue.close()
        self._recorder.close()
