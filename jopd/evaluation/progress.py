"""How far a run has come, over all its restarts."""

import time
from typing import Any

from jopd.algorithms.diagnostics import moving_average
from jopd.evaluation.evaluator import Evaluation
from jopd.evaluation.summary import EvaluationPoint, RunSummary, summarise


class RunProgress:
    """Evaluations, trained tokens and wall time of a run.

    Attributes:
      points: success rates by update.
      teacher_success_rate: of the teacher, or None before its evaluation.
      trained_tokens: prompt and response tokens of all trained turns.
    """

    def __init__(self):
        self.points: list[EvaluationPoint] = []
        self.teacher_success_rate: float | None = None
        self.trained_tokens = 0
        self._gap_average: float | None = None
        self._wall_before_s = 0.0
        self._started = time.monotonic()

    @property
    def wall_s(self) -> float:
        """Seconds spent on the run, restarts included."""
        return self._wall_before_s + time.monotonic() - self._started

    @property
    def success_rate(self) -> float | None:
        """Of the last evaluation."""
        return self.points[-1].success_rate if self.points else None

    def add_evaluation(self, evaluation: Evaluation) -> None:
        """Takes an evaluation of the student."""
        self.points.append(
            EvaluationPoint(
                update_index=evaluation.policy_version, success_rate=evaluation.success_rate
            )
        )

    def average_gap(self, rollout_std: float) -> float:
        """Takes the rollout-level KL deviation of an update; returns its moving average."""
        self._gap_average = moving_average(self._gap_average, rollout_std)
        return self._gap_average

    def summary(self, *, eval_episodes: int, updates: int, composer: str, seed: int) -> RunSummary:
        """What the run has come to."""
        return summarise(
            self.points,
            teacher_success_rate=self.teacher_success_rate,
            eval_episodes=eval_episodes,
            updates=updates,
            trained_tokens=self.trained_tokens,
            wall_s=self.wall_s,
            composer=composer,
            seed=seed,
        )

    def state(self) -> dict[str, Any]:
        """Everything as JSON."""
        return {
            "points": [[point.update_index, point.success_rate] for point in self.points],
            "teacher_success_rate": self.teacher_success_rate,
            "trained_tokens": self.trained_tokens,
            "gap_average": self._gap_average,
            "wall_s": self.wall_s,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from a state."""
        self.points = [
            EvaluationPoint(update_index=update, success_rate=rate)
            for update, rate in state["points"]
        ]
        self.teacher_success_rate = state["teacher_success_rate"]
        self.trained_tokens = state["trained_tokens"]
        self._gap_average = state["gap_average"]
        self._wall_before_s = state["wall_s"]
