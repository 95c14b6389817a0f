"""What is left to do of a task's reference solution, told from the messages so far."""

from collections.abc import Sequence

from tau2.data_model.message import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from tau2.data_model.tasks import Action
from tau2.data_model.tasks import Task as Tau2Task

from jopd.envs.tau2.messages import write_call


def calls_of(record: Sequence[Message]) -> list[ToolCall]:
    """All tool calls so far, of both sides, failed ones included: some references have such."""
    spoken = [m for m in record if isinstance(m, AssistantMessage | UserMessage)]
    return [call for message in spoken for call in message.tool_calls or ()]


def failed_calls(record: Sequence[Message]) -> set[str]:
    """Ids of the calls that were answered with an error."""
    return {m.id for m in record if isinstance(m, ToolMessage) and m.error}


def open_actions(task: Tau2Task, record: Sequence[Message]) -> list[Action]:
    """Reference actions that are still to be done, in order; each call does one of them."""
    assert task.evaluation_criteria is not None
    left = list(task.evaluation_criteria.actions or ())
    for call in calls_of(record):
        match = next((action for action in left if _is_done_by(action, call)), None)
        if match is not None:
            left.remove(match)
    return left


def open_facts(task: Tau2Task, record: Sequence[Message]) -> list[str]:
    """What the agent has still to tell the customer."""
    assert task.evaluation_criteria is not None
    said = [m.content.lower() for m in record if isinstance(m, AssistantMessage) and m.content]
    wanted = task.evaluation_criteria.communicate_info or ()
    return [fact for fact in wanted if not any(fact.lower() in t.replace(",", "") for t in said)]


def next_message(task: Tau2Task, record: Sequence[Message]) -> str:
    """The agent's next message: a reference call, a request to the customer, facts, or the end."""
    left = open_actions(task, record)
    if left and left[0].requestor == "assistant":
        return write_call(left[0].name, left[0].arguments)
    if left:
        return f"Please do this now: {_in_words(left[0])}. Then tell me what you see."
    facts = open_facts(task, record)
    if facts:
        return f"Here is what you asked for: {', '.join(facts)}."
    return "Everything is done. Can I help you with anything else?"


def _in_words(action: Action) -> str:
    """The tool's name and what it is to be called with."""
    values = [f"{name} {value}" for name, value in action.arguments.items()]
    return f"{action.name} with {' and '.join(values)}" if values else action.name


def _is_done_by(action: Action, call: ToolCall) -> bool:
    same = action.name == call.name and action.requestor == call.requestor
    return same and action.arguments == call.arguments
