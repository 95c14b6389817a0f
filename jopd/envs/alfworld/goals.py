"""What a game asks for: read from its problem, and put into words and logic for made games."""

import re
from dataclasses import dataclass
from typing import Literal

from jopd.envs.alfworld.package import GOALS

Treatment = Literal["", "clean", "hot", "cool"]

_TREATMENTS: dict[str, Treatment] = {"isclean": "clean", "ishot": "hot", "iscool": "cool"}
_OBJECT_TYPE = re.compile(r"\(objecttype \?(\w+) (\w+)type\)")
_PLACE_TYPE = re.compile(r"\(receptacletype \?\w+ (\w+)type\)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal of one of the six task types; types are in lower case, as the engine has them.

    Attributes:
      object_type: what is to be brought or looked at.
      place_type: where it belongs; "" when it is to be looked at.
      lamp_type: under which lamp it is to be looked at; "" otherwise.
      treatment: what must have been done to it.
      count: how many, all in one place.
    """

    object_type: str
    place_type: str = ""
    lamp_type: str = ""
    treatment: Treatment = ""
    count: int = 1


def read_goal(problem: str) -> Goal:
    """The goal of a PDDL problem.

    Raises:
      ValueError: it is of none of the six task types.
    """
    text = problem.lower().partition("(:goal")[2]
    objects = _OBJECT_TYPE.findall(text)
    places = set(_PLACE_TYPE.findall(text))
    if not objects or "issliced" in text or "inreceptacleobject" in text or len(places) > 1:
        raise ValueError(f"the goal is of none of the six task types: {text.strip()}")
    if "istoggled" in text:
        types = dict(objects)
        return Goal(object_type=types["o"], lamp_type=types["ot"])
    treatment: Treatment = ""
    for fact, wanted in _TREATMENTS.items():
        treatment = wanted if fact in text else treatment
    return Goal(
        object_type=objects[0][1],
        place_type=places.pop(),
        treatment=treatment,
        count=len(objects),
    )


def goal_logic(kind: str, *, object_type: str, place_type: str, lamp_type: str) -> str:
    """The end of a PDDL problem, from the goal on, as the package's library has it."""
    logic, _ = GOALS[kind]
    filled = logic.format(obj=object_type, recep=place_type, toggle=lamp_type)
    return filled.replace("#", "-")


def goal_sentences(
    kind: str, *, object_type: str, place_type: str, lamp_type: str
) -> tuple[str, ...]:
    """The goal in words, as the package's library has it."""
    _, templates = GOALS[kind]
    return tuple(
        template.format(obj=object_type.lower(), recep=place_type.lower(), toggle=lamp_type.lower())
        for template in templates
    )
