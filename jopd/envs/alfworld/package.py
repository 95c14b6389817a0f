"""What the installed `alfworld` package ships and this environment reads.

The package creates the folder that ALFWORLD_DATA names, by default in the user's home, as soon as
it is imported. Here it gets a temporary folder instead, which is gone after the import.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def _nothing_at_home() -> Iterator[None]:
    before = os.environ.get("ALFWORLD_DATA")
    with tempfile.TemporaryDirectory(prefix="alfworld-") as folder:
        os.environ["ALFWORLD_DATA"] = folder
        try:
            yield
        finally:
            del os.environ["ALFWORLD_DATA"]
            os.environ.update({} if before is None else {"ALFWORLD_DATA": before})


with _nothing_at_home():
    import alfworld
    from alfworld.agents.utils.misc import Demangler
    from alfworld.gen import constants
    from alfworld.gen.goal_library import gdict

_ROOT = Path(alfworld.__file__).parent
LAYOUTS = _ROOT / "gen" / "layouts"
DOMAIN = (_ROOT / "data" / "alfred.pddl").read_text(encoding="utf-8")
GRAMMAR = (_ROOT / "data" / "alfred.twl2").read_text(encoding="utf-8")
UNKNOWN_GOAL = "UNKNOWN GOAL"  # stands in the grammar where the task belongs

GOALS = {kind: (str(goal["pddl"]), tuple(goal["templates"])) for kind, goal in gdict.items()}
ROOMS_OF_KIND = constants.GOALS_VALID
ROOM_NUMBERS = constants.SCENE_TYPE
UNSEEN_NUMBERS = frozenset(constants.TEST_SCENE_NUMBERS)

MOVABLE = frozenset(constants.MOVABLE_RECEPTACLES)
CONTENTS = {
    place: frozenset(contents)
    for place, contents in constants.VAL_RECEPTACLE_OBJECTS.items()
    if place not in MOVABLE
}
OPENABLE = frozenset(constants.OPENABLE_CLASS_LIST) - MOVABLE
ABILITIES = {
    ability: frozenset(constants.VAL_ACTION_OBJECTS[ability.capitalize()])
    for ability in ("cleanable", "heatable", "coolable", "toggleable", "sliceable")
}

__all__ = [
    "ABILITIES",
    "CONTENTS",
    "DOMAIN",
    "GOALS",
    "GRAMMAR",
    "LAYOUTS",
    "MOVABLE",
    "OPENABLE",
    "ROOMS_OF_KIND",
    "ROOM_NUMBERS",
    "UNKNOWN_GOAL",
    "UNSEEN_NUMBERS",
    "Demangler",
]
