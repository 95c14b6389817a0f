"""Floor plans of the package: which furniture stands where, and which objects belong in a room."""

import json
import random
from dataclasses import dataclass
from functools import cache

from jopd.envs.alfworld.package import ABILITIES, CONTENTS, LAYOUTS

_GRID = 0.25  # metres between two places where the agent can stand
_BASINS = {"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}
_STOVE_BURNERS = 4

Pose = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Furniture:
    """Something that things can be put into or onto.

    Attributes:
      name: as ALFRED names it: type and coordinates.
      type: such as "Cabinet".
      pose: where the agent stands to use it: x and z in grid steps, quarter turns, camera angle.
    """

    name: str
    type: str
    pose: Pose


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A floor plan.

    Attributes:
      furniture: everything that contains things.
      object_types: of things that can be carried and have a place in this room, sorted.
      lamp_types: of lamps in this room, sorted.
    """

    furniture: tuple[Furniture, ...]
    object_types: tuple[str, ...]
    lamp_types: tuple[str, ...]

    @property
    def furniture_types(self) -> tuple[str, ...]:
        """Types of the furniture, sorted, each once."""
        return tuple(sorted({piece.type for piece in self.furniture}))

    def places_for(self, object_type: str) -> tuple[Furniture, ...]:
        """Furniture that may contain an object of this type."""
        return tuple(piece for piece in self.furniture if object_type in CONTENTS[piece.type])


@cache
def read_room(number: int) -> Room:
    """The room with ALFRED's number: kitchens 1-30, living rooms 201-230, bedrooms 301-330,
    bathrooms 401-430.

    The layout says where the agent stands for furniture that opens or has a surface. Other pieces
    that the room has (stove burners, a coffee machine, holders) get a place that depends on the
    room's number only.
    """
    layout = json.loads((LAYOUTS / f"FloorPlan{number}-openable.json").read_text(encoding="utf-8"))
    types = set(json.loads((LAYOUTS / f"FloorPlan{number}-objects.json").read_text("utf-8")))
    furniture = [_furniture(name, pose) for name, pose in sorted(layout.items())]
    furniture = [piece for piece in furniture if piece.type in CONTENTS]
    missing = sorted(types & CONTENTS.keys() - {piece.type for piece in furniture})
    furniture += _added(missing, furniture, random.Random(f"floor plan {number}"))
    storable = set().union(*(CONTENTS[piece.type] for piece in furniture))
    return Room(
        furniture=tuple(furniture),
        object_types=tuple(sorted(types & storable)),
        lamp_types=tuple(sorted(types & ABILITIES["toggleable"])),
    )


def _furniture(name: str, pose: list[float | int]) -> Furniture:
    first, *_, last = name.split("|")
    x, z, rotation, horizon = pose
    return Furniture(
        name=name,
        type=last if last in _BASINS else first,
        pose=(round(x / _GRID), round(z / _GRID), round(rotation / 90), round(horizon)),
    )


def _added(types: list[str], furniture: list[Furniture], rng: random.Random) -> list[Furniture]:
    added = []
    for kind in types:
        for _ in range(_STOVE_BURNERS if kind == "StoveBurner" else 1):
            name = f"{_BASINS.get(kind, kind)}|{coordinates(rng)}"
            pose = _pose_near(furniture, rng)
            name += f"|{kind}" if kind in _BASINS else ""
            added.append(Furniture(name=name, type=kind, pose=pose))
    return added


def _pose_near(furniture: list[Furniture], rng: random.Random) -> Pose:
    """A pose within the part of the room that the furniture spans."""
    x = [piece.pose[0] for piece in furniture]
    z = [piece.pose[1] for piece in furniture]
    return (
        rng.randint(min(x), max(x)),
        rng.randint(min(z), max(z)),
        rng.randrange(4),
        rng.choice((0, 15, 30, 45, 60)),
    )


def free_pose(room: Room, rng: random.Random) -> Pose:
    """A pose in the room from where no furniture can be used."""
    taken = {piece.pose for piece in room.furniture}
    while True:
        pose = _pose_near(list(room.furniture), rng)
        if pose not in taken:
            return pose


def coordinates(rng: random.Random) -> str:
    """Coordinates in the form that names of things end with, such as "+00.68|+01.12|-02.20"."""
    return "|".join(f"{rng.uniform(-3, 3):+06.2f}" for _ in range(3))
