"""ALFWorld as a simulator: one engine, one game after another."""

from jopd.envs.alfworld.engine import Engine, Shown
from jopd.envs.alfworld.expert import plan
from jopd.envs.alfworld.games import Game, instruction_of
from jopd.envs.alfworld.goals import read_goal
from jopd.envs.alfworld.official import read_game
from jopd.envs.alfworld.panels import game_of
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

    def reset(self, task: Task) -> StepResult:
        """Starts the episode of `task`."""
        official = bool(self._settings.data_dir)
        self._game = read_game(self._settings, task) if official else game_of(task)
        shown = self._engine.start(self._game)
        self._instruction = instruction_of(shown.text)
        return self._seen(shown)

    def step(self, action: str) -> StepResult:
        """Acts; what is no command is answered with "Nothing happens."."""
        return self._seen(self._engine.step(action))

    def is_allowed(self, action: str) -> bool:
        """Whether the action is among those that the engine lists now."""
        return action in self._allowed

    def expert_action(self) -> str:
        """The first action of the shortest plan from here, of one who knows where everything is.

        Raises:
          ValueError: the goal is reached, or cannot be.
        """
        assert self._game is not None, "reset comes first"
        moves = plan(world_of(self._engine.facts()), read_goal(self._game.problem))
        if not moves:
            raise ValueError("the goal is reached; there is nothing left to do")
        return moves[0].command(self._engine.names(), self._game.dialect())

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
