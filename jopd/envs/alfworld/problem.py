"""PDDL problems of made games: facts as text, names escaped as ALFRED's are."""

from collections.abc import Iterable, Sequence

from jopd.envs.alfworld.world import Fact

_ESCAPES = {"-": "_minus_", "|": "_bar_", "+": "_plus_", ".": "_dot_", ",": "_comma_"}
_TYPES = ("agent", "location", "receptacle", "object", "rtype", "otype")


def escaped(name: str) -> str:
    """The name as PDDL takes it."""
    for character, escape in _ESCAPES.items():
        name = name.replace(character, escape)
    return name


def problem_text(
    name: str, things: Sequence[tuple[str, str]], facts: Iterable[Fact], goal: str
) -> str:
    """A PDDL problem of ALFRED's domain.

    Args:
      name: of the problem.
      things: each with its type.
      facts: what holds at the start.
      goal: the text from the goal on, which also closes the problem.
    """
    declared = [
        f"{thing} - {kind}" for wanted in _TYPES for thing, kind in things if kind == wanted
    ]
    initial = [f"({' '.join(fact)})" for fact in facts]
    lines = [
        f"(define (problem {name})",
        "    (:domain alfred)",
        "    (:objects",
        *(f"        {line}" for line in declared),
        "    )",
        "    (:init",
        *(f"        {line}" for line in initial),
        "    )",
    ]
    return "\n".join(lines) + "\n" + goal
