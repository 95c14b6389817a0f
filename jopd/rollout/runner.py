"""The loop of one rollout, and nothing else: hundreds run at once in one explorer thread."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from jopd.engines.base import Engine, Sampling, Score, Scorer
from jopd.envs.base import Env, EnvError, StepResult
from jopd.panels import Task
from jopd.rollout.prompt_style import PromptStyle
from jopd.rollout.prompts import Message, PastTurn, make_chat
from jopd.rollout.replies import parse_reply
from jopd.types import FinishReason, Generation, HostInts, Rollout, Speaker, StopReason, Turn

Overflow = Literal["end", "window", "keep_stepping"]


@runtime_checkable
class ChatTokenizer(Protocol):
    """What a rollout needs of a tokenizer."""

    @property
    def stop_ids(self) -> tuple[int, ...]:
        """Ids that end a response."""
        ...

    def render_chat(self, messages: Sequence[Message], *, tools: Sequence[str] = ()) -> HostInts:
        """Ids of a chat that waits for the assistant's reply; tools are JSON schemas."""
        ...

    def decode(self, ids: HostInts) -> str:
        """Text of a response, special tokens left out."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSettings:
    """Limits of a rollout.

    Attributes:
      horizon: turns at most.
      max_prompt_tokens: longest prompt.
      max_response_tokens: longest response, the stop id included.
      temperature: of sampling in training.
      overflow: what happens when a prompt passes `max_prompt_tokens`: "end" the rollout, drop the
        oldest history until it fits ("window"), or go on with one-token dead turns
        ("keep_stepping", the papers' baseline).
    """

    horizon: int
    max_prompt_tokens: int
    max_response_tokens: int
    temperature: float
    overflow: Overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Everything that the rollouts of one run share.

    Attributes:
      engine: generates responses.
      scorer: scores them; None where nothing is trained (evaluation).
      tokenizer: the student's.
      style: how turns are shown and replies read.
      settings: limits; `settings.temperature` is used for sampling.
    """

    engine: Engine
    scorer: Scorer | None
    tokenizer: ChatTokenizer
    style: PromptStyle
    settings: RolloutSettings

    @property
    def sampling(self) -> Sampling:
        """How responses are sampled."""
        return Sampling(
            temperature=self.settings.temperature,
            max_tokens=self.settings.max_response_tokens,
            stop_ids=self.tokenizer.stop_ids,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedPrompt:
    """Prompt ids within the limit; `truncated` when they had to be cut."""

    tokens: HostInts
    truncated: bool


async def run_rollout(
    task: Task, *, rollout_id: int, env: Env, player: Player, seed: int
) -> Rollout:
    """Plays one episode; an environment's failure is a value, every other failure propagates.

    Args:
      task: the episode.
      rollout_id: number in order of dispatch.
      env: an environment of the task's domain, used by nobody else meanwhile.
      player: engine, scorer, prompts and limits.
      seed: makes the sampling of this rollout reproducible.
    """
    turns: list[Turn] = []
    past: list[PastTurn] = []
    seen = _NOTHING_SEEN
    error = ""
    try:
        seen = await env.reset(task)
        while (stop := stop_reason(seen, len(turns), player.settings)) is None:
            prompt = fit_prompt(past, seen, player)
            if prompt.truncated and player.settings.overflow == "end":
                stop = StopReason.CONTEXT_FULL
                break
            turn_seed = seed_of_turn(seed, rollout_id, len(turns))
            generation, score = await _respond(prompt, player, rollout_id, turn_seed)
            reply = "" if prompt.truncated else player.tokenizer.decode(generation.tokens)
            parsed = parse_reply(player.style, reply)
            allowed = parsed.well_formed and await env.is_allowed(parsed.action)
            turn = Turn(
                rollout_id=rollout_id,
                index=len(turns),
                task_id=task.task_id,
                domain=task.domain,
                observation=seen.observation,
                action=parsed.action,
                action_valid=allowed,
                **_tokens_of_turn(prompt, generation, score, player.settings),
            )
            turns.append(turn)
            past.append(PastTurn(seen=seen, reply=reply, action=parsed.action))
            seen = await env.step(parsed.action)
    except EnvError as failure:
        stop, error = StopReason.ENV_ERROR, str(failure)
    return Rollout(
        rollout_id=rollout_id,
        task_id=task.task_id,
        domain=task.domain,
        turns=tuple(turns),
        prefix_turns=0,
        stop_reason=stop,
        success=seen.success and not error,
        env_done=seen.done and not error,
        env_reward=seen.reward,
        error=error,
    )


def _tokens_of_turn(
    prompt: FittedPrompt, generation: Generation, score: Score | None, settings: RolloutSettings
) -> dict[str, Any]:
    return {
        "policy_version": generation.policy_version,
        "speaker": Speaker.STUDENT,
        "sampling_temperature": settings.temperature,
        "prompt_tokens": prompt.tokens,
        "response_tokens": generation.tokens,
        "response_mask": np.full(len(generation.tokens), not prompt.truncated),
        "behaviour_logprobs": generation.logprobs,
        "teacher_logprobs": score.logprobs if score else None,
        "teacher_mask": score.mask if score else None,
        "prompt_truncated": prompt.truncated,
        "response_truncated": generation.finish_reason is FinishReason.LENGTH,
    }


_NOTHING_SEEN = StepResult(
    observation="", instruction="", allowed_actions=(), done=False, reward=0.0, success=False
)


def stop_reason(seen: StepResult, turns_taken: int, settings: RolloutSettings) -> StopReason | None:
    """Why a rollout ends here, or None if it goes on."""
    if seen.done:
        return StopReason.ENV_DONE
    return StopReason.HORIZON if turns_taken >= settings.horizon else None


def seed_of_turn(seed: int, rollout_id: int, index: int) -> int:
    """Sampling seed of one turn, 31 bits, independent of every other turn's."""
    return int(np.random.SeedSequence((seed, rollout_id, index)).generate_state(1)[0] >> 1)


def fit_prompt(past: Sequence[PastTurn], seen: StepResult, player: Player) -> FittedPrompt:
    """Renders the next prompt and applies the overflow policy to it."""
    limit = player.settings.max_prompt_tokens
    last_skip = len(past) if player.settings.overflow == "window" else 0
    for skip_oldest in range(last_skip + 1):
        chat = make_chat(player.style, past, seen, skip_oldest=skip_oldest)
        tokens = player.tokenizer.render_chat(chat.messages, tools=chat.tools)
        if len(tokens) <= limit:
            return FittedPrompt(tokens=tokens, truncated=False)
    return FittedPrompt(tokens=tokens[:limit], truncated=True)


async def _respond(
    prompt: FittedPrompt, player: Player, rollout_id: int, seed: int
) -> tuple[Generation, Score | None]:
    if prompt.truncated:
        return _dead_response(prompt, player), None
    generation = await player.engine.respond(prompt.tokens, sampling=player.sampling, seed=seed)
    if player.scorer is None:
        return generation, None
    score = await player.scorer.score(prompt.tokens, generation.tokens, rollout_id=rollout_id)
    return generation, score


def _dead_response(prompt: FittedPrompt, player: Player) -> Generation:
    """One token that nobody sampled, as the papers' baseline makes it of an over-long prompt."""
    return Generation(
        tokens=prompt.tokens[-1:],
        logprobs=np.zeros(1, np.float32),
        finish_reason=FinishReason.STOP,
        policy_version=player.engine.policy_version,
    )
