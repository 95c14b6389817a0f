"""Plays a fixed panel of tasks with the student alone and counts every episode.

Order is the panel's file order, samples of a task next to each other; time-outs, overflows and
environment errors are failures. Called by the learner's thread, on an asyncio loop of its own, with
the same engine that the explorers use; the sampling of each episode depends on the evaluation seed,
the task's place in the panel, the number of the sample and the number of tasks only.
"""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jopd.envs.base import Env
from jopd.evaluation.summary import pass_at_k, wilson_interval
from jopd.panels import Task
from jopd.rollout.runner import Player, run_rollout
from jopd.types import Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationSettings:
    """When and how the student is evaluated.

    Attributes:
      interval: updates between two evaluations.
      episodes: how many tasks of the panel, from its start.
      samples_per_task: how often each task is played; k of mean@k and pass@k.
      concurrency: episodes at once.
      temperature: of sampling.
      seed: of sampling.
    """

    interval: int
    episodes: int
    samples_per_task: int
    concurrency: int
    temperature: float
    seed: int

    def __post_init__(self):
        if self.samples_per_task < 1:
            raise ValueError(f"samples_per_task must be at least 1, got {self.samples_per_task}")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRecord:
    """One evaluated episode.

    Attributes:
      task_id: the task.
      sample: which of the task's samples, from 0.
      success: the task's own criterion.
      env_done: the environment declared it over.
      reward: the environment's reward.
      turns: turns taken.
      stop_reason: why it ended.
      actions: what was sent to the environment.
      error: the environment's words if it failed.
    """

    task_id: str
    sample: int
    success: bool
    env_done: bool
    reward: float
    turns: int
    stop_reason: str
    actions: tuple[str, ...]
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What a panel showed.

    Attributes:
      name: who was evaluated.
      policy_version: version of the weights that played.
      episodes: one record per sample of a task; tasks in panel order, then samples.
      seconds: wall time.
    """

    name: str
    policy_version: int
    episodes: tuple[EpisodeRecord, ...]
    seconds: float

    @property
    def success_rate(self) -> float:
        """Share of all episodes that met the task's own criterion: mean@k for k samples a task."""
        return sum(episode.success for episode in self.episodes) / len(self.episodes)

    @property
    def num_tasks(self) -> int:
        """How many tasks were played, however often."""
        return len({episode.task_id for episode in self.episodes})

    @property
    def pass_at_k(self) -> float:
        """Share of the tasks of which at least one of the k samples succeeded."""
        outcomes: defaultdict[str, list[bool]] = defaultdict(list)
        for episode in self.episodes:
            outcomes[episode.task_id].append(episode.success)
        chances = (pass_at_k(sum(each), len(each), len(each)) for each in outcomes.values())
        return sum(chances) / len(outcomes)

    def metrics(self) -> dict[str, float]:
        """Numbers for the log; the interval takes samples of one task for independent."""
        count = len(self.episodes)
        low, high = wilson_interval(sum(e.success for e in self.episodes), count)
        return {
            "eval/success_rate": self.success_rate,
            "eval/success_low": low,
            "eval/success_high": high,
            "eval/pass_at_k": self.pass_at_k,
            "eval/mean_reward": sum(e.reward for e in self.episodes) / count,
            "eval/mean_turns": sum(e.turns for e in self.episodes) / count,
            "eval/done_rate": sum(e.env_done for e in self.episodes) / count,
            "eval/seconds": self.seconds,
        }


class Evaluator:
    """Evaluates one player on one panel.

    Attributes:
      name: who is evaluated, for records.
      tasks: the panel, in order.
      make_env: builds one environment.
      player: engine and prompts at the evaluation temperature, without a scorer.
      settings: how many episodes, at which concurrency and seed.
      directory: where records are written, one file per evaluation.
    """

    def __init__(
        self,
        *,
        name: str,
        tasks: Sequence[Task],
        make_env: Callable[[], Env],
        player: Player,
        settings: EvaluationSettings,
        directory: Path,
    ):
        if settings.episodes > len(tasks):
            raise ValueError(
                f"evaluation.episodes is {settings.episodes} but the panel has {len(tasks)} tasks"
            )
        self._name = name
        self._tasks = tuple(tasks[: settings.episodes])
        self._samples = [
            (sample, task) for task in self._tasks for sample in range(settings.samples_per_task)
        ]
        self._player = player
        self._settings = settings
        self._directory = directory
        self._envs = [make_env() for _ in range(min(settings.concurrency, len(self._samples)))]

    def run(
        self, *, policy_version: int, on_progress: Callable[[int, int], None] | None = None
    ) -> Evaluation:
        """Plays the panel and writes its records.

        Args:
          policy_version: version of the weights that play, for the records.
          on_progress: told how many episodes of how many are done.
        """
        started = time.monotonic()
        rollouts = asyncio.run(self._play_all(on_progress))
        evaluation = Evaluation(
            name=self._name,
            policy_version=policy_version,
            episodes=tuple(
                _record(rollout, sample)
                for rollout, (sample, _) in zip(rollouts, self._samples, strict=True)
            ),
            seconds=time.monotonic() - started,
        )
        self._write(evaluation)
        return evaluation

    async def _play_all(self, on_progress: Callable[[int, int], None] | None) -> list[Rollout]:
        waiting = iter(enumerate(self._samples))
        finished: dict[int, Rollout] = {}

        async def lane(env: Env) -> None:
            for place, (sample, task) in waiting:
                place_of_task = place // self._settings.samples_per_task
                finished[place] = await run_rollout(
                    task,
                    rollout_id=place_of_task + sample * len(self._tasks),
                    env=env,
                    player=self._player,
                    seed=self._settings.seed,
                )
                if on_progress is not None:
                    on_progress(len(finished), len(self._samples))

        async with asyncio.TaskGroup() as group:
            for env in self._envs:
                group.create_task(lane(env))
        return [finished[place] for place in range(len(self._samples))]

    def _write(self, evaluation: Evaluation) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        path = self._directory / f"{evaluation.name}-{evaluation.policy_version:06d}.jsonl"
        lines = (json.dumps(asdict(episode)) + "\n" for episode in evaluation.episodes)
        path.write_text("".join(lines), encoding="utf-8")


def _record(rollout: Rollout, sample: int) -> EpisodeRecord:
    return EpisodeRecord(
        task_id=rollout.task_id,
        sample=sample,
        success=rollout.success,
        env_done=rollout.env_done,
        reward=rollout.env_reward,
        turns=len(rollout.turns),
        stop_reason=rollout.stop_reason.value,
        actions=tuple(turn.action for turn in rollout.turns),
        error=rollout.error,
    )
