"""ScienceWorld through the real package and Java."""

import random
import shutil
from contextlib import closing

import pytest

from jopd.envs.base import EnvError
from jopd.envs.scienceworld.panels import HELD_OUT_VARIATIONS, TRAIN_VARIATIONS, load_panel
from jopd.envs.scienceworld.settings import ScienceWorldSettings
from jopd.panels import Task

pytest.importorskip("scienceworld")
if shutil.which("java") is None:
    pytest.skip("ScienceWorld needs Java", allow_module_level=True)

from jopd.envs.scienceworld.simulator import ScienceWorldSimulator

QUICK = ("find-non-living-thing", "find-animal", "chemistry-mix-paint-tertiary-color", "freeze")


@pytest.fixture(scope="module")
def simulator():
    with closing(ScienceWorldSimulator(ScienceWorldSettings())) as simulator:
        yield simulator


def task_of(kind: str, variation: int = 0) -> Task:
    return Task(
        task_id=f"scienceworld/{kind}/{variation}", domain="scienceworld", index=variation, seed=0
    )


def gold_path(simulator, task: Task) -> tuple[list[str], list[str]]:
    """Actions of the expert and what was shown after each, the reset first."""
    seen = simulator.reset(task)
    actions, shown = [], [seen.observation]
    while not seen.done:
        actions.append(simulator.expert_action())
        assert simulator.is_allowed(actions[-1])
        seen = simulator.step(actions[-1])
        shown.append(seen.observation)
    assert seen.success
    return actions, shown


def test_the_split_has_the_papers_counts_and_no_type_twice():
    assert len(load_panel((), "train").tasks) == 2294
    assert len(load_panel((), "eval").tasks) == 1308
    assert not TRAIN_VARIATIONS.keys() & HELD_OUT_VARIATIONS.keys()
    assert len(TRAIN_VARIATIONS) + len(HELD_OUT_VARIATIONS) == 30


def test_chosen_types_hold_out_variations_that_training_never_sees():
    kinds = ("find-plant", "freeze")
    trained, held_out = (
        {task.task_id for task in load_panel(kinds, split).tasks} for split in ("train", "eval")
    )
    assert (len(trained), len(held_out)) == (150 + 15, 150 + 15)
    assert not trained & held_out
    with pytest.raises(ValueError, match=r"no task types find-plants; there are boil, "):
        load_panel(("find-plants",), "train")


def test_training_begins_as_the_released_script_does():
    first = [task.task_id.split("/", 1)[1] for task in load_panel((), "train").tasks[:3]]
    assert first == [
        "test-conductivity/194",
        "inclined-plane-friction-named-surfaces/390",
        "find-plant/147",
    ]


def test_there_are_as_many_variations_as_the_package_says(simulator):
    for kind, count in (TRAIN_VARIATIONS | HELD_OUT_VARIATIONS).items():
        assert simulator._ask("getTaskMaxVariations", kind) == count


@pytest.mark.parametrize("kind", QUICK)
def test_the_gold_path_succeeds(simulator, kind):
    gold_path(simulator, task_of(kind))


def test_replays_show_the_same_in_another_process(simulator):
    tasks = [task_of(kind, 1) for kind in QUICK]
    played = [gold_path(simulator, task) for task in tasks]
    with closing(ScienceWorldSimulator(ScienceWorldSettings())) as other:
        for task, (actions, shown) in zip(tasks, played, strict=True):
            again = [other.reset(task).observation]
            again += [other.step(action).observation for action in actions]
            assert again == shown


def test_what_the_simulator_does_not_know_is_not_allowed_and_changes_nothing(simulator):
    before = simulator.reset(task_of("find-animal"))
    for action in ("", "fly to the moon", "reset task", "¿qué?", "x" * 5000):
        assert not simulator.is_allowed(action)
        seen = simulator.step(action)
        assert seen.observation == "No known action matches that input."
        assert (seen.done, seen.reward) == (False, before.reward)
    assert simulator.is_allowed("look around")
    assert simulator.step("look around").observation == before.observation


def test_what_was_asked_about_is_what_must_be_done(simulator):
    simulator.reset(task_of("find-animal"))
    simulator.is_allowed("look around")
    with pytest.raises(EnvError, match="'look around' was asked about"):
        simulator.step("inventory")


def test_a_wrong_focus_ends_the_episode_without_success(simulator):
    seen = simulator.reset(task_of("find-animal"))
    wrong = next(name for name in seen.objects if "door" in name)
    seen = simulator.step(f"focus on {wrong}")
    assert seen.done and not seen.success and 0 <= seen.reward < 1


def test_random_actions_do_not_succeed(simulator):
    rng = random.Random(0)
    for kind in QUICK:
        seen = simulator.reset(task_of(kind, 2))
        for _ in range(30):
            if seen.done:
                break
            form = rng.choice(seen.allowed_actions)
            seen = simulator.step(form.replace("OBJ", rng.choice(seen.objects)))
        assert not seen.success
