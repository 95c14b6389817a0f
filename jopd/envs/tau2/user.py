"""A customer who says the same in every play: opens, does what is asked, and hangs up."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from tau2.data_model.message import AssistantMessage, Message, UserMessage
from tau2.data_model.tasks import StructuredUserInstructions
from tau2.data_model.tasks import Task as Tau2Task

from jopd.envs.tau2.messages import write_call
from jopd.envs.tau2.reference import calls_of, failed_calls, open_actions, open_facts
from jopd.envs.tau2.world import Toolbox

_TRANSFER_TOOL = "transfer_to_human_agents"
_LOOKS = ("get_", "find_", "list_", "calculate", "check_", "can_", "run_")  # change nothing
_SENTENCE_END = re.compile(r"[.!?;\n]+")
_REQUEST = re.compile(r"_(please|now|next|then|first|try|need|(can|could|would|will)_you|let_s)_")
_DENIAL = re.compile(r"_(not|don_t|never|without|instead_of|later|already)_")


class ScriptedUser:
    """Knows the task and its reference actions.

    It uses one of its own tools when a message of the agent plainly asks for that: when a sentence
    that asks names this tool and no other is named. It never adds anything to the request: what the
    tool is called with must be named too. It is satisfied when nothing is left that changes the
    world or that it should be told, and gives up after `patience` messages in which the agent got
    nothing done.
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
        if _is_transferred(record):
            return "###TRANSFER###"
        if self._is_satisfied(record) or self._fruitless_messages(record) > self._patience:
            return "###STOP###"
        named = self._named_tools(heard)
        if len(named) > 1:
            return "I can only do one thing at a time. What should I do first?"
        asked = named and any(_asks_for(part, named[0]) for part in _SENTENCE_END.split(heard))
        return (self._call(record, heard, named[0]) if asked else "") or self._answer()

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

    def _call(self, record: Sequence[Message], heard: str, tool: str) -> str:
        """A call of the tool, if the agent has named all that it needs; else ""."""
        for action in open_actions(self._task, record):
            wanted = action.requestor == "user" and action.name == tool
            if wanted and _names_all(heard, action.arguments.values()):
                return write_call(tool, action.arguments)
        fields = self._toolbox.params[tool].model_fields.values()
        return "" if any(field.is_required() for field in fields) else write_call(tool, {})

    def _named_tools(self, heard: str) -> list[str]:
        """Own tools that the words name; "toggle data saver mode" does not name toggle_data."""
        words = _joined(heard)
        named = []
        for name in sorted(self._toolbox.params, key=len, reverse=True):
            if f"_{name}_" in words:
                named.append(name)
                words = words.replace(f"_{name}_", "_|_")
        return named


def _is_transferred(record: Sequence[Message]) -> bool:
    failed = failed_calls(record)
    calls = calls_of(record)
    return any(call.name == _TRANSFER_TOOL and call.id not in failed for call in calls)


def _joined(text: str) -> str:
    """Its words in lower case, joined and surrounded by underscores, as tools are named."""
    return f"_{re.sub(r'[^a-z0-9]+', '_', text.lower()).strip('_')}_"


def _asks_for(sentence: str, tool: str) -> bool:
    """Whether the sentence asks for the tool: it begins with it, or has a word of asking."""
    words = _joined(sentence)
    if f"_{tool}_" not in words or _DENIAL.search(words):
        return False
    return words.startswith(f"_{tool}_") or _REQUEST.search(words) is not None


def _names_all(heard: str, values: Iterable[Any]) -> bool:
    words = _joined(heard)
    return all(_joined(str(value)) in words for value in values)
