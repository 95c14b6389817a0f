"""The official data's layout: which games are taken, in which order, of which dialect."""

import json

import pytest

pytest.importorskip("alfworld")

from alfworld_tree import in_old_dialect, write_game, write_tree

from jopd.envs.alfworld.generate import make_game
from jopd.envs.alfworld.panels import load_panel
from jopd.envs.alfworld.settings import AlfworldSettings
from jopd.envs.alfworld.simulator import AlfworldSimulator
from jopd.envs.base import EnvError


def settings_for(root, **changes) -> AlfworldSettings:
    return AlfworldSettings(data_dir=str(root), **changes)


def play_with_expert(settings: AlfworldSettings) -> list[str]:
    """Actions of the expert in every game of the eval panel; all of them win."""
    simulator = AlfworldSimulator(settings)
    actions = []
    for task in load_panel(settings, "eval").tasks:
        seen = simulator.reset(task)
        while not seen.done:
            actions.append(simulator.expert_action())
            assert simulator.is_allowed(actions[-1])
            seen = simulator.step(actions[-1])
        assert seen.success
    return actions


def test_games_come_sorted_by_folder_and_are_played_as_they_are(tmp_path):
    games = write_tree(tmp_path)
    settings = settings_for(tmp_path)
    panel = load_panel(settings, "eval")
    assert [task.task_id for task in panel.tasks] == sorted(games)
    walkthroughs = [command for game in games.values() for command in game.walkthrough]
    assert play_with_expert(settings) == walkthroughs


def test_game_files_are_never_written(tmp_path):
    write_tree(tmp_path)
    paths = sorted(tmp_path.rglob("*.*"))
    before = [(path, path.stat().st_mtime_ns) for path in paths]
    play_with_expert(settings_for(tmp_path))
    assert [(path, path.stat().st_mtime_ns) for path in sorted(tmp_path.rglob("*.*"))] == before


def test_what_the_package_skips_is_skipped(tmp_path):
    write_tree(tmp_path)
    before = load_panel(settings_for(tmp_path), "eval")
    kind = "pick_and_place_simple"
    data = make_game(kind, 310, 7).data()
    for folder in ("movable_recep-Pen", "PotatoSliced-None"):
        write_game(tmp_path, f"valid_seen/{folder}/trial_1", kind, data)
    write_game(tmp_path, "valid_seen/unsolvable/trial_1", kind, data | {"solvable": False})
    no_mark = {name: value for name, value in data.items() if name != "solvable"}
    write_game(tmp_path, "valid_seen/unmarked/trial_1", kind, no_mark)
    other = "pick_and_place_with_movable_recep"
    write_game(tmp_path, "valid_seen/other/trial_1", other, data)
    write_game(tmp_path, "valid_seen/missing/trial_1", kind, data).unlink()
    assert load_panel(settings_for(tmp_path), "eval") == before


def test_task_types_can_be_chosen(tmp_path):
    write_tree(tmp_path)
    chosen = settings_for(tmp_path, task_types=("pick_and_place_simple",))
    (task,) = load_panel(chosen, "eval").tasks
    assert task.task_id.split("/")[2].startswith("pick_and_place_simple-")


def test_the_panels_hash_covers_what_the_games_contain(tmp_path):
    write_tree(tmp_path)
    settings = settings_for(tmp_path)
    before = load_panel(settings, "eval")
    path = next(tmp_path.rglob("game.tw-pddl"))
    path.write_text(path.read_text() + " ")
    after = load_panel(settings, "eval")
    assert [task.task_id for task in after.tasks] == [task.task_id for task in before.tasks]
    assert after.sha256 != before.sha256


def test_a_game_that_changed_since_is_not_played(tmp_path):
    write_tree(tmp_path)
    settings = settings_for(tmp_path)
    task = load_panel(settings, "eval").tasks[0]
    simulator = AlfworldSimulator(settings)
    simulator.reset(task)
    (path,) = (tmp_path / "json_2.1.1" / task.task_id.removeprefix("alfworld/")).glob("game*")
    path.write_text(path.read_text() + " ")
    with pytest.raises(EnvError, match="has changed since the panel was made"):
        simulator.reset(task)
    path.unlink()
    with pytest.raises(EnvError, match="cannot be read"):
        simulator.reset(task)


def test_the_old_dialect_is_refused_with_what_to_do(tmp_path):
    write_tree(tmp_path, dialect="put")
    with pytest.raises(ValueError, match=r'3 of the dialect "put"[\s\S]*alfworld-download'):
        load_panel(settings_for(tmp_path), "eval")


def test_the_old_dialect_is_played_when_asked_for(tmp_path):
    write_tree(tmp_path, dialect="put")
    actions = play_with_expert(settings_for(tmp_path, dialect="put"))
    assert sum(action.startswith("put ") and " in/on " in action for action in actions) == 2
    assert not any(action.startswith("move ") for action in actions)


@pytest.mark.parametrize("dialect", ["move", "put"])
def test_mixed_dialects_are_always_refused(tmp_path, dialect):
    write_tree(tmp_path)
    kind = "pick_and_place_simple"
    old = in_old_dialect(make_game(kind, 311, 9))
    write_game(tmp_path, "valid_seen/zzz-old/trial_1", kind, old)
    with pytest.raises(ValueError, match=r'3 of the dialect "move", 1 of the dialect "put"'):
        load_panel(settings_for(tmp_path, dialect=dialect), "eval")


def test_an_unknown_dialect_is_refused(tmp_path):
    kind = "pick_and_place_simple"
    data = make_game(kind, 310, 7).data()
    strange = data | {"grammar": str(data["grammar"]).replace("move {o} to {r}", "drop {o}")}
    write_game(tmp_path, "valid_seen/strange/trial_1", kind, strange)
    with pytest.raises(ValueError, match=r"calls putting an object down 'drop \{o\}'"):
        load_panel(settings_for(tmp_path), "eval")


def test_missing_data_is_refused_with_what_to_do(tmp_path):
    with pytest.raises(ValueError, match="run alfworld-download"):
        load_panel(settings_for(tmp_path), "eval")
    (tmp_path / "json_2.1.1" / "valid_seen").mkdir(parents=True)
    with pytest.raises(ValueError, match="none of the 0 folders"):
        load_panel(settings_for(tmp_path), "eval")


def test_a_broken_file_is_named(tmp_path):
    write_tree(tmp_path)
    path = next(tmp_path.rglob("game.tw-pddl"))
    path.write_text(json.dumps({"grammar": ""})[:-3])
    with pytest.raises(ValueError, match=r"game\.tw-pddl is not valid JSON"):
        load_panel(settings_for(tmp_path), "eval")


def test_the_old_dialect_needs_official_data():
    with pytest.raises(ValueError, match="set data_dir"):
        AlfworldSettings(dialect="put")
