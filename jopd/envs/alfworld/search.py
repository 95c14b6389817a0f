"""An expert who knows only what a player has seen: it looks for things, place after place.

Its demonstrations can be followed by a student, who cannot know where things are either.
"""

import re
from collections.abc import Mapping, Set
from dataclasses import replace

from jopd.envs.alfworld.expert import Move, find_plan
from jopd.envs.alfworld.goals import Goal
from jopd.envs.alfworld.world import World

_LOOKING = re.compile(r"(?:go to|open) (.+)")


def place_seen(action: str, world: World, names: Mapping[str, str]) -> str:
    """The engine's name of the place whose content an action has shown; "" if it has shown none.

    Args:
      action: what was done.
      world: as it is now.
      names: what the player calls the engine's names.
    """
    found = _LOOKING.fullmatch(action)
    for place in world.places.values():
        if found and names[place.name] == found[1] and place.location == world.location:
            return "" if place.openable and not place.opened else place.name
    return ""


def searching_move(world: World, goal: Goal, seen: Set[str], names: Mapping[str, str]) -> Move:
    """The first move of the shortest plan with what was seen, or one that shows another place.

    Args:
      world: as it is now.
      goal: of the game.
      seen: names of the places whose content was shown.
      names: what the player calls them; places are searched in the order of these names.

    Raises:
      ValueError: the goal is reached, or everything was seen and there is no way.
    """
    known = {
        name: item for name, item in world.items.items() if name == world.held or item.place in seen
    }
    moves = find_plan(replace(world, items=known), goal)
    if moves is not None:
        if not moves:
            raise ValueError("the goal is reached; there is nothing left to do")
        return moves[0]
    unseen = [place for place in world.places.values() if place.name not in seen]
    if not unseen:
        raise ValueError(f"every place was searched, and there is no way to {goal}")
    place = min(unseen, key=lambda place: names[place.name])
    deed = "open" if place.location == world.location else "go"
    return Move(deed=deed, place=place.name)
