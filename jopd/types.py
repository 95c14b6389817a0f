"""The data that flows through jopd: shapes and invariants of every record.

Host-side records are frozen and hold numpy arrays; `TurnBatch` is the one pytree that reaches
devices.
"""

import enum
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

Params = Any  # a nested dict of arrays
AnyArray = Array | np.ndarray  # on a device or on the host
HostInts = Int[np.ndarray, " tokens"]
HostFloats = Float[np.ndarray, " tokens"]
HostBools = Bool[np.ndarray, " tokens"]


class Speaker(enum.StrEnum):
    """Who produced the response of a turn."""

    STUDENT = "student"
    TEACHER = "teacher"


class FinishReason(enum.StrEnum):
    """Why a generation ended."""

    STOP = "stop"  # a stop id was sampled; it is the last token of the response
    LENGTH = "length"  # the response reached its token limit


class StopReason(enum.StrEnum):
    """Why a rollout ended."""

    ENV_DONE = "env_done"  # the environment ended the episode, successfully or not
    HORIZON = "horizon"  # the turn limit was reached
    CONTEXT_FULL = "context_full"  # the next prompt would pass the prompt limit (overflow="end")
    EARLY_STOP = "early_stop"  # a rollout control ended it
    ENV_ERROR = "env_error"  # the environment failed; the episode counts as a failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """One response of an engine.

    Attributes:
      tokens: [R] sampled ids, the stop id included when there was one.
      logprobs: [R] natural log-probs of `tokens` at temperature 1, whatever the sampling
        temperature.
      finish_reason: why it ended.
      policy_version: version of the weights that generated the first token.
    """

    tokens: HostInts
    logprobs: HostFloats
    finish_reason: FinishReason
    policy_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One prompt, the response to it, and what is known of both: one row of the learner.

    Attributes:
      rollout_id: number of the rollout in order of dispatch.
      index: position of the turn in its rollout, from 0.
      task_id: the task that was played.
      domain: the environment, which also names the teacher that scored the turn.
      policy_version: version of the weights that generated the response.
      speaker: who generated it; only student turns are trained.
      sampling_temperature: temperature of sampling; log-probs are at temperature 1 all the same.
      prompt_tokens: [P] exact prompt ids.
      response_tokens: [R] exact sampled ids.
      response_mask: [R] True where the token was sampled by the speaker.
      behaviour_logprobs: [R] log-probs under the weights that generated them, in nats.
      teacher_logprobs: [R] the frozen teacher's log-probs of the same ids, or None if not scored.
      teacher_mask: [R] True where the teacher's score is usable, or None for everywhere.
      prompt_truncated: the prompt was cut to fit, so the response answers another question.
      response_truncated: the response ended at its token limit.
      arrival: sequence number of entry into the experience queue; -1 before it.
      observation: what the environment showed before the turn.
      action: what was sent to the environment.
      action_valid: the action was well formed and allowed.
    """

    rollout_id: int
    index: int
    task_id: str
    domain: str
    policy_version: int
    speaker: Speaker
    sampling_temperature: float
    prompt_tokens: Int[np.ndarray, " prompt"]
    response_tokens: HostInts
    response_mask: HostBools
    behaviour_logprobs: HostFloats
    teacher_logprobs: HostFloats | None
    teacher_mask: HostBools | None
    prompt_truncated: bool
    response_truncated: bool
    arrival: int = -1
    observation: str = ""
    action: str = ""
    action_valid: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One played episode.

    Attributes:
      rollout_id: number in order of dispatch.
      task_id: the task that was played.
      domain: its environment.
      turns: every turn, in order.
      prefix_turns: how many leading turns were restored, not generated.
      stop_reason: why it ended.
      success: the task's own criterion.
      env_done: the environment declared the episode over.
      env_reward: the environment's reward.
      error: the environment's own words when `stop_reason` is ENV_ERROR, else "".
    """

    rollout_id: int
    task_id: str
    domain: str
    turns: tuple[Turn, ...]
    prefix_turns: int
    stop_reason: StopReason
    success: bool
    env_done: bool
    env_reward: float
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A turn in the pool of the composer.

    Attributes:
      turn: the turn.
      valid: it passed the validity gate.
      first_seen: update at which it first entered the pool.
      disagreement: Eq. 2 of DivOPD, nats, computed once from behaviour log-probs.
      effective_tokens: how many tokens carry teacher supervision.
    """

    turn: Turn
    valid: bool
    first_seen: int
    disagreement: float
    effective_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition:
    """What the composer made of one pool.

    Attributes:
      update_index: the update it was made for.
      selected: turns to train, in selection order.
      pending: candidates carried to the next update.
      counts: turns removed in this update, by reason (see `experience.reader`).
    """

    update_index: int
    selected: tuple[Candidate, ...]
    pending: tuple[Candidate, ...]
    counts: dict[str, int]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, kw_only=True)
class TurnBatch:
    """Packed turns, aligned to tokens: entry [r, i] of every field speaks of the token at [r, i].

    The log-prob of token i comes from the hidden state at i - 1 of the same segment.

    Attributes:
      tokens: [rows, L] ids, 0 where empty.
      positions: [rows, L] position inside the turn, restarting at 0 with each turn.
      segment_ids: [rows, L] 1, 2, ... per turn in its row; 0 where empty.
      loss_weight: [rows, L] weight of the token in the loss; 0 for prompts, masked and empty
        places.
      teacher_logprobs: [rows, L] nats; 0 where `loss_weight` is 0.
      behaviour_logprobs: [rows, L] nats; 0 where `loss_weight` is 0.
    """

    tokens: Int[AnyArray, "rows L"]
    positions: Int[AnyArray, "rows L"]
    segment_ids: Int[AnyArray, "rows L"]
    loss_weight: Float[AnyArray, "rows L"]
    teacher_logprobs: Float[AnyArray, "rows L"]
    behaviour_logprobs: Float[AnyArray, "rows L"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightSnapshot:
    """Student weights and the version they are, published and read together.

    Attributes:
      params: the parameters.
      version: number of optimizer updates they contain; 0 is the initial student.
    """

    params: Params
    version: int
