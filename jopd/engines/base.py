"""What the rest of jopd knows of an engine and of a scorer."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jopd.types import Generation, HostBools, HostFloats, HostInts, WeightSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a response is sampled.

    Attributes:
      temperature: of sampling; 0 is greedy. Returned log-probs are at temperature 1 all the same.
      max_tokens: limit of the response, the stop id included.
      stop_ids: ids that end the response.
    """

    temperature: float
    max_tokens: int
    stop_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A teacher's view of a response.

    Attributes:
      logprobs: [R] natural log-probs of exactly the given ids, at temperature 1; 0 where masked.
      mask: [R] True where the score is usable.
    """

    logprobs: HostFloats
    mask: HostBools


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineCounts:
    """What an engine has done so far.

    Attributes:
      generated_tokens: tokens delivered, those of cancelled turns included.
      prefilled_tokens: prompt tokens computed.
      reused_tokens: prompt tokens whose keys and values were found instead.
      swaps: times the weights changed.
      cancelled: requests whose awaiting task was cancelled.
      compilations: programs compiled.
    """

    generated_tokens: int = 0
    prefilled_tokens: int = 0
    reused_tokens: int = 0
    swaps: int = 0
    cancelled: int = 0
    compilations: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerCounts:
    """What a scorer has done so far.

    Attributes:
      scored_tokens: log-probs given.
      masked_tokens: response tokens without a usable one.
      non_finite_tokens: of these, those whose score was not a finite number.
      computed_tokens: run through the model.
      reused_tokens: whose keys and values were found instead.
      batch_places: computed tokens and padding.
      batches: programs launched.
      compilations: programs compiled, one per shape of a batch.
    """

    scored_tokens: int = 0
    masked_tokens: int = 0
    non_finite_tokens: int = 0
    computed_tokens: int = 0
    reused_tokens: int = 0
    batch_places: int = 0
    batches: int = 0
    compilations: int = 0


@runtime_checkable
class Engine(Protocol):
    """Generates responses of the student."""

    async def respond(self, prompt: HostInts, *, sampling: Sampling, seed: int) -> Generation:
        """Generates one response; same weights, prompt, sampling and seed give the same response.

        Cancelling the awaiting task cancels the generation.

        Raises:
          ValueError: the prompt and `max_tokens` do not fit the engine's context.
          EngineError: the engine has died; the first failure is its cause.
        """
        ...

    @property
    def policy_version(self) -> int:
        """Version of the weights that admit turns now."""
        ...

    @property
    def counts(self) -> EngineCounts:
        """What it has done so far."""
        ...

    def publish(self, snapshot: WeightSnapshot) -> None:
        """Makes the engine use new weights for every turn admitted from now on."""
        ...

    def close(self) -> None:
        """Ends the engine's threads; waiting requests fail with EngineError."""
        ...


@runtime_checkable
class Scorer(Protocol):
    """Scores responses with a frozen model."""

    async def score(self, prompt: HostInts, response: HostInts, *, rollout_id: int) -> Score:
        """Log-probs of `response` after `prompt`.

        `rollout_id` names the rollout whose earlier turns may have left a reusable KV cache.

        Raises:
          EngineError: the scorer has died; the first failure is its cause.
        """
        ...

    @property
    def counts(self) -> ScorerCounts:
        """What it has done so far."""
        ...

    def close(self) -> None:
        """Ends the scorer's threads."""
        ...


class EngineError(RuntimeError):
    """An engine or scorer can no longer answer; `__cause__` holds the first failure."""
