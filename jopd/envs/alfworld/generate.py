"""Games made from a task: a floor plan furnished at random, with a goal that can be reached.

The same task makes the same game in every process and on every machine.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from jopd.envs.alfworld.expert import plan
from jopd.envs.alfworld.games import Game, shown_names
from jopd.envs.alfworld.goals import goal_logic, goal_sentences, read_goal
from jopd.envs.alfworld.package import (
    ABILITIES,
    CONTENTS,
    DOMAIN,
    GRAMMAR,
    MOVABLE,
    OPENABLE,
    UNKNOWN_GOAL,
)
from jopd.envs.alfworld.problem import escaped, problem_text
from jopd.envs.alfworld.rooms import Furniture, Pose, Room, coordinates, free_pose, read_room
from jopd.envs.alfworld.settings import TaskType
from jopd.envs.alfworld.world import Fact, world_of

_AGENT = "agent1"
_MOST_COPIES = 3  # of one type of object, as in ALFRED
_LAMP_STANDS = ("CoffeeTable", "CounterTop", "Desk", "DiningTable", "Dresser", "Shelf", "SideTable")
_TREATED: dict[TaskType, tuple[str, str]] = {
    "pick_clean_then_place_in_recep": ("cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("coolable", "Fridge"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a made game asks for; the fields that its task type does not use are ""."""

    object_type: str
    place_type: str = ""
    lamp_type: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Thing:
    name: str
    type: str
    place: Furniture


def make_game(kind: TaskType, room_number: int, seed: int) -> Game:
    """The game of a task type in a floor plan.

    Raises:
      ValueError: the floor plan has nothing for this task type.
    """
    rng = random.Random(seed)
    room = read_room(room_number)
    options = choices(kind, room)
    if not options:
        raise ValueError(f"floor plan {room_number} has nothing for {kind}")
    object_type = rng.choice(sorted({choice.object_type for choice in options}))
    choice = rng.choice([choice for choice in options if choice.object_type == object_type])
    things = _furnish(kind, room, choice, rng)
    facts = list(_facts(room, things, free_pose(room, rng)))
    goal = goal_logic(
        kind,
        object_type=choice.object_type,
        place_type=choice.place_type,
        lamp_type=choice.lamp_type,
    )
    sentence = rng.choice(
        goal_sentences(
            kind,
            object_type=choice.object_type,
            place_type=choice.place_type,
            lamp_type=choice.lamp_type,
        )
    )
    problem = problem_text(f"made_{seed}", _declared(room, things, facts), facts, goal)
    return Game(
        domain=DOMAIN,
        grammar=GRAMMAR.replace(UNKNOWN_GOAL, sentence),
        problem=problem,
        walkthrough=_walkthrough(facts, problem),
    )


def choices(kind: TaskType, room: Room) -> list[Choice]:
    """Everything that a game of this type could ask for in this room."""
    if kind == "look_at_obj_in_light":
        if not any(piece.type in _LAMP_STANDS for piece in room.furniture):
            return []
        return [
            Choice(object_type=object_type, lamp_type=lamp)
            for object_type in room.object_types
            for lamp in room.lamp_types
        ]
    ability, appliance = _TREATED.get(kind, ("", ""))
    if appliance and appliance not in room.furniture_types:
        return []
    return [
        Choice(object_type=object_type, place_type=place_type)
        for object_type in room.object_types
        if not ability or object_type in ABILITIES[ability]
        for place_type in room.furniture_types
        if object_type in CONTENTS[place_type] and place_type != appliance
        if any(piece.type != place_type for piece in room.places_for(object_type))
    ]


def _furnish(kind: TaskType, room: Room, choice: Choice, rng: random.Random) -> list[_Thing]:
    """Copies of every type of object that the room knows, none of the wanted ones at its goal."""
    things = []
    for object_type in room.object_types:
        wanted = object_type == choice.object_type
        fewest = 2 if wanted and kind == "pick_two_obj_and_place" else 1
        places = [
            piece
            for piece in room.places_for(object_type)
            if not (wanted and piece.type == choice.place_type)
        ]
        for _ in range(rng.randint(fewest, _MOST_COPIES)):
            things.append(_thing(object_type, rng.choice(places), rng))
    stands = [piece for piece in room.furniture if piece.type in _LAMP_STANDS]
    lamps = room.lamp_types if stands else ()
    return things + [_thing(lamp, rng.choice(stands), rng) for lamp in lamps]


def _thing(object_type: str, place: Furniture, rng: random.Random) -> _Thing:
    name = escaped(f"{object_type}|{coordinates(rng)}")
    return _Thing(name=name, type=object_type, place=place)


def _facts(room: Room, things: list[_Thing], start: Pose) -> Iterator[Fact]:
    for piece in room.furniture:
        name = escaped(piece.name)
        yield ("receptacleType", name, f"{piece.type}Type")
        yield ("receptacleAtLocation", name, _location(piece.pose))
        if piece.type in OPENABLE:
            yield ("openable", name)
    for thing in things:
        yield from _facts_of(thing)
    object_types = sorted({thing.type for thing in things})
    for place_type in room.furniture_types:
        for object_type in object_types:
            if object_type in CONTENTS[place_type]:
                yield ("canContain", f"{place_type}Type", f"{object_type}Type")
    yield ("atLocation", _AGENT, _location(start))


def _facts_of(thing: _Thing) -> Iterator[Fact]:
    yield ("objectType", thing.name, f"{thing.type}Type")
    yield ("inReceptacle", thing.name, escaped(thing.place.name))
    yield ("objectAtLocation", thing.name, _location(thing.place.pose))
    if thing.type not in ABILITIES["toggleable"]:
        yield ("pickupable", thing.name)
    if thing.type in MOVABLE:
        yield ("isReceptacleObject", thing.name)
    for ability, types in ABILITIES.items():
        if thing.type in types:
            yield (ability, thing.name)


def _declared(room: Room, things: list[_Thing], facts: list[Fact]) -> list[tuple[str, str]]:
    locations = {fact[2] for fact in facts if fact[0] in ("receptacleAtLocation", "atLocation")}
    return [
        (_AGENT, "agent"),
        *((location, "location") for location in sorted(locations)),
        *((escaped(piece.name), "receptacle") for piece in room.furniture),
        *((thing.name, "object") for thing in things),
        *((f"{kind}Type", "rtype") for kind in room.furniture_types),
        *((f"{kind}Type", "otype") for kind in sorted({thing.type for thing in things})),
    ]


def _location(pose: Pose) -> str:
    return escaped("loc|" + "|".join(map(str, pose)))


def _walkthrough(facts: list[Fact], problem: str) -> tuple[str, ...]:
    world = world_of(tuple(word.lower() for word in fact) for fact in facts)
    names = shown_names([*world.places, *world.items])
    moves = plan(world, read_goal(problem))
    return tuple(move.command(names, "move") for move in moves)
