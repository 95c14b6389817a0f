"""An environment that can be made to die, hang or raise, to be played in a process of its own."""

import os
import subprocess
import time

from corridor import Corridor

from jopd.envs.base import EnvError, StepResult


class Fragile(Corridor):
    """The corridor; some actions break it."""

    def step(self, action: str) -> StepResult:
        match action:
            case "die":
                os._exit(9)
            case "hang":
                time.sleep(3600)
            case "raise":
                raise ValueError("the floor is wet")
            case "refuse":
                raise EnvError("the corridor is closed")
            case "spawn":
                child = subprocess.Popen(["sleep", "3600"])
                return StepResult(
                    observation=str(child.pid),
                    instruction="",
                    allowed_actions=(),
                    done=False,
                    reward=0.0,
                    success=False,
                )
        return super().step(action)


def refuses_to_open() -> Fragile:
    """As an environment does whose data is missing."""
    raise ValueError("the key is missing")
