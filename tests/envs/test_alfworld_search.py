"""The expert that searches: moves counted by hand, and whole games of the package."""

import random

import pytest

pytest.importorskip("alfworld")

from jopd.envs.alfworld.goals import Goal
from jopd.envs.alfworld.panels import load_panel
from jopd.envs.alfworld.search import place_seen, searching_move
from jopd.envs.alfworld.settings import AlfworldSettings
from jopd.envs.alfworld.simulator import AlfworldSimulator
from jopd.envs.alfworld.world import Item, Place, World

NAMES = {"t": "table 1", "c": "cabinet 1", "d": "drawer 1", "m": "mug 1"}
GOAL = Goal(object_type="mug", place_type="table", treatment="")
SETTINGS = AlfworldSettings(expert="searching")


def world(location: str, *, opened: bool = False, mug_in: str = "c", held: str = "") -> World:
    places = [
        Place(name="t", type="table", location="at t", openable=False, opened=False),
        Place(name="c", type="cabinet", location="at c", openable=True, opened=opened),
        Place(name="d", type="drawer", location="at d", openable=False, opened=False),
    ]
    mug = Item(name="m", type="mug", place=mug_in, traits=frozenset({"pickupable"}))
    return World(
        location=location,
        held=held,
        places={place.name: place for place in places},
        items={"m": mug},
        can_contain=frozenset({("table", "mug"), ("cabinet", "mug")}),
    )


def move(now: World, seen: set[str]) -> str:
    found = searching_move(now, GOAL, seen, NAMES)
    return f"{found.deed} {found.item or found.place}"


def test_it_looks_into_unseen_places_in_the_order_of_their_names():
    assert move(world("start"), set()) == "go c"
    assert move(world("at c"), set()) == "open c"
    assert move(world("start"), {"c"}) == "go c"  # the mug was seen there
    assert move(world("start", mug_in="d"), {"c"}) == "go d"


def test_it_follows_the_shortest_plan_once_it_has_seen_what_it_needs():
    assert move(world("at c", opened=True), {"c"}) == "take m"
    assert move(world("at c", opened=True, mug_in="", held="m"), {"c"}) == "go t"
    assert move(world("at t", opened=True, mug_in="", held="m"), {"c"}) == "put m"


def test_a_reached_goal_and_a_hopeless_search_are_said():
    with pytest.raises(ValueError, match="goal is reached"):
        searching_move(world("at t", mug_in="t"), GOAL, {"t"}, NAMES)
    with pytest.raises(ValueError, match="every place was searched"):
        searching_move(world("at t", mug_in="elsewhere"), GOAL, {"t", "c", "d"}, NAMES)


def test_only_what_an_action_has_shown_counts_as_seen():
    assert place_seen("go to table 1", world("at t"), NAMES) == "t"
    assert place_seen("go to cabinet 1", world("at c"), NAMES) == ""  # it is closed
    assert place_seen("open cabinet 1", world("at c", opened=True), NAMES) == "c"
    assert place_seen("go to table 1", world("start"), NAMES) == ""  # nothing happened
    assert place_seen("look", world("at t"), NAMES) == ""


@pytest.mark.parametrize("errors", [0.0, 0.2])
def test_it_wins_games_of_all_types_also_after_random_actions(errors):
    simulator, rng = AlfworldSimulator(SETTINGS), random.Random(0)
    for task in load_panel(SETTINGS, "eval").tasks[:12]:
        seen, taken = simulator.reset(task), 0
        while not seen.done:
            wise = simulator.expert_action()
            action = rng.choice(seen.allowed_actions) if rng.random() < errors else wise
            seen, taken = simulator.step(action), taken + 1
            assert taken < 200
        assert seen.success
