"""Hand-made conversations of one retail task, whose rewards the package's rules fix."""

import pytest

pytest.importorskip("tau2")

from tau2.data_model.message import AssistantMessage, ToolCall, UserMessage

from jopd.envs.tau2.reference import open_actions, open_facts
from jopd.envs.tau2.reward import reward_of
from jopd.envs.tau2.world import open_world

WORLD = open_world("retail")
TASK = next(  # asks for a change of the database and for being told 1093.34
    task
    for task in WORLD.tasks.values()
    if task.evaluation_criteria.communicate_info == ["1093.34"]
)


def conversation(*said):
    """The reference calls, made on a fresh database, then what the agent says, then the end."""
    environment, record = WORLD.make_environment(), []
    for number, action in enumerate(TASK.evaluation_criteria.actions):
        call = ToolCall(id=f"c{number}", name=action.name, arguments=action.arguments)
        record.append(AssistantMessage(role="assistant", content="", tool_calls=[call]))
        record.append(environment.get_response(call))
    record += [AssistantMessage(role="assistant", content=text) for text in said]
    return [*record, UserMessage(role="user", content="###STOP###")]


@pytest.mark.parametrize(
    ("said", "reward"),
    [("It is $1,093.34 in total.", 1.0), ("It is 1093.34.", 1.0), ("It is 1093.", 0.0)],
)
def test_the_reference_calls_are_rewarded_if_the_fact_is_told(said, reward):
    assert reward_of(WORLD, TASK, conversation(said)) == reward


def test_the_fact_without_the_changes_is_not_rewarded():
    *_, told, end = conversation("It is 1093.34.")
    assert reward_of(WORLD, TASK, [told, end]) == 0.0


def test_what_is_left_to_do_is_told_from_the_messages():
    record = conversation("It is 1,093.34.")
    assert (open_actions(TASK, record), open_facts(TASK, record)) == ([], [])
    assert open_actions(TASK, record[2:]) == TASK.evaluation_criteria.actions[:1]
    assert open_facts(TASK, record[:-2]) == ["1093.34"]
