"""A customer who says the same in every play: opens, does what is asked, and hangs up."""

import re
from collections.abc import Sequence

from tau2.data_model.message import AssistantMessage, Message, UserMessage
from tau2.data_model.tasks import StructuredUserInstructions
from tau2.data_model.tasks import Task as Tau2Task

from jopd.envs.tau2.messages import write_call
from jopd.envs.tau2.reference import calls_of, open_actions, open_facts
from jopd.envs.tau2.world import Toolbox

_TRANSFER_TOOL = "transfer_to_human_agents"
_LOOKS = ("get_", "find_", "list_", "calculate", "check_", "can_", "run_")  # change nothing


class ScriptedUser:
    """Knows the task and its reference actions.

    It does with its own tools what a message of the agent names by the tool's name, with the
    reference's arguments. It is satisfied when nothing is left that changes the world or that it
    should be told, and gives up after `patience` messages in which the agent got nothing done.
    """

    def __init__(self, task: Tau2Task, toolbox: Toolbox, *, patience: int):
        self._task = task
        self._toolbox = toolbox
        self._patience = patience

    def speak(self, record: Sequence[Message], heard: str, *, from_tool: bool) -> str:
        """The next message.

        Args:
          record: all messages so far.
          heard: what was heard last.
          from_tool: it is the result of an own call.
        """
        if not any(isinstance(message, UserMessage) for message in record):
            return self._opening()
        if from_tool:
            return f"I did it. I see: {heard}"
        if any(call.name == _TRANSFER_TOOL for call in calls_of(record)):
            return "###TRANSFER###"
        if self._is_satisfied(record) or self._fruitless_messages(record) > self._patience:
            return "###STOP###"
        return self._asked_call(record, heard) or self._answer()

    def _opening(self) -> str:
        scenario = self._task.user_scenario.instructions
        if not isinstance(scenario, StructuredUserInstructions):
            return scenario
        return " ".join(part for part in (scenario.reason_for_call, scenario.known_info) if part)

    def _answer(self) -> str:
        scenario = self._task.user_scenario.instructions
        known = (
            scenario.known_info if isinstance(scenario, StructuredUserInstructions) else scenario
        )
        return f"Yes, please go ahead. {known or ''}".strip()

    def _is_satisfied(self, record: Sequence[Message]) -> bool:
        left = open_actions(self._task, record)
        return not open_facts(self._task, record) and all(a.name.startswith(_LOOKS) for a in left)

    def _fruitless_messages(self, record: Sequence[Message]) -> int:
        """Messages of the agent since the last one that left less to do."""
        left, fruitless = len(open_actions(self._task, ())), 0
        for end, message in enumerate(record, 1):
            if isinstance(message, AssistantMessage):
                now = len(open_actions(self._task, record[:end]))
                fruitless, left = (fruitless + 1, left) if now == left else (0, now)
        return fruitless

    def _asked_call(self, record: Sequence[Message], heard: str) -> str:
        """A call of the tool that the agent names, if its arguments are known; else ""."""
        named = self._named_tools(heard)
        for action in open_actions(self._task, record):
            if action.requestor == "user" and action.name in named:
                return write_call(action.name, action.arguments)
        for name in named:
            if not any(f.is_required() for f in self._toolbox.params[name].model_fields.values()):
                return write_call(name, {})
        return ""

    def _named_tools(self, heard: str) -> list[str]:
        """Own tools that the words name; "toggle data saver mode" does not name toggle_data."""
        words = f"_{re.sub(r'[^a-z0-9]+', '_', heard.lower())}_"
        named = []
        for name in sorted(self._toolbox.params, key=len, reverse=True):
            if f"_{name}_" in words:
                named.append(name)
                words = words.replace(f"_{name}_", "_|_")
        return named
