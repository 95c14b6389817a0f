"""A corridor of three places: walk right twice to succeed, left from the start to fail."""

import numpy as np

from jopd.engines.scripted import ScriptedEngine
from jopd.envs.base import EnvError, StepResult
from jopd.panels import Task
from jopd.rollout.prompt_style import PromptSettings, load_style
from jopd.rollout.runner import Player, RolloutSettings

WORDS = ("place0", "place1", "place2", "left", "right", "jump", "crash", "end")
END = WORDS.index("end")


class Corridor:
    """A simulator; the action "crash" is an environment that dies."""

    def reset(self, task: Task) -> StepResult:
        self.place = 0
        return self._seen()

    def step(self, action: str) -> StepResult:
        if action == "crash":
            raise EnvError("the corridor fell down")
        self.place += {"right": 1, "left": -1}.get(action, 0)
        return self._seen()

    def is_allowed(self, action: str) -> bool:
        return action in ("left", "right", "crash")

    def expert_action(self) -> str:
        return "right"

    def _seen(self) -> StepResult:
        return StepResult(
            observation=f"place{max(self.place, 0)}",
            instruction="walk",
            allowed_actions=("left", "right"),
            done=self.place in (-1, 2),
            reward=float(self.place == 2),
            success=self.place == 2,
        )


TASK = Task(task_id="corridor-0", domain="corridor", index=0, seed=0)


class WordIds:
    """Ids of the corridor's words; a prompt is the words of its messages that are known."""

    stop_ids = (END,)

    def render_chat(self, messages, *, tools=()):
        words = " ".join(m["content"] for m in messages).split()
        return np.array([WORDS.index(w) for w in words if w in WORDS], np.int32)

    def decode(self, ids):
        return " ".join(WORDS[i] for i in ids.tolist() if i != END)


def walker(*moves: str) -> ScriptedEngine:
    """Answers each prompt with the next move."""
    left = list(moves)
    return ScriptedEngine(lambda prompt, seed: (WORDS.index(left.pop(0)), END))


def always(move: str) -> ScriptedEngine:
    """Answers every prompt with the same move."""
    return ScriptedEngine(lambda prompt, seed: (WORDS.index(move), END))


def make_player(engine, *, scorer=None, horizon=10, max_prompt_tokens=50, overflow="end") -> Player:
    """Plays the corridor with an engine."""
    settings = RolloutSettings(
        horizon=horizon,
        max_prompt_tokens=max_prompt_tokens,
        max_response_tokens=4,
        temperature=1.0,
        overflow=overflow,
    )
    return Player(
        engine=engine,
        scorer=scorer,
        tokenizer=WordIds(),
        style=load_style(PromptSettings(style="webshop_plain", template_file="")),
        settings=settings,
    )
