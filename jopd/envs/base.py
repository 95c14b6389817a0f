"""What the rest of jopd knows of an environment.

A `Simulator` is the plain synchronous thing; an `Env` is what rollouts await. `LocalEnv` makes an
Env of a simulator that is fast and cannot hang (WebShop); slow or fragile ones live in processes
of their own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from jopd.panels import Task


class EnvError(RuntimeError):
    """The environment failed; the episode ends with StopReason.ENV_ERROR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepResult:
    """What the environment shows after a reset or a step.

    Attributes:
      observation: text for the student.
      instruction: what the task asks for; the same on every step of an episode.
      allowed_actions: what may be done now, in the environment's own order: whole actions, or
        templates that `objects` fill.
      done: the episode is over.
      reward: the environment's reward so far, 0 to 1.
      success: the task's own criterion holds.
      objects: names that may stand in templates; empty where actions are whole.
      role: who speaks the observation in a chat.
      tools: JSON schemas of the tools that may be called; the same on every step of an episode.
    """

    observation: str
    instruction: str
    allowed_actions: tuple[str, ...]
    done: bool
    reward: float
    success: bool
    objects: tuple[str, ...] = ()
    role: Literal["user", "tool"] = "user"
    tools: tuple[str, ...] = ()


@runtime_checkable
class Simulator(Protocol):
    """A synchronous environment."""

    def reset(self, task: Task) -> StepResult:
        """Starts the episode of `task`."""
        ...

    def step(self, action: str) -> StepResult:
        """Acts; an action that means nothing changes nothing."""
        ...

    def is_allowed(self, action: str) -> bool:
        """Whether the action is well formed and possible now; asked right before it is done."""
        ...

    def expert_action(self) -> str:
        """The next action of an expert from the present state, for demonstrations."""
        ...


@runtime_checkable
class ClosableSimulator(Simulator, Protocol):
    """A simulator that holds something outside this process."""

    def close(self) -> None:
        """Lets go of it."""
        ...


@contextmanager
def closing_simulator(simulator: Simulator) -> Iterator[Simulator]:
    """Gives a simulator for a while, and closes it if it holds something to close."""
    try:
        yield simulator
    finally:
        if isinstance(simulator, ClosableSimulator):
            simulator.close()


@runtime_checkable
class Env(Protocol):
    """An environment as rollouts see it: every method has a deadline and else raises EnvError."""

    async def reset(self, task: Task) -> StepResult:
        """Starts the episode of `task`."""
        ...

    async def step(self, action: str) -> StepResult:
        """Acts; an action that means nothing changes nothing."""
        ...

    async def is_allowed(self, action: str) -> bool:
        """Whether the action is well formed and possible now; asked right before it is done."""
        ...


class LocalEnv:
    """An Env around a simulator that answers in the caller's thread."""

    def __init__(self, simulator: Simulator):
        self._simulator = simulator

    async def reset(self, task: Task) -> StepResult:
        """Starts the episode of `task`."""
        return self._simulator.reset(task)

    async def step(self, action: str) -> StepResult:
        """Acts."""
        return self._simulator.step(action)

    async def is_allowed(self, action: str) -> bool:
        """Whether the action is well formed and possible now."""
        return self._simulator.is_allowed(action)
