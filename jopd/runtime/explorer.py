"""An explorer: plays tasks with many rollouts at once and delivers finished ones.

Threaded mode: `explore` runs on a thread of its own, with one asyncio loop and `concurrency`
rollouts in flight. Lock-step mode: `play_one` runs one rollout in the caller's thread. Invariant:
every rollout that was dispatched is delivered exactly once, or the run ends with an error.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from jopd.envs.base import Env
from jopd.rollout.runner import Player, run_rollout
from jopd.tasks import TaskStream
from jopd.types import Rollout, StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplorerSettings:
    """How much is explored at once.

    Attributes:
      concurrency: rollouts in flight.
      max_env_errors: environment failures in a row that end the run.
    """

    concurrency: int
    max_env_errors: int

    def __post_init__(self):
        least = min(self.concurrency, self.max_env_errors)
        if least < 1:
            raise ValueError(f"concurrency and max_env_errors must be at least 1, got {least}")


class RunEnded(Exception):
    """Raised by a delivery when the run has closed its queue in the ordinary way."""


class Explorer:
    """Plays tasks until the run ends.

    Attributes:
      tasks: where tasks come from.
      make_env: builds one environment; each is used by one rollout at a time.
      player: engine, scorer, prompts, limits.
      deliver: takes a finished rollout and marks its task consumed; may block; raises RunEnded
        when the run is over.
      settings: how much is explored at once.
      seed: of all sampling.
    """

    def __init__(
        self,
        *,
        tasks: TaskStream,
        make_env: Callable[[], Env],
        player: Player,
        deliver: Callable[[Rollout], None],
        settings: ExplorerSettings,
        seed: int,
    ):
        self._tasks = tasks
        self._make_env = make_env
        self._player = player
        self._deliver = deliver
        self._settings = settings
        self._seed = seed
        self._errors_in_a_row = 0

    def explore(self) -> None:
        """Plays until `deliver` says that the run has ended."""
        asyncio.run(self._explore())

    def play_one(self) -> None:
        """Plays and delivers one rollout."""
        asyncio.run(self._play(self._make_env(), asyncio.Lock()))

    async def _explore(self) -> None:
        delivery = asyncio.Lock()
        lanes = [
            asyncio.create_task(self._lane(self._make_env(), delivery))
            for _ in range(self._settings.concurrency)
        ]
        try:
            await asyncio.gather(*lanes)
        except RunEnded:
            return
        finally:
            for lane in lanes:
                lane.cancel()
            await asyncio.gather(*lanes, return_exceptions=True)

    async def _lane(self, env: Env, delivery: asyncio.Lock) -> None:
        while True:
            await self._play(env, delivery)

    async def _play(self, env: Env, delivery: asyncio.Lock) -> None:
        issued = self._tasks.next_task()
        rollout = await run_rollout(
            issued.task, rollout_id=issued.number, env=env, player=self._player, seed=self._seed
        )
        self._watch_env_errors(rollout)
        async with delivery:  # one blocked delivery at a time, in order of completion
            await asyncio.to_thread(self._deliver, rollout)

    def _watch_env_errors(self, rollout: Rollout) -> None:
        failed = rollout.stop_reason is StopReason.ENV_ERROR
        self._errors_in_a_row = self._errors_in_a_row + 1 if failed else 0
        if self._errors_in_a_row >= self._settings.max_env_errors:
            raise RuntimeError(
                f"{self._errors_in_a_row} environment failures in a row; the last one, in task "
                f"{rollout.task_id}: {rollout.error}"
            )
