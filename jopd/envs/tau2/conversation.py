"""tau2-bench with a model as the customer: between two turns of the agent, the model is asked."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jopd.envs.base import EnvError, StepResult
from jopd.envs.process import ProcessEnv
from jopd.envs.tau2.heard import Heard
from jopd.panels import Task


@runtime_checkable
class Speak(Protocol):
    """A model that plays the customer."""

    async def __call__(self, messages: Sequence[dict[str, str]], tools: Sequence[str]) -> str:
        """The customer's next message, which may be tool calls.

        Args:
          messages: the conversation as the customer sees it: its own messages have the role
            "assistant", the agent's "user".
          tools: JSON schemas of the customer's tools.
        """
        ...


class ConversationEnv:
    """An Env for the agent around a dialogue in another process."""

    def __init__(self, env: ProcessEnv, speak: Speak):
        """Starts nothing yet.

        Args:
          env: a process with a `Dialogue`, whose steps are messages of both sides.
          speak: asked for the customer's messages.
        """
        self._env = env
        self._speak = speak
        self._messages: list[dict[str, str]] = []

    async def reset(self, task: Task) -> StepResult:
        """Starts the conversation; the first observation is what the customer wants."""
        self._messages = []
        return await self._until_agent(await self._env.reset(task))

    async def step(self, action: str) -> StepResult:
        """Sends the agent's message: words to the customer, tool calls to the database."""
        return await self._until_agent(await self._env.step(action))

    async def is_allowed(self, action: str) -> bool:
        """Whether the message is well formed, its tools exist and their arguments fit."""
        return await self._env.is_allowed(action)

    def close(self) -> None:
        """Ends the process."""
        self._env.close()

    async def _until_agent(self, heard: StepResult) -> StepResult:
        while _waits_for_user(heard):
            self._messages.append({"role": heard.role, "content": heard.observation})
            system = {"role": "system", "content": heard.instruction}
            said = await self._speak([system, *self._messages], heard.tools)
            self._messages.append({"role": "assistant", "content": said})
            heard = await self._env.step(said)
        return heard


def _waits_for_user(heard: StepResult) -> bool:
    if not isinstance(heard, Heard):
        raise EnvError(f"the process answered with a {type(heard).__name__}, not a Heard")
    return heard.awaited == "user" and not heard.done
