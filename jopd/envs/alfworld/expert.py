"""An expert who knows where everything is and plans anew from every state."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, permutations
from typing import Literal

from jopd.envs.alfworld.goals import Goal, Treatment
from jopd.envs.alfworld.settings import Dialect
from jopd.envs.alfworld.world import Item, Place, World

Deed = Literal["go", "open", "take", "put", "clean", "heat", "cool", "use"]

_WORDING: dict[Deed, str] = {
    "go": "go to {place}",
    "open": "open {place}",
    "take": "take {item} from {place}",
    "clean": "clean {item} with {place}",
    "heat": "heat {item} with {place}",
    "cool": "cool {item} with {place}",
    "use": "use {item}",
}
_PUTTING: dict[Dialect, str] = {"move": "move {item} to {place}", "put": "put {item} in/on {place}"}
_TREATING: dict[Treatment, tuple[Deed, str, str]] = {
    "clean": ("clean", "sinkbasin", "cleanable"),
    "hot": ("heat", "microwave", "heatable"),
    "cool": ("cool", "fridge", "coolable"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One action, with the engine's names of what it is about."""

    deed: Deed
    place: str = ""
    item: str = ""

    def command(self, names: Mapping[str, str], dialect: Dialect) -> str:
        """The action in words, with the names that the player sees."""
        template = _PUTTING[dialect] if self.deed == "put" else _WORDING[self.deed]
        return template.format(place=names.get(self.place), item=names.get(self.item))


def plan(world: World, goal: Goal) -> tuple[Move, ...]:
    """The shortest way to the goal of those that the expert considers; empty at the goal.

    Every plan's rest is among the plans after its first move, so whoever follows the first move
    of a new plan each time arrives.

    Raises:
      ValueError: there is no way.
    """
    best = find_plan(world, goal)
    if best is None:
        raise ValueError(f"the world has no way to {goal}")
    return best


def find_plan(world: World, goal: Goal) -> tuple[Move, ...] | None:
    """`plan`, or None if there is no way."""
    routes = _looking(world, goal) if goal.lamp_type else _bringing(world, goal)
    return min(routes, key=len, default=None)  # the first of equals; worlds are sorted by name


def _looking(world: World, goal: Goal) -> Iterator[tuple[Move, ...]]:
    lamps = [
        x for x in world.items.values() if x.type == goal.lamp_type and x.place in world.places
    ]
    for item in _candidates(world, goal.object_type):
        for lamp in lamps:
            route = _Route(world)
            route.fetch(item)
            route.go(world.places[lamp.place])
            if "istoggled" not in lamp.traits:
                route.moves.append(Move(deed="use", item=lamp.name))
            yield tuple(route.moves)


def _bringing(world: World, goal: Goal) -> Iterator[tuple[Move, ...]]:
    wanted = [x for x in _candidates(world, goal.object_type) if _treatable(x, goal.treatment)]
    for place in (x for x in world.places.values() if x.type == goal.place_type):
        done = [x for x in wanted if x.place == place.name and _treated(x, goal.treatment)]
        others = [x for x in wanted if x not in done and world.accepts(place, x)]
        for items in permutations(others, max(0, goal.count - len(done))):
            route = _Route(world)
            for item in items:
                route.fetch(item)
                if not _treated(item, goal.treatment):
                    route.treat(item, goal.treatment)
                route.put(item, place)
            yield tuple(route.moves)


def _candidates(world: World, object_type: str) -> list[Item]:
    return [
        item
        for item in world.items.values()
        if item.type == object_type
        and (
            item.name == world.held or (item.place in world.places and "pickupable" in item.traits)
        )
    ]


def _treated(item: Item, treatment: Treatment) -> bool:
    return not treatment or f"is{treatment}" in item.traits


def _treatable(item: Item, treatment: Treatment) -> bool:
    return not treatment or _TREATING[treatment][2] in item.traits


class _Route:
    """Moves from the present state on, and where they lead.

    Attributes:
      moves: so far.
    """

    def __init__(self, world: World):
        self.moves: list[Move] = []
        self._world = world
        self._location = world.location
        self._held = world.held
        self._opened = {place.name for place in world.places.values() if place.opened}
        self._moved: dict[str, Place] = {}

    def go(self, place: Place) -> None:
        """Goes where the place can be used, unless it can be from here."""
        if self._location != place.location:
            self.moves.append(Move(deed="go", place=place.name))
            self._location = place.location

    def fetch(self, item: Item) -> None:
        """Takes the item in hand; another one is laid down first."""
        if self._held == item.name:
            return
        if self._held:
            held = self._world.items[self._held]
            self.put(held, self._place_to_leave(held, self._place_of(item)))
        place = self._place_of(item)
        self._go_and_open(place)
        self.moves.append(Move(deed="take", item=item.name, place=place.name))
        self._held = item.name

    def treat(self, item: Item, treatment: Treatment) -> None:
        """Cleans, heats or cools the item in hand."""
        deed, place_type, _ = _TREATING[treatment]
        places = [x for x in self._world.places.values() if x.type == place_type]
        place = self._nearest(places)
        self.go(place)
        self.moves.append(Move(deed=deed, item=item.name, place=place.name))

    def put(self, item: Item, place: Place) -> None:
        """Puts the item in hand into the place."""
        self._go_and_open(place)
        self.moves.append(Move(deed="put", item=item.name, place=place.name))
        self._held, self._moved[item.name] = "", place

    def _place_of(self, item: Item) -> Place:
        return self._moved.get(item.name) or self._world.places[item.place]

    def _go_and_open(self, place: Place) -> None:
        self.go(place)
        if self._is_closed(place):
            self.moves.append(Move(deed="open", place=place.name))
            self._opened.add(place.name)

    def _is_closed(self, place: Place) -> bool:
        return place.openable and place.name not in self._opened

    def _nearest(self, places: Iterable[Place]) -> Place:
        """The first place that can be used from here, or else the first of all.

        Raises:
          ValueError: there is none.
        """
        return min(places, key=lambda place: (place.location != self._location, place.name))

    def _place_to_leave(self, held: Item, next_place: Place) -> Place:
        """Where the item in hand is out of the way with the fewest moves.

        Raises:
          ValueError: nothing accepts it.
        """

        def moves_to(place: Place) -> int:
            ways = [self._location, place.location, next_place.location]
            going = sum(a != b for a, b in pairwise(ways))
            opens_anyway = place.name == next_place.name
            return going + (self._is_closed(place) and not opens_anyway)

        places = [x for x in self._world.places.values() if self._world.accepts(x, held)]
        return min(places, key=lambda place: (moves_to(place), place.name))
