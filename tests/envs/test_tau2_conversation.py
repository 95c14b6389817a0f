"""A model as the customer, in front of the real package in a process of its own."""

import asyncio

import pytest

pytest.importorskip("tau2")

from jopd.envs.base import Env, EnvError
from jopd.envs.factory import open_environment
from jopd.envs.tau2.conversation import Speak
from jopd.envs.tau2.messages import write_call
from jopd.envs.tau2.settings import Tau2Settings

SETTINGS = Tau2Settings(domain="telecom", user="model")


class Customer:
    """Says its lines one after the other, and keeps what it was shown."""

    def __init__(self, *lines):
        self.lines = list(lines)
        self.shown = []

    async def __call__(self, messages, tools):
        self.shown.append((tuple(messages), tuple(tools)))
        return self.lines.pop(0)


def play(customer, *messages):
    """What the agent hears after the reset and after each of its messages."""
    environment = open_environment(SETTINGS, customer)
    tasks = environment.load_panel("eval").tasks
    name = "telecom/[mobile_data_issue]data_saver_mode_on|user_abroad_roaming_enabled_off"
    task = next(task for task in tasks if task.task_id.startswith(name))
    env = environment.make_env()

    async def hear():
        heard = [await env.reset(task)]
        for message in messages:
            heard.append(await env.step(message))
        return heard

    try:
        assert isinstance(env, Env)
        return asyncio.run(hear())
    finally:
        env.close()


def test_customer_and_agent_reach_the_goal_together():
    """Both switches are the customer's; its calls are answered to it, and never to the agent."""
    customer = Customer(
        "My internet is slow.",
        write_call("toggle_data_saver_mode", {}),
        write_call("toggle_roaming", {}),
        "I did both.",
        "###STOP###",
    )
    assert isinstance(customer, Speak)
    heard = play(customer, "Switch data saver off and roaming on.", "Great.")
    assert [seen.observation for seen in heard[:2]] == ["My internet is slow.", "I did both."]
    assert all("<policy>" in seen.instruction for seen in heard)
    assert (heard[2].done, heard[2].success) == (True, True)


def test_the_customer_sees_its_scenario_its_tools_and_flipped_roles():
    customer = Customer("Hello.", write_call("toggle_roaming", {}), "Done.")
    play(customer, "Toggle roaming.")
    messages, tools = customer.shown[2]
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "user", "assistant", "tool")
    ]
    assert "John Smith" in messages[0]["content"]
    assert [message["content"] for message in messages[2:4]] == ["Hello.", "Toggle roaming."]
    assert len(tools) == 30


def test_a_customer_that_fails_is_told_why_until_the_errors_are_too_many():
    customer = Customer(*["<tool_call>nonsense"] * 10)
    heard = play(customer)
    assert (heard[0].done, heard[0].success) == (True, False)
    assert "cannot be read" in customer.shown[1][0][-1]["content"]


def test_the_customer_may_end_the_conversation_at_once():
    heard = play(Customer("###OUT-OF-SCOPE###"))
    assert (heard[0].done, heard[0].success) == (True, False)


def test_a_model_that_is_wanted_and_not_given_is_an_error():
    with pytest.raises(ValueError, match="no model plays"):
        open_environment(SETTINGS).make_env()


def test_what_the_model_raises_reaches_the_rollout():
    class Broken:
        async def __call__(self, messages, tools):
            raise EnvError("the prompt is too long")

    with pytest.raises(EnvError, match="too long"):
        play(Broken())
