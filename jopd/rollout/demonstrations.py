"""Turns of an expert, for supervised learning: what is shown and what the expert replies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from jopd.envs.base import Simulator, StepResult
from jopd.panels import Task
from jopd.rollout.prompt_style import PromptStyle
from jopd.rollout.prompts import PastTurn, make_chat
from jopd.rollout.replies import format_reply
from jopd.rollout.runner import ChatTokenizer, RolloutSettings
from jopd.types import HostInts, Speaker, Turn

_SHUFFLED_BATCHES = 16  # turns of one episode look alike; so many batches are mixed


@runtime_checkable
class WritingTokenizer(ChatTokenizer, Protocol):
    """A tokenizer that can also write a reply."""

    def encode(self, text: str) -> HostInts:
        """Ids of a plain text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DemonstrationSettings:
    """Expert demonstrations.

    Attributes:
      random_action_rate: share of steps at which a random allowed action is played instead of the
        expert's, so that the expert also shows how to recover; the turn always shows the
        expert's.
      batch_size: turns per update.
    """

    random_action_rate: float
    batch_size: int


class Demonstrator:
    """Plays tasks with an expert and gives batches of its turns, mixed over episodes.

    Attributes:
      tasks: endless.
      simulator: the environment, whose expert is asked.
      tokenizer: of the model that will learn.
      style: how turns are shown and replies written.
      limits: horizon and lengths; turns with a longer prompt or reply are left out.
      settings: how often it errs, and the size of a batch.
      seed: of its errors and of the mixing.
    """

    def __init__(
        self,
        *,
        tasks: Iterator[Task],
        simulator: Simulator,
        tokenizer: WritingTokenizer,
        style: PromptStyle,
        limits: RolloutSettings,
        settings: DemonstrationSettings,
        seed: int,
    ):
        self._tasks = tasks
        self._simulator = simulator
        self._tokenizer = tokenizer
        self._style = style
        self._limits = limits
        self._settings = settings
        self._rng = np.random.default_rng(seed)
        self._rollouts = 0
        self._mixed: list[Turn] = []
        self._played: dict[str, list[Turn]] = {}

    def next_batch(self) -> list[Turn]:
        """The next `batch_size` turns.

        Raises:
          ValueError: so many episodes gave no turn that fits the limits.
        """
        size = self._settings.batch_size
        if len(self._mixed) < size:
            self._refill(size * _SHUFFLED_BATCHES)
        batch, self._mixed = self._mixed[:size], self._mixed[size:]
        return batch

    def _refill(self, wanted: int) -> None:
        empty_episodes = 0
        while len(self._mixed) < wanted:
            turns = self._turns_of(next(self._tasks))
            empty_episodes = 0 if turns else empty_episodes + 1
            if empty_episodes > 100:
                raise ValueError(
                    "100 expert episodes in a row gave no turn within max_prompt_tokens = "
                    f"{self._limits.max_prompt_tokens} and max_response_tokens = "
                    f"{self._limits.max_response_tokens}; raise the limits"
                )
            self._mixed.extend(turns)
        self._rng.shuffle(self._mixed)

    def _turns_of(self, task: Task) -> list[Turn]:
        """A play of the task; an expert that never errs plays it the same again."""
        if self._settings.random_action_rate > 0:
            return self.episode(task)
        if task.task_id not in self._played:
            self._played[task.task_id] = self.episode(task)
        return self._played[task.task_id]

    def episode(self, task: Task) -> list[Turn]:
        """Plays one task; each turn shows the expert's reply to the state it was asked in."""
        rollout_id, self._rollouts = self._rollouts, self._rollouts + 1
        past: list[PastTurn] = []
        turns: list[Turn] = []
        seen = self._simulator.reset(task)
        while not seen.done and len(past) < self._limits.horizon:
            wise = self._simulator.expert_action()
            turn = self._turn(task, rollout_id, past, seen, wise)
            if self._fits(turn):
                turns.append(turn)
            action = self._maybe_err(wise, seen.allowed_actions)
            past.append(PastTurn(seen=seen, reply=format_reply(self._style, action), action=action))
            seen = self._simulator.step(action)
        return turns

    def _turn(
        self, task: Task, rollout_id: int, past: Sequence[PastTurn], seen: StepResult, action: str
    ) -> Turn:
        chat = make_chat(self._style, past, seen)
        prompt = self._tokenizer.render_chat(chat.messages, tools=chat.tools)
        reply = self._tokenizer.encode(format_reply(self._style, action))
        response = np.append(reply, self._tokenizer.stop_ids[0]).astype(np.int32)
        nothing = np.zeros(len(response), np.float32)
        return Turn(
            rollout_id=rollout_id,
            index=len(past),
            task_id=task.task_id,
            domain=task.domain,
            policy_version=0,
            speaker=Speaker.TEACHER,
            sampling_temperature=0.0,
            prompt_tokens=prompt,
            response_tokens=response,
            response_mask=np.ones(len(response), bool),
            behaviour_logprobs=nothing,
            teacher_logprobs=nothing,
            teacher_mask=None,
            prompt_truncated=False,
            response_truncated=False,
            observation=seen.observation,
            action=action,
        )

    def _fits(self, turn: Turn) -> bool:
        return (
            len(turn.prompt_tokens) <= self._limits.max_prompt_tokens
            and len(turn.response_tokens) <= self._limits.max_response_tokens
        )

    def _maybe_err(self, wise: str, allowed: Sequence[str]) -> str:
        if allowed and self._rng.random() < self._settings.random_action_rate:
            return allowed[int(self._rng.integers(len(allowed)))]
        return wise


def shown_texts(
    tasks: Sequence[Task], simulator: Simulator, style: PromptStyle, *, walks: int
) -> Iterator[str]:
    """Texts whose words a small model's tokenizer should know: prompts, replies, allowed actions.

    Args:
      tasks: all of their first prompts are shown.
      simulator: the environment.
      style: how turns are shown.
      walks: so many of the tasks, from the start, are played to their end.
    """
    for number, task in enumerate(tasks):
        past: list[PastTurn] = []
        seen = simulator.reset(task)
        yield from _contents(style, past, seen)
        while number < walks and not seen.done:
            action = simulator.expert_action()
            reply = format_reply(style, action)
            past.append(PastTurn(seen=seen, reply=reply, action=action))
            seen = simulator.step(action)
            yield from (reply, *_contents(style, past, seen))


def _contents(style: PromptStyle, past: Sequence[PastTurn], seen: StepResult) -> Iterator[str]:
    yield from (message["content"] for message in make_chat(style, past, seen).messages)
    yield from (format_reply(style, action) for action in seen.allowed_actions)
