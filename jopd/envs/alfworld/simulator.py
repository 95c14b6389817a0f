"""ALFWorld as a simulator: one engine, one game after another."""

from collections.abc import Mapping

from jopd.envs.alfworld.engine import Engine, Shown
from jopd.envs.alfworld.expert import Move, plan
from jopd.envs.alfworld.games import Game, instruction_of
from jopd.envs.alfworld.goals import read_goal
from jopd.envs.alfworld.official import read_game
from jopd.envs.alfworld.panels import game_of
from jopd.envs.alfworld.search import place_seen, searching_move
from jopd.envs.alfworld.settings import AlfworldSettings
from jopd.envs.alfworld.world import world_of
from jopd.envs.base import StepResult
from jopd.panels import Task

_HELP = "help"  # shows the list of commands, which prompts have anyway


class AlfworldSimulator:
    """Plays made or official games; success is the game's own goal."""

    def __init__(self, settings: AlfworldSettings):
        self._settings = settings
        self._engine = Engine()
        self._game: Game | None = None
        self._instruction = ""
        self._allowed: tuple[str, ...] = ()
        self._places_seen: set[str] = set()

    def reset(self, task: Task) -> StepResult:
        """Starts the episode of `task`."""
        official = bool(self._settings.data_dir)
        self._game = read_game(self._settings, task) if official else game_of(task)
        shown = self._engine.start(self._game)
        self._instruction = instruction_of(shown.text)
        self._places_seen = set()
        return self._seen(shown)

    def step(self, action: str) -> StepResult:
        """Acts; what is no command is answered with "Nothing happens."."""
        shown = self._engine.step(action)
        if self._settings.expert == "searching":
            world = world_of(self._engine.facts())
            self._places_seen.add(place_seen(action, world, self._engine.names()))
        return self._seen(shown)

    def is_allowed(self, action: str) -> bool:
        """Whether the action is among those that the engine lists now."""
        return action in self._allowed

    def expert_action(self) -> str:
        """What the expert of the settings does from here.

        Raises:
          ValueError: the goal is reached, or cannot be.
        """
        assert self._game is not None, "reset comes first"
        names = self._engine.names()
        return self._expert_move(self._game, names).command(names, self._game.dialect())

    def _expert_move(self, game: Game, names: Mapping[str, str]) -> Move:
        world, goal = world_of(self._engine.facts()), read_goal(game.problem)
        if self._settings.expert == "searching":
            return searching_move(world, goal, self._places_seen, names)
        moves = plan(world, goal)
        if not moves:
            raise ValueError("the goal is reached; there is nothing left to do")
        return moves[0]

    def _seen(self, shown: Shown) -> StepResult:
        self._allowed = tuple(command for command in shown.commands if command != _HELP)
        return StepResult(
            observation=shown.text,
            instruction=self._instruction,
            allowed_actions=self._allowed,
            done=shown.done,
            reward=float(shown.won),
            success=shown.won,
        )
