"""Made games: solvable by construction, and the same everywhere."""

import hashlib
import subprocess
import sys

import pytest

pytest.importorskip("alfworld")

from jopd.envs.alfworld.engine import Engine
from jopd.envs.alfworld.games import dialect_of, instruction_of
from jopd.envs.alfworld.generate import choices, make_game
from jopd.envs.alfworld.goals import Goal, read_goal
from jopd.envs.alfworld.package import GRAMMAR, ROOM_NUMBERS, ROOMS_OF_KIND, UNSEEN_NUMBERS
from jopd.envs.alfworld.panels import COUNTS, SHA256, game_of, kind_of, load_panel
from jopd.envs.alfworld.rooms import read_room
from jopd.envs.alfworld.settings import TASK_TYPES, AlfworldSettings

ROOM_FOR = {
    "pick_and_place_simple": 420,
    "look_at_obj_in_light": 309,
    "pick_clean_then_place_in_recep": 9,
    "pick_heat_then_place_in_recep": 20,
    "pick_cool_then_place_in_recep": 28,
    "pick_two_obj_and_place": 215,
}
CONTENT_SHA256 = {
    "train": "5e437b418ad721b07919f0365164187adcbd508db4223b5775e9d993b1e976a0",
    "eval": "4a953039585c4e20fbd418ee739d20728f5007a4bbf99e74bb3e70c941f3db9d",
    "test": "92c1d5a3aef1f12c5014fab1255f072263e41a60590984b803d90d0da6252509",
}


@pytest.fixture(scope="module")
def engine():
    return Engine()


def content_hash(split: str) -> str:
    """Hash of the first twenty games of a panel."""
    tasks = load_panel(AlfworldSettings(), split).tasks[:20]
    return hashlib.sha256("".join(game_of(task).sha256() for task in tasks).encode()).hexdigest()


@pytest.mark.parametrize("kind", TASK_TYPES)
def test_the_stored_walkthrough_wins_and_not_before_its_end(engine, kind):
    game = make_game(kind, ROOM_FOR[kind], 11)
    shown = engine.start(game)
    assert instruction_of(shown.text).endswith(".")
    for command in game.walkthrough:
        assert not shown.won
        assert command in shown.commands
        shown = engine.step(command)
    assert shown.won and shown.done


@pytest.mark.parametrize("split", SHA256)
def test_made_games_are_those_of_the_recorded_hash(split):
    assert content_hash(split) == CONTENT_SHA256[split]


def test_another_process_with_another_hash_seed_makes_the_same_games():
    code = (
        "import hashlib, sys; from jopd.envs.alfworld.panels import *;"
        "tasks = load_panel(AlfworldSettings(), 'eval').tasks[:20];"
        "text = ''.join(game_of(task).sha256() for task in tasks);"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    for seed in ("0", "12345"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PATH": "", "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == content_hash("eval")


def test_nothing_is_created_in_the_home_folder(tmp_path):
    code = "import os, jopd.envs.alfworld.package; print(os.environ.get('ALFWORLD_DATA'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"HOME": str(tmp_path), "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "None"
    assert not list(tmp_path.iterdir())


def test_panels_have_as_many_games_of_each_type_as_the_official_ones():
    assert {split: sum(counts) for split, counts in COUNTS.items()} == {
        "train": 3553,
        "eval": 140,
        "test": 134,
    }
    for split, counts in COUNTS.items():
        kinds = [kind_of(task) for task in load_panel(AlfworldSettings(), split).tasks]
        assert tuple(kinds.count(kind) for kind in TASK_TYPES) == counts


def test_no_split_shares_games_and_the_test_has_floor_plans_of_its_own():
    tasks = {split: load_panel(AlfworldSettings(), split).tasks for split in SHA256}
    seeds = {split: {task.seed for task in found} for split, found in tasks.items()}
    assert not seeds["train"] & seeds["eval"] and not seeds["train"] & seeds["test"]
    rooms = {split: {task.index for task in found} for split, found in tasks.items()}
    assert rooms["test"] <= UNSEEN_NUMBERS
    assert not rooms["train"] & UNSEEN_NUMBERS
    assert rooms["eval"] <= rooms["train"]


def test_task_types_can_be_chosen():
    settings = AlfworldSettings(task_types=("look_at_obj_in_light",))
    panel = load_panel(settings, "eval")
    assert [kind_of(task) for task in panel.tasks] == ["look_at_obj_in_light"] * 13
    assert panel.sha256 != SHA256["eval"]


def test_an_unknown_split_is_refused():
    with pytest.raises(ValueError, match="train, eval, test, not 'dev'"):
        load_panel(AlfworldSettings(), "dev")


def test_every_floor_plan_of_a_task_types_rooms_has_games_unless_it_lacks_a_lamp():
    for kind in TASK_TYPES:
        for number in (n for room in ROOMS_OF_KIND[kind] for n in ROOM_NUMBERS[room]):
            room = read_room(number)
            without_lamp = kind == "look_at_obj_in_light" and not room.lamp_types
            assert bool(choices(kind, room)) == (not without_lamp)


def test_the_installed_grammar_says_move():
    assert dialect_of(GRAMMAR) == "move"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("pick_and_place_simple", {"count": 1, "treatment": "", "lamp_type": ""}),
        ("look_at_obj_in_light", {"place_type": "", "lamp_type": "desklamp"}),
        ("pick_clean_then_place_in_recep", {"treatment": "clean"}),
        ("pick_heat_then_place_in_recep", {"treatment": "hot"}),
        ("pick_cool_then_place_in_recep", {"treatment": "cool"}),
        ("pick_two_obj_and_place", {"count": 2, "treatment": ""}),
    ],
)
def test_goals_are_read_from_the_problem(kind, expected):
    game = make_game(kind, ROOM_FOR[kind], 11)
    goal = read_goal(game.problem)
    assert {name: getattr(goal, name) for name in expected} == expected
    task = game.grammar.split("Your task is to: ")[1].split('"')[0]
    wanted = {goal.object_type, goal.place_type, goal.lamp_type} - {""}
    assert all(word in task for word in wanted)


def test_a_goal_of_another_task_type_is_refused():
    problem = "(:goal (and (isSliced ?o) (objectType ?o AppleType)))"
    with pytest.raises(ValueError, match="none of the six task types"):
        read_goal(problem)
    assert Goal(object_type="apple").count == 1
