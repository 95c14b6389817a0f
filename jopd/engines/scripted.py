"""An engine and a scorer that answer from a table, with log-probs that can be computed by hand.

They are whole engines, not stand-ins: they keep limits, stop ids, versions and the end of life like
every other. With the script {(1, 2): (5, 6, 0)} and 0 as a stop id,

    engine = ScriptedEngine(from_ids({(1, 2): (5, 6, 0)}))
    scorer = ScriptedScorer(logprob=math.log(1 / 2))

the prompt [1, 2] is answered by [5, 6, 0] with behaviour log-probs 3 x log(1/4) (a student that
spreads its mass evenly over four ids) and teacher log-probs 3 x log(1/2), so the disagreement of
the turn is 3 x (log(1/4) - log(1/2)) = -3 log 2 nats. With `max_tokens=2` the answer is [5, 6], its
disagreement -2 log 2, and its finish reason LENGTH.
"""

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from jaxtyping import Bool, Int

from jopd.engines.base import EngineCounts, EngineError, Sampling, Score, ScorerCounts
from jopd.types import FinishReason, Generation, HostFloats, HostInts, WeightSnapshot

Script = Callable[[HostInts, int], Sequence[int]]  # (prompt, seed) -> response ids
TokenLogprob = Callable[[int], float]  # id -> its log-prob, in nats

QUARTER = math.log(1 / 4)  # the log-prob of every id unless another is given


def from_ids(table: Mapping[tuple[int, ...], Sequence[int]]) -> Script:
    """Answers by the exact prompt ids; a prompt that is not in the table is a KeyError."""
    return lambda prompt, seed: table[tuple(prompt.tolist())]


def from_text(table: Mapping[str, Sequence[int]], decode: Callable[[HostInts], str]) -> Script:
    """Answers by the last key of the table that the prompt's text contains.

    Raises (when asked):
      KeyError: no key occurs in the prompt.
    """

    def answer(prompt: HostInts, seed: int) -> Sequence[int]:
        text = decode(prompt)
        found = {text.rfind(key): key for key in table}
        if (place := max(found)) < 0:
            raise KeyError(f"no key of the script occurs in {text!r}")
        return table[found[place]]

    return answer


class ScriptedEngine:
    """Answers from a script.

    Args:
      script: response ids to a prompt and a seed; cut after the first stop id or at the limit.
      logprob: natural log-prob of every id, or a function of the id.
      max_context: prompt and `max_tokens` together at most; None: no limit.
      version: policy version until something is published.
    """

    def __init__(
        self,
        script: Script,
        *,
        logprob: float | TokenLogprob = QUARTER,
        max_context: int | None = None,
        version: int = 0,
    ):
        self._script = script
        self._logprob = logprob
        self._max_context = max_context
        self._version = version
        self._closed = False
        self._generated_tokens = 0

    @property
    def counts(self) -> EngineCounts:
        """What it has done so far."""
        return EngineCounts(generated_tokens=self._generated_tokens)

    @property
    def policy_version(self) -> int:
        """Version of the weights that the next turn is generated with."""
        return self._version

    async def respond(self, prompt: HostInts, *, sampling: Sampling, seed: int) -> Generation:
        """The scripted response; see `base.Engine`."""
        limit = self._max_context
        if limit is not None and len(prompt) + sampling.max_tokens > limit:
            raise ValueError(
                f"prompt of {len(prompt)} and max_tokens = {sampling.max_tokens} "
                f"pass max_context = {limit}"
            )
        version = self._version
        await asyncio.sleep(0)  # others run in between, as with every engine
        if self._closed:
            raise EngineError("the engine is closed")
        tokens, reason = _cut(self._script(prompt, seed), sampling)
        self._generated_tokens += len(tokens)
        return Generation(
            tokens=tokens,
            logprobs=_logprobs(tokens, self._logprob),
            finish_reason=reason,
            policy_version=version,
        )

    def publish(self, snapshot: WeightSnapshot) -> None:
        """Stamps every turn from now on with the snapshot's version; the weights are not used."""
        self._version = snapshot.version

    def close(self) -> None:
        """Every waiting and later request fails."""
        self._closed = True


class ScriptedScorer:
    """Gives every id the same log-prob, or one that depends on the id alone.

    Args:
      logprob: natural log-prob of every id, or a function of the id.
      known_ids: True where the teacher knows the id; None: everywhere.
    """

    def __init__(
        self,
        *,
        logprob: float | TokenLogprob = QUARTER,
        known_ids: Bool[np.ndarray, " vocabulary"] | None = None,
    ):
        self._logprob = logprob
        self._known_ids = known_ids
        self._closed = False
        self._scored_tokens = 0

    @property
    def counts(self) -> ScorerCounts:
        """What it has done so far."""
        return ScorerCounts(scored_tokens=self._scored_tokens)

    async def score(
        self,
        prompt: Int[np.ndarray, " prompt"],
        response: Int[np.ndarray, " response"],
        *,
        rollout_id: int,
    ) -> Score:
        """The scripted score; see `base.Scorer`."""
        await asyncio.sleep(0)  # others run in between, as with every scorer
        if self._closed:
            raise EngineError("the scorer is closed")
        mask = np.ones(len(response), bool)
        if self._known_ids is not None:
            mask = self._known_ids[response]
        self._scored_tokens += int(mask.sum())
        logprobs = _logprobs(response, self._logprob)
        return Score(logprobs=np.where(mask, logprobs, np.float32(0)), mask=mask)

    def close(self) -> None:
        """Every waiting and later request fails."""
        self._closed = True


def _cut(answer: Sequence[int], sampling: Sampling) -> tuple[HostInts, FinishReason]:
    """The answer up to its first stop id or the limit; without a stop id it was cut there."""
    tokens = list(answer)[: sampling.max_tokens]
    ends = [place for place, token in enumerate(tokens) if token in sampling.stop_ids]
    if not ends:
        return np.array(tokens, np.int32), FinishReason.LENGTH
    return np.array(tokens[: ends[0] + 1], np.int32), FinishReason.STOP


def _logprobs(tokens: HostInts, logprob: float | TokenLogprob) -> HostFloats:
    values = [logprob(token) if callable(logprob) else logprob for token in tokens.tolist()]
    return np.array(values, np.float32)
