"""ScienceWorld through its own simulator, without the lists of thousands of valid actions."""

import json

from jopd.envs.base import EnvError, StepResult
from jopd.envs.scienceworld.java import Java
from jopd.envs.scienceworld.panels import kind_of
from jopd.envs.scienceworld.settings import ScienceWorldSettings
from jopd.panels import Task

_FULL_SCORE = 100
_UNKNOWN = "No known action matches that input."
_NOT_UNDERSTOOD = (_UNKNOWN, "Unknown action")  # the second where a number was asked for
_RESET = "reset task"  # would give back what an episode has lost


class ScienceWorldSimulator:
    """One simulator in one Java process.

    Success is the full score, never the simulator's own end: that also comes with a wrong focus,
    at a score of -100. The reward is the best score so far over 100.
    """

    def __init__(self, settings: ScienceWorldSettings):
        self._settings = settings
        self._java = Java(heap_mb=settings.heap_mb, answer_s=settings.answer_s)
        self._task: Task | None = None
        self._actions: list[str] = []
        self._gold: list[str] | None = None
        self._instruction = ""
        self._templates: tuple[str, ...] = ()
        self._best_score = 0
        self._done: tuple[str, str] | None = None  # an action already done, and what it showed

    def reset(self, task: Task) -> StepResult:
        """Starts the episode of `task`."""
        self._task, self._actions, self._gold, self._done = task, [], None, None
        self._best_score = 0
        observation = self._load(task, with_gold_path=False)
        self._instruction = self._ask("getTaskDescription")
        self._templates = tuple(form for form in self._ask("getPossibleActions") if form != _RESET)
        return self._seen(observation)

    def step(self, action: str) -> StepResult:
        """Acts; input that the simulator does not know is answered in words and costs no move."""
        asked, observation = self._done or (action, self._act(action))
        self._done = None
        if asked != action:
            raise EnvError(f"{asked!r} was asked about, so it was done; now comes {action!r}")
        self._actions.append(action)
        return self._seen(observation)

    def is_allowed(self, action: str) -> bool:
        """Whether the simulator knows the action: it is done now, and `step` gives its result.

        Matching is the simulator's own (synonyms, articles, cases), which only acting shows. What
        it does not know changes nothing and costs no move.
        """
        self._done = (action, self._act(action))
        return not self._done[1].startswith(_NOT_UNDERSTOOD)

    def expert_action(self) -> str:
        """The next action of the simulator's own gold path.

        Raises:
          ValueError: the episode has left the path.
        """
        if self._gold is None:
            self._gold = self._gold_path()
        done = len(self._actions)
        if self._actions != self._gold[:done] or done == len(self._gold):
            raise ValueError(f"after {self._actions} the gold path does not go on")
        return self._gold[done]

    def close(self) -> None:
        """Ends the Java process."""
        self._java.close()

    def _act(self, action: str) -> str:
        if action.strip().lower() == _RESET:
            return _UNKNOWN
        return self._ask("step", action)

    def _gold_path(self) -> list[str]:
        """Loads the episode once more with its gold path, and returns to where it was."""
        assert self._task is not None
        self._load(self._task, with_gold_path=True)
        path = list(self._ask("getGoldActionSequence"))
        for action in self._actions:
            self._ask("step", action)
        return path

    def _load(self, task: Task, *, with_gold_path: bool) -> str:
        """Starts the episode in the simulator; returns the first observation."""
        simplifications = self._settings.simplifications
        self._ask("load", kind_of(task), task.index, simplifications, with_gold_path)
        self._ask("reset")
        return self._ask("step", "look around")

    def _seen(self, observation: str) -> StepResult:
        score = round(_FULL_SCORE * self._ask("getScore"))
        self._best_score = max(self._best_score, score)
        return StepResult(
            observation=observation,
            instruction=self._instruction,
            allowed_actions=self._templates,
            objects=self._objects(),
            done=bool(self._ask("getCompleted")) or score < 0,
            reward=self._best_score / _FULL_SCORE,
            success=score >= _FULL_SCORE,
        )

    def _objects(self) -> tuple[str, ...]:
        """Names of what can be seen and acted on."""
        names = json.loads(self._ask("getPossibleObjectReferentLUTJSON"))
        return tuple(sorted(set(names.values())))

    def _ask(self, name: str, *arguments: object):
        return self._java.asking(self._java.server.__getattr__(name), *arguments)
