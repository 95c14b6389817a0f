"""The quick engine shows what the stock one shows, to the byte."""

import random
import sys

import pytest

pytest.importorskip("alfworld")

from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
from textworld import EnvInfos
from textworld.envs.pddl import PddlEnv

from jopd.envs.alfworld.engine import Engine
from jopd.envs.alfworld.games import Game
from jopd.envs.alfworld.panels import game_of, load_panel
from jopd.envs.alfworld.settings import TASK_TYPES, AlfworldSettings


@pytest.fixture(scope="module")
def engines():
    return Engine(), AlfredDemangler(PddlEnv(EnvInfos()))


def compare(engines, game: Game, *, steps: int, seed: int) -> int:
    """Plays one game in both; returns how many states were compared."""
    quick, stock = engines
    rng = random.Random(seed)
    shown = quick.start(game)
    stock.load(game.data())
    state, done = stock.reset(), False
    ways = list(game.walkthrough)
    for number in range(steps):
        assert shown.text == state["feedback"]
        assert list(shown.commands) == state["admissible_commands"]
        assert (shown.won, shown.done) == (state["won"], done)
        if done:
            return number + 1
        command = rng.choice([*shown.commands, "dance", ways[0]])
        if command == ways[0]:
            ways = ways[1:] + ways[:1]
        shown = quick.step(command)
        state, _, done = stock.step(command)
    return steps


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_a_random_play_shows_the_same(engines, kind):
    task = load_panel(AlfworldSettings(task_types=(kind,)), "eval").tasks[0]
    assert compare(engines, game_of(task), steps=8, seed=1) > 0


def test_a_won_play_shows_the_same(engines):
    task = load_panel(AlfworldSettings(task_types=("look_at_obj_in_light",)), "eval").tasks[1]
    game = game_of(task)
    quick, stock = engines
    quick.start(game)
    stock.load(game.data())
    stock.reset()
    for command in game.walkthrough:
        shown = quick.step(command)
        state, _, done = stock.step(command)
        assert (shown.text, shown.done) == (state["feedback"], done)
    assert shown.won


@pytest.mark.slow
def test_a_hundred_random_plays_show_the_same(engines):
    tasks = load_panel(AlfworldSettings(), "train").tasks[:100]
    compared = [
        compare(engines, game_of(task), steps=25, seed=number) for number, task in enumerate(tasks)
    ]
    assert sum(compared) > 2000


def test_the_arguments_of_the_process_stay(engines, monkeypatch):
    monkeypatch.setattr("sys.argv", ["train", "--config=x"])
    engines[0].start(game_of(load_panel(AlfworldSettings(), "test").tasks[1]))
    assert sys.argv == ["train", "--config=x"]
