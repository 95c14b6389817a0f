"""The real package, both domains, with the scripted customer."""

import asyncio
import random

import pytest

pytest.importorskip("tau2")

from jopd.envs.factory import make_simulator, open_environment
from jopd.envs.process import replay
from jopd.envs.tau2.messages import write_call
from jopd.envs.tau2.panels import SHA256, load_panel
from jopd.envs.tau2.reference import calls_of
from jopd.envs.tau2.settings import Tau2Settings
from jopd.envs.tau2.simulator import Tau2Simulator
from jopd.envs.tau2.world import open_world

DOMAINS = ("retail", "telecom")


def simulator(domain, **settings):
    return Tau2Simulator(Tau2Settings(domain=domain, **settings))


def task_of(domain, number=0):
    return load_panel(domain, "eval").tasks[number]


def play_reference(played, task):
    seen = played.reset(task)
    for _ in range(50):
        if seen.done:
            break
        seen = played.step(played.expert_action())
    return seen


def successes(domain, tasks):
    played = simulator(domain)
    return sum(play_reference(played, task).success for task in tasks)


def random_action(generator, played):
    """A read-only call, a message, nonsense, or the reference action."""
    return generator.choice(
        (
            write_call("get_user_details", {"user_id": f"u{generator.randrange(9)}"}),
            "Please tell me more. Toggle airplane mode and run speed test.",
            '<tool_call>{"name": ',
            played.expert_action(),
            played.expert_action(),
        )
    )


def random_play(played, task, seed, length):
    generator = random.Random(seed)
    observations, actions = [played.reset(task).observation], []
    for _ in range(length):
        actions.append(random_action(generator, played))
        seen = played.step(actions[-1])
        observations.append(seen.observation)
        if seen.done:
            break
    return actions, observations


@pytest.mark.parametrize(("domain", "split"), SHA256)
def test_panels_are_the_packages_splits(domain, split):
    panel = load_panel(domain, split)
    assert panel.sha256 == SHA256[domain, split]
    assert len(panel.tasks) == {"train": 74, "eval": 40}[split]
    assert all(task.task_id.startswith(f"{domain}/") for task in panel.tasks)


@pytest.mark.parametrize("domain", DOMAINS)
def test_train_and_eval_share_no_task(domain):
    train, held_out = (
        {task.task_id for task in load_panel(domain, s).tasks} for s in ("train", "eval")
    )
    assert not train & held_out


def test_an_unknown_split_names_the_known_ones():
    with pytest.raises(ValueError, match="train, eval"):
        load_panel("retail", "test")


@pytest.mark.parametrize(("domain", "step"), [("retail", 8), ("telecom", 2)])
def test_reference_actions_reach_success(domain, step):
    tasks = load_panel(domain, "eval").tasks[::step]
    assert successes(domain, tasks) == len(tasks)


@pytest.mark.slow
@pytest.mark.parametrize("domain", DOMAINS)
def test_reference_actions_reach_success_on_every_task(domain):
    for split in ("train", "eval"):
        tasks = load_panel(domain, split).tasks
        assert successes(domain, tasks) >= 0.95 * len(tasks)


@pytest.mark.parametrize(("domain", "most"), [("retail", 1), ("telecom", 0)])
def test_an_agent_that_does_nothing_hardly_ever_succeeds(domain, most):
    played = simulator(domain, user_patience=2)
    count = 0
    for task in load_panel(domain, "eval").tasks[::4]:
        seen = played.reset(task)
        while not seen.done:
            seen = played.step("How can I help?")
        count += seen.success
    assert count <= most


@pytest.mark.parametrize("domain", DOMAINS)
def test_random_prefixes_play_again_with_the_same_observations(domain):
    first, second = simulator(domain), simulator(domain)
    for seed, task in enumerate(load_panel(domain, "train").tasks[:8]):
        actions, observations = random_play(first, task, seed, 8)
        again = [second.reset(task).observation]
        again += [second.step(action).observation for action in actions]
        assert again == observations


@pytest.mark.parametrize("domain", DOMAINS)
def test_a_process_restores_the_state_of_a_play_in_another(domain):
    task = task_of(domain)
    actions, observations = random_play(simulator(domain), task, 3, 5)
    env = open_environment(Tau2Settings(domain=domain)).make_env()
    try:
        seen = asyncio.run(replay(env, task, actions, observations))
    finally:
        env.close()
    assert seen.observation == observations[-1]


@pytest.mark.parametrize("domain", DOMAINS)
def test_the_agent_is_told_policy_and_tools(domain):
    seen = make_simulator(Tau2Settings(domain=domain)).reset(task_of(domain))
    assert "<policy>" in seen.instruction
    assert seen.role == "user"
    assert {"retail": 15, "telecom": 13}[domain] == len(seen.tools)


def test_a_tool_call_is_answered_by_the_tool_and_words_by_the_customer():
    played = simulator("retail")
    played.reset(task_of("retail"))
    found = played.step(
        write_call(
            "find_user_id_by_name_zip",
            {"first_name": "Mei", "last_name": "Kovacs", "zip": "28236"},
        )
    )
    assert (found.role, found.observation) == ("tool", "mei_kovacs_8020")
    assert played.step("What is your name?").role == "user"


