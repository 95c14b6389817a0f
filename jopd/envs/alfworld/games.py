"""A game, as the engine takes it."""

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from jopd.envs.alfworld.package import Demangler
from jopd.envs.alfworld.settings import Dialect

_DIALECTS: dict[str, Dialect] = {"move {o} to {r}": "move", "put {o} in/on {r}": "put"}
_PUTTING = re.compile(r'action\s+PutObject\s*\{\s*template\s*::\s*"([^"]*)"')
_TASK = "Your task is to: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Game:
    """A game file's content.

    Attributes:
      domain: PDDL domain: what actions do.
      grammar: how actions and observations read; the task in words stands in it.
      problem: PDDL problem: the household and the goal.
      walkthrough: commands that win.
    """

    domain: str
    grammar: str
    problem: str
    walkthrough: tuple[str, ...]

    def data(self) -> dict[str, object]:
        """What stands in a `game.tw-pddl` file."""
        return {
            "pddl_domain": self.domain,
            "grammar": self.grammar,
            "pddl_problem": self.problem,
            "solvable": True,
            "walkthrough": list(self.walkthrough),
        }

    def sha256(self) -> str:
        """Hash of the content."""
        return hashlib.sha256(json.dumps(self.data()).encode()).hexdigest()

    def dialect(self) -> Dialect:
        """How the game calls putting an object down.

        Raises:
          ValueError: it calls it neither way.
        """
        return dialect_of(self.grammar)


def dialect_of(grammar: str) -> Dialect:
    """How games with this grammar call putting an object down.

    Raises:
      ValueError: neither way.
    """
    found = _PUTTING.search(grammar)
    if found is None or found[1] not in _DIALECTS:
        wording = found[1] if found else "nothing"
        known = " or ".join(repr(template) for template in _DIALECTS)
        raise ValueError(f"the game calls putting an object down {wording!r}, not {known}")
    return _DIALECTS[found[1]]


def instruction_of(observation: str) -> str:
    """The task in words, from the first observation of a game.

    Raises:
      ValueError: the observation holds no task.
    """
    _, found, instruction = observation.partition(_TASK)
    if not found:
        raise ValueError(f"the first observation names no task: {observation!r}")
    return instruction.strip()


@dataclass(frozen=True, slots=True)
class _Named:
    id: str


def shown_names(names: Iterable[str]) -> dict[str, str]:
    """What the player calls the engine's names, such as "fridge 1"; as the package does it."""
    names = sorted(names)
    demangler = Demangler(game_infos={name: _Named(name) for name in names})
    return {name: demangler.demangle_alfred_name(name) for name in names}
