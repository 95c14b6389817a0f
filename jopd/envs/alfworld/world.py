"""A household at one moment, gathered from the engine's facts or from those of a new game."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Fact = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Something that contains things.

    Attributes:
      name: the engine's name of it.
      type: such as "cabinet".
      location: where the agent stands to use it.
      openable: it must be open to be used.
      opened: it is open.
    """

    name: str
    type: str
    location: str
    openable: bool
    opened: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A thing.

    Attributes:
      name: the engine's name of it.
      type: such as "tomato".
      place: name of the place that contains it; "" when it is held or stands nowhere.
      traits: what it can do and what was done to it: "pickupable", "heatable", "ishot" and so on.
    """

    name: str
    type: str
    place: str
    traits: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Where everything is.

    Attributes:
      location: where the agent stands.
      held: name of the item in its hand; "" for none.
      places: by name.
      items: by name.
      can_contain: pairs of a place's type and a thing's type that go together.
    """

    location: str
    held: str
    places: Mapping[str, Place]
    items: Mapping[str, Item]
    can_contain: frozenset[tuple[str, str]]

    def accepts(self, place: Place, item: Item) -> bool:
        """Whether things of the item's type belong in the place."""
        return (place.type, item.type) in self.can_contain


def world_of(facts: Iterable[Fact]) -> World:
    """The world that facts tell of: each is a predicate and its arguments, in lower case."""
    by_name: dict[str, list[Fact]] = {}
    for name, *arguments in facts:
        by_name.setdefault(name, []).append(tuple(arguments))
    locations = _pairs(by_name, "receptacleatlocation")
    inside = _pairs(by_name, "inreceptacle")
    traits: dict[str, set[str]] = {}
    for name, rows in by_name.items():
        for row in rows:
            if len(row) == 1:
                traits.setdefault(row[0], set()).add(name)
    return World(
        location=by_name["atlocation"][0][1],
        held=by_name["holds"][0][1] if by_name.get("holds") else "",
        places={
            name: Place(
                name=name,
                type=kind.removesuffix("type"),
                location=locations[name],
                openable="openable" in traits.get(name, ()),
                opened="opened" in traits.get(name, ()),
            )
            for name, kind in sorted(_pairs(by_name, "receptacletype").items())
            if name in locations
        },
        items={
            name: Item(
                name=name,
                type=kind.removesuffix("type"),
                place=inside.get(name, ""),
                traits=frozenset(traits.get(name, ())),
            )
            for name, kind in sorted(_pairs(by_name, "objecttype").items())
        },
        can_contain=frozenset(
            (place.removesuffix("type"), thing.removesuffix("type"))
            for place, thing in by_name.get("cancontain", ())
        ),
    )


def _pairs(by_name: Mapping[str, list[Fact]], name: str) -> dict[str, str]:
    return {row[0]: row[1] for row in by_name.get(name, ())}
