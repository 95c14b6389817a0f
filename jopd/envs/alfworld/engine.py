"""The package's engine, quicker than stock and the same to the byte.

A stock game is translated from PDDL four times before its first action, and every list of commands
is derived anew. Here a game is translated once and its planner's own translation is left out (so
there are no `policy_commands`), and a command is derived once where no action can change it.

An engine holds one copy of the native library, which is never unloaded: use it for many games, in
one thread. Its memory does not grow with the games that it plays, so that no process needs to be
replaced for it.
"""

import copy
import gc
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import fast_downward
from mementos.core import _memento_cache
from textworld import EnvInfos
from textworld.core import GameState
from textworld.envs.pddl import PddlEnv
from textworld.envs.pddl import logic as pddl_logic
from textworld.logic import GameLogic, Placeholder, Proposition, State, Type, Variable

from jopd.envs.alfworld.games import Game, shown_names
from jopd.envs.alfworld.quick_grammar import QuickGrammar
from jopd.envs.alfworld.world import Fact

_TASK = re.compile(r'Your task is to: [^"\\#{}\[\]]*(?=")')  # without symbols of the grammar
_SOME_TASK = "Your task is to: do something."


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What the engine shows.

    Attributes:
      text: the observation.
      commands: what can be done now, sorted.
      won: the goal is reached.
      done: the game is over.
    """

    text: str
    commands: tuple[str, ...]
    won: bool
    done: bool


class Engine:
    """Plays one game after another."""

    def __init__(self):
        self._env = _QuickEnv(EnvInfos())

    def start(self, game: Game) -> Shown:
        """Starts a game."""
        return _shown(self._env.start(game))

    def step(self, command: str) -> Shown:
        """Does what the command says; what is no command changes nothing."""
        state, _, _ = self._env.step(command)
        return _shown(state)

    def facts(self) -> list[Fact]:
        """What holds now: predicates and the engine's names of things, in lower case."""
        facts = self._env._pddl_state.facts
        return [(fact.name, *(argument.name for argument in fact.arguments)) for fact in facts]

    def names(self) -> dict[str, str]:
        """What the player calls the engine's names."""
        return {name: info.name for name, info in self._env._entity_infos.items()}


