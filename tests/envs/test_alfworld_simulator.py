"""ALFWorld through our interface: expert, random play, replay in another process."""

import asyncio
import random
from contextlib import closing
from functools import partial

import pytest

pytest.importorskip("alfworld")

from jopd.envs.alfworld.panels import load_panel
from jopd.envs.alfworld.settings import TASK_TYPES, AlfworldSettings
from jopd.envs.alfworld.simulator import AlfworldSimulator
from jopd.envs.base import Simulator
from jopd.envs.factory import make_simulator, open_environment
from jopd.envs.process import Deadlines, ProcessEnv, replay

SETTINGS = AlfworldSettings()


@pytest.fixture(scope="module")
def simulator():
    return AlfworldSimulator(SETTINGS)


def tasks_of(kind: str, split: str = "eval"):
    return load_panel(AlfworldSettings(task_types=(kind,)), split).tasks


def test_it_is_a_simulator_and_the_factory_opens_it(simulator):
    assert isinstance(simulator, Simulator)
    assert open_environment(SETTINGS).load_panel("eval") == load_panel(SETTINGS, "eval")


@pytest.mark.parametrize("split", ["eval", "test"])
@pytest.mark.parametrize("kind", TASK_TYPES)
def test_the_expert_succeeds_in_few_steps(simulator, kind, split):
    for task in tasks_of(kind, split)[:2]:
        seen = simulator.reset(task)
        steps = 0
        while not seen.done:
            assert (seen.reward, seen.success) == (0.0, False)
            action = simulator.expert_action()
            assert simulator.is_allowed(action)
            seen, steps = simulator.step(action), steps + 1
        assert (seen.reward, seen.success) == (1.0, True)
        assert 3 <= steps <= 12
        with pytest.raises(ValueError, match="goal is reached"):
            simulator.expert_action()


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_the_expert_recovers_from_random_actions(simulator, kind):
    rng = random.Random(3)
    seen = simulator.reset(tasks_of(kind)[2])
    for _ in range(60):
        if seen.done:
            break
        expert = simulator.expert_action()
        seen = simulator.step(rng.choice(seen.allowed_actions) if rng.random() < 0.5 else expert)
    assert seen.success


def test_random_actions_almost_never_succeed(simulator):
    rng = random.Random(0)
    wins = 0
    for task in load_panel(SETTINGS, "eval").tasks[:10]:
        seen = simulator.reset(task)
        for _ in range(30):
            seen = seen if seen.done else simulator.step(rng.choice(seen.allowed_actions))
        wins += seen.success
    assert wins <= 1


def test_what_is_shown_is_the_engines_text(simulator):
    seen = simulator.reset(tasks_of("pick_heat_then_place_in_recep")[0])
    assert seen.observation.startswith(
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly "
        "around you, you see a "
    )
    assert seen.observation.endswith(f"\n\nYour task is to: {seen.instruction}")
    assert simulator.step("go to fridge 1").observation == (
        "You arrive at fridge 1. The fridge 1 is closed."
    )


def test_what_is_not_listed_is_not_allowed_and_changes_nothing(simulator):
    before = simulator.reset(tasks_of("look_at_obj_in_light")[0])
    for action in ("", "help", "fly", "Go to bed 1", "go to nowhere 9", "x" * 5000):
        assert not simulator.is_allowed(action)
    for action in ("", "fly", "Look"):
        seen = simulator.step(action)
        assert seen.observation == "Nothing happens."
        assert seen.allowed_actions == before.allowed_actions
    assert "help" not in seen.allowed_actions and "look" in seen.allowed_actions


def test_random_prefixes_replay_the_same_in_another_process(simulator):
    rng = random.Random(5)
    env = ProcessEnv(partial(make_simulator, SETTINGS), Deadlines())
    with closing(env):
        for task in load_panel(SETTINGS, "train").tasks[:6]:
            seen = simulator.reset(task)
            actions, shown = [], [seen.observation]
            for _ in range(rng.randint(1, 15)):
                actions.append(rng.choice(seen.allowed_actions))
                seen = simulator.step(actions[-1])
                shown.append(seen.observation)
            assert asyncio.run(replay(env, task, actions, shown)) == seen
    assert env.losses == 0