def test_several_calls_are_answered_in_order():
    played = simulator("retail")
    played.reset(task_of("retail"))
    sums = [write_call("calculate", {"expression": text}) for text in ("1 + 1", "2 * 3")]
    assert played.step("".join(sums)).observation == "2.0\n6.0"


@pytest.mark.parametrize(
    ("action", "answer"),
    [
        (write_call("fly", {}), "not found"),
        (write_call("get_order_details", {"order_id": 5}), "Error"),
        (write_call("get_order_details", {"wrong": "#W1"}), "Error"),
        (write_call("get_order_details", {"order_id": "x" * 100_000}), "Error"),
        (write_call("calculate", {"expression": "-" * 100_000 + "1"}), "Error"),
        (write_call("calculate", {"expression": "9**9**9**9"}), "powers"),
        ('<tool_call>{"name": "get', "cannot be read"),
        ("", "empty"),
    ],
)
def test_bad_calls_are_answered_in_words_and_counted(action, answer):
    played = simulator("retail", max_errors=2)
    played.reset(task_of("retail"))
    seen = played.step(action)
    assert answer in seen.observation
    assert (seen.role, seen.done) == ("tool", False)
    seen = played.step(action)
    assert (seen.done, seen.success) == (True, False)


def test_a_conversation_of_too_many_messages_ends_without_success():
    played = simulator("retail", max_steps=6, user_patience=50)
    seen = played.reset(task_of("retail"))
    for _ in range(6):
        if not seen.done:
            seen = played.step("Please wait.")
    assert (seen.done, seen.success) == (True, False)


@pytest.mark.parametrize(
    ("action", "allowed"),
    [
        (write_call("get_order_details", {"order_id": "#W1"}), True),
        ("Hello.", True),
        (write_call("get_order_details", {"order_id": 5}), False),
        (write_call("get_order_details", {}), False),
        (write_call("get_order_details", {"order_id": "#W1", "x": 1}), False),
        (write_call("fly", {}), False),
        ("<tool_call>", False),
        ("", False),
    ],
)
def test_allowed_is_what_is_well_formed_with_a_known_tool_and_fitting_arguments(action, allowed):
    played = simulator("retail")
    played.reset(task_of("retail"))
    assert played.is_allowed(action) is allowed


def test_the_agent_cannot_use_the_customers_tools():
    played = simulator("telecom")
    played.reset(task_of("telecom"))
    assert not played.is_allowed(write_call("toggle_data_saver_mode", {}))
    assert "not found" in played.step(write_call("toggle_data_saver_mode", {})).observation


SWITCHES = "telecom/[mobile_data_issue]data_saver_mode_on|user_abroad_roaming_enabled_off"
TRANSFER = "telecom/[service_issue]break_apn_settings|lock_sim_card_pin[PERSONA:None]"
TRANSFER_TOOL = "transfer_to_human_agents"


def started(name):
    """A play of the telecom task whose id begins so."""
    played = simulator("telecom")
    tasks = load_panel("telecom", "eval").tasks
    played.reset(next(task for task in tasks if task.task_id.startswith(name)))
    return played


def customer_calls(played):
    return [
        (call.name, call.arguments)
        for call in calls_of(played._dialogue.record)
        if call.requestor == "user"
    ]


def test_the_customer_uses_its_own_tools_when_the_agent_asks_for_them():
    """The task: data saver is on and roaming is off; both are switches of the customer's phone."""
    played = started(SWITCHES)
    seen = played.step("Please toggle data saver mode.")
    assert seen.role == "user"
    assert "Data Saver Mode is now OFF" in seen.observation
    played.step("Now toggle_roaming, please.")
    end = played.step("It should work now.")
    assert (end.done, end.success, end.reward) == (True, True, 1.0)


@pytest.mark.parametrize(
    "message",
    [
        "Go on.",
        "Your phone has toggle_roaming.",
        "Please do not toggle roaming.",
        "We will toggle roaming later.",
        "Toggle roaming and toggle data saver mode, please.",
        "Please wait. You have toggle_roaming.",
    ],
)
def test_the_customer_does_nothing_that_is_not_plainly_asked_for(message):
    played = started(SWITCHES)
    played.step(message)
    assert customer_calls(played) == []


def test_a_list_of_all_tools_gets_the_customer_to_do_nothing():
    played = started(SWITCHES)
    tools = open_world("telecom").user.params
    seen = played.step(f"Please do this now: {', '.join(tools)}.")
    assert customer_calls(played) == []
    assert "one thing at a time" in seen.observation


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ("Please grant app permission.", []),
        ("Please grant app permission storage to photos.", []),
        (
            "Please grant app permission storage to messaging.",
            [("grant_app_permission", {"app_name": "messaging", "permission": "storage"})],
        ),
    ],
)
def test_the_customer_adds_nothing_to_what_it_is_asked_for(message, calls):
    tasks = load_panel("telecom", "eval").tasks
    name = next(task.task_id for task in tasks if "break_app_storage_permission" in task.task_id)
    played = started(name)
    played.step(message)
    assert customer_calls(played) == calls


@pytest.mark.parametrize(("arguments", "success"), [({"summary": "locked"}, True), ({}, False)])
def test_only_a_transfer_that_did_not_fail_is_one(arguments, success):
    played = started(TRANSFER)
    played.step(write_call(TRANSFER_TOOL, arguments))
    seen = played.step("I have transferred you.")
    while not seen.done:
        seen = played.step("Please wait.")
    assert seen.success is success