def _shown(state: GameState) -> Shown:
    return Shown(
        text=state["feedback"],
        commands=tuple(state["admissible_commands"]),
        won=state["won"],
        done=state["won"] or state["lost"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Translation:
    """A problem as the native library takes it; small enough to keep hundreds.

    Attributes:
      sas: text for the library, compressed.
      actions: by name, as the translator parsed them.
      types: each with the names of the types above it; of two with one name the first counts.
      things: types by name.
      facts: of the start, as far as the problem names them: predicates and their arguments.
      changing: predicates whose facts actions change.
    """

    sas: bytes
    actions: Mapping[str, Any]
    types: tuple[tuple[str, tuple[str, ...]], ...]
    things: Mapping[str, str]
    facts: tuple[Fact, ...]
    changing: frozenset[str]


@lru_cache(maxsize=512)  # evaluation and small panels come back to the same games
def _translate(domain: str, problem: str) -> _Translation:
    with _quiet_translator():
        translated: Any = fast_downward.pddl2sas(domain, problem)
    task, sas = translated
    translator: Any = fast_downward.translate
    return _Translation(
        sas=zlib.compress(sas.encode(), 1),
        actions={action.name: action for action in task.actions},
        types=tuple((kind.name, tuple(kind.supertype_names)) for kind in task.types),
        things={thing.name: thing.type_name for thing in task.objects},
        facts=tuple(
            (atom.predicate, *atom.args)
            for atom in task.init
            if isinstance(atom, translator.pddl.conditions.Atom) and atom.predicate != "="
        ),
        changing=frozenset(
            [effect.literal.predicate for action in task.actions for effect in action.effects]
            + [axiom.name for axiom in task.axioms]
        ),
    )


@contextmanager
def _quiet_translator() -> Iterator[None]:
    """Keeps the arguments of the process, which the translator overwrites, and collects no garbage
    meanwhile, which costs a third of a translation and finds nothing there.
    """
    arguments, was_enabled = sys.argv, gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        sys.argv = arguments
        if was_enabled:
            gc.enable()


@lru_cache(maxsize=4)
def _parse_logic(domain: str, grammar: str) -> pddl_logic.GameLogic:
    return pddl_logic.GameLogic(domain=domain, grammar=grammar)


def _logic_of(domain: str, grammar: str) -> Any:
    """The stock logic with a quick grammar; grammars that differ in their task are parsed once."""
    task = _TASK.search(grammar)
    parsed = _parse_logic(domain, _TASK.sub(_SOME_TASK, grammar))
    logic: Any = copy.copy(parsed)
    logic.grammar = QuickGrammar(parsed.grammar, task=task[0] if task else None)
    return logic


class _QuickState(pddl_logic.PddlState):
    """The stock state of a game, without its translations."""

    def __init__(self, library: Any, translation: _Translation, logic: Any):
        # What the stock constructor sets up, which itself would translate twice.
        State.__init__(self, GameLogic())
        self._logic = logic
        self.downward_lib = library
        self._actions = translation.actions
        for name, above in translation.types:
            if name not in {known.name for known in logic.types}:
                logic.types.add(Type(name, list(above)))
        library.load_sas(zlib.decompress(translation.sas))
        self.name2type = translation.things
        self.add_facts(
            Proposition(name, [Variable(thing, self.name2type[thing]) for thing in arguments])
            for name, *arguments in translation.facts
        )
        atoms = (pddl_logic.Atom * library.get_state_size())()
        library.get_state(atoms)
        facts = [atom.get_fact(self.name2type) for atom in atoms]
        self.add_facts(fact for fact in facts if not fact.is_negation)


class _QuickEnv(PddlEnv):
    """The stock environment with another start and another way to list what can be done."""

    def start(self, game: Game) -> GameState:
        """Loads a game and starts it."""
        _memento_cache.clear()  # textworld never forgets a fact, and other games' are not needed
        self._logic: Any = _logic_of(game.domain, game.grammar)
        translation = _translate(game.domain, game.problem)
        self._pddl_state = _QuickState(self.downward_lib, translation, self._logic)
        self._entity_infos: dict[str, Any] = self._get_entity_infos()
        names = shown_names(self._entity_infos)
        for info in self._entity_infos.values():
            info.name = names[info.id]
        self._fixed_templates = {
            action.template: self._logic.grammar.is_fixed(action.template, translation.changing)
            for action in self._logic.actions.values()
        }
        self._commands: dict[tuple[str, ...], str] = {}
        self._last_action, self._moves = None, 0
        self.state = GameState()
        self.state.feedback = self._logic.grammar.derive("#intro#", self._context({}))
        self._gather_infos()
        return self.state

    def _gather_infos(self) -> None:
        state = self.state
        state["won"] = self._pddl_state.check_goal()
        state["lost"] = False  # as in the stock engine, no game is ever lost
        state["_valid_actions"] = self._pddl_state.all_applicable_actions()
        state["_valid_commands"] = [self._command(action) for action in state["_valid_actions"]]
        state["admissible_commands"] = sorted(set(state["_valid_commands"]))

    def _command(self, action: Any) -> str:
        key = (action.name, *(variable.name for variable in action.mapping.values()))
        command = self._commands.get(key)
        if command is None:
            template = self._logic.grammar.derive(
                action.command_template, self._context(action.mapping)
            )
            command = template.format(**{k: info.name for k, info in self._entity_infos.items()})
            if self._fixed_templates[action.command_template]:
                self._commands[key] = command
        return command

    def _context(self, mapping: Mapping[Placeholder, Variable]) -> dict[str, Any]:
        infos = self._entity_infos
        return {
            "state": self._pddl_state,
            "variables": {place.name: infos[variable.name] for place, variable in mapping.items()},
            "mapping": mapping,
            "entity_infos": infos,
        }
