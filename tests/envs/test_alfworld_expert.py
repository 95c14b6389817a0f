"""The expert's plans, counted by hand in a household of five places."""

import dataclasses

import pytest

pytest.importorskip("alfworld")

from jopd.envs.alfworld.expert import plan
from jopd.envs.alfworld.goals import Goal
from jopd.envs.alfworld.world import world_of

FACTS = [
    ("atlocation", "agent1", "start"),
    *(
        fact
        for name, kind in [
            ("table", "diningtable"),
            ("box", "cabinet"),
            ("sink", "sinkbasin"),
            ("oven", "microwave"),
            ("ice", "fridge"),
        ]
        for fact in [
            ("receptacletype", name, f"{kind}type"),
            ("receptacleatlocation", name, f"at {name}"),
            ("cancontain", f"{kind}type", "mugtype"),
        ]
    ),
    ("openable", "box"),
    ("openable", "ice"),
    ("objecttype", "mug1", "mugtype"),
    ("inreceptacle", "mug1", "table"),
    ("objecttype", "mug2", "mugtype"),
    ("inreceptacle", "mug2", "box"),
    ("objecttype", "lamp", "desklamptype"),
    ("inreceptacle", "lamp", "table"),
    *(
        (trait, mug)
        for mug in ("mug1", "mug2")
        for trait in ("pickupable", "cleanable", "heatable")
    ),
]
CLEAN_IN_BOX = Goal(object_type="mug", place_type="cabinet", treatment="clean")


def deeds(facts, goal) -> list[str]:
    return [f"{m.deed} {m.item or m.place}" for m in plan(world_of(facts), goal)]


def test_a_plan_fetches_treats_and_puts():
    assert deeds(FACTS, CLEAN_IN_BOX) == [
        *("go table", "take mug1", "go sink", "clean mug1", "go box", "open box", "put mug1"),
    ]


def test_what_was_done_already_is_not_done_again():
    facts = [fact for fact in FACTS if fact != ("inreceptacle", "mug1", "table")]
    facts += [("holds", "agent1", "mug1"), ("isclean", "mug1"), ("opened", "box")]
    assert deeds(facts, CLEAN_IN_BOX) == ["go box", "put mug1"]


def test_a_thing_in_the_goal_place_that_lacks_its_treatment_is_taken_out_again():
    facts = [fact for fact in FACTS if "mug1" not in fact]
    facts += [("opened", "box")]
    assert deeds(facts, CLEAN_IN_BOX) == [
        *("go box", "take mug2", "go sink", "clean mug2", "go box", "put mug2"),
    ]


def test_the_wrong_thing_in_hand_is_laid_down_where_that_costs_least():
    facts = [
        *FACTS,
        ("objecttype", "pan", "pantype"),
        ("cancontain", "diningtabletype", "pantype"),
        ("cancontain", "fridgetype", "pantype"),
        ("holds", "agent1", "pan"),
    ]
    assert deeds(facts, CLEAN_IN_BOX)[:3] == ["go table", "put pan", "take mug1"]


def test_two_things_are_brought_to_the_same_place():
    goal = Goal(object_type="mug", place_type="fridge", count=2)
    plans = deeds(FACTS, goal)
    assert len(plans) == 10
    assert plans.count("open ice") == 1 and plans.count("go ice") == 2


def test_a_thing_that_is_there_counts_as_one_of_two():
    goal = Goal(object_type="mug", place_type="cabinet", count=2)
    assert deeds(FACTS, goal) == ["go table", "take mug1", "go box", "open box", "put mug1"]


def test_a_thing_is_looked_at_under_the_lamp():
    goal = Goal(object_type="mug", lamp_type="desklamp")
    assert deeds(FACTS, goal) == ["go table", "take mug1", "use lamp"]
    lit = [*FACTS, ("istoggled", "lamp")]
    assert deeds(lit, goal) == ["go table", "take mug1"]


def test_at_the_goal_nothing_is_left_to_do():
    assert plan(world_of(FACTS), Goal(object_type="mug", place_type="cabinet")) == ()


def test_a_goal_that_cannot_be_reached_is_an_error():
    with pytest.raises(ValueError, match="no way"):
        plan(world_of(FACTS), dataclasses.replace(CLEAN_IN_BOX, object_type="spoon"))
