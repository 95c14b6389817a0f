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

    def close(self) -> None:
        """Ends the scorer's threads."""
        ...


class EngineError(RuntimeError):
    """An engine or scorer can no longer answer; `__cause__` holds the first failure."""
