"""A corridor of three places: walk right twice to succeed, left from the start to fail."""

from jopd.envs.base import EnvError, StepResult
from jopd.types import Task

WORDS = ("place0", "place1", "place2", "left", "right", "jump", "crash", "end")
END = WORDS.index("end")


class Corridor:
    """A simulator; the action "crash" is an environment that dies."""

    def reset(self, task: Task) -> StepResult:
        self.place = 0
        return self._seen()

    def step(self, action: str) -> StepResult:
        if action == "crash":
            raise EnvError("the corridor fell down")
        self.place += {"right": 1, "left": -1}.get(action, 0)
        return self._seen()

    def is_allowed(self, action: str) -> bool:
        return action in ("left", "right", "crash")

    def expert_action(self) -> str:
        return "right"

    def _seen(self) -> StepResult:
        return StepResult(
            observation=f"place{max(self.place, 0)}",
            instruction="walk",
            allowed_actions=("left", "right"),
            done=self.place in (-1, 2),
            reward=float(self.place == 2),
            success=self.place == 2,
        )


TASK = Task(task_id="corridor-0", domain="corridor", index=0, seed=0)
