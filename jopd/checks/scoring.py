"""Whether engine, scorer and learner mean the same by a log-prob.

A response of the student's engine is computed afresh by the learner's forward pass. The student as
its own teacher must leave no gap, and the teacher's scores must be those of a fresh pass through
the teacher. What is wrong in the two ways that are easily overlooked, one place off or at another
temperature, is called by its name.
"""

import asyncio
import functools
from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from jopd.checks.findings import Finding, error, ok, warning
from jopd.engines.base import Engine, Sampling, Score, Scorer
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import hidden_states, output_head
from jopd.models.logprobs import last_logits
from jopd.types import Generation, HostFloats, HostInts, Params

_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.25}  # nats, largest over the tokens
_RESPONSE_TOKENS = 32
_TEMPERATURES = (0.4, 0.7, 1.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A response to compare scores of."""

    prompt: HostInts
    generation: Generation

    @property
    def tokens(self) -> HostInts:
        """Prompt and response."""
        return np.concatenate([self.prompt, self.generation.tokens])


def make_probe(engine: Engine, prompt: HostInts) -> Probe:
    """Lets the student's engine respond to a prompt of at least two tokens."""
    sampling = Sampling(temperature=1.0, max_tokens=_RESPONSE_TOKENS, stop_ids=())
    generation = asyncio.run(engine.respond(prompt, sampling=sampling, seed=0))
    return Probe(prompt=prompt, generation=generation)


def check_engine(
    probe: Probe, params: Params, config: DecoderConfig, *, dtype: str
) -> Iterator[Finding]:
    """Whether the engine's log-probs are those of the learner's forward pass."""
    yield compare("engine and learner", probe.generation.logprobs, probe, params, config, dtype)


def check_scorer(
    name: str, scorer: Scorer, probe: Probe, params: Params, config: DecoderConfig, *, dtype: str
) -> Iterator[Finding]:
    """Whether a scorer's log-probs are those of a fresh pass through its own model."""
    score = _score(scorer, probe)
    if not score.mask.all():
        yield warning(name, f"{int((~score.mask).sum())} of {len(score.mask)} tokens have no score")
    given = np.where(score.mask, score.logprobs, np.nan).astype(np.float32)
    yield compare(name, given, probe, params, config, dtype)


def check_self_distillation(scorer: Scorer, probe: Probe, *, dtype: str) -> Iterator[Finding]:
    """Whether the student as its own teacher leaves nothing to learn.

    Args:
      scorer: with the student's own weights.
      probe: of the student's engine.
      dtype: the coarser of the engine's and the scorer's.
    """
    gap = float(np.max(np.abs(_score(scorer, probe).logprobs - probe.generation.logprobs)))
    shown = f"largest gap of the student to itself {gap:.2g} nats"
    if gap <= _TOLERANCE[dtype]:
        yield ok("self-distillation", shown)
    else:
        yield error("self-distillation", f"{shown}, expected 0: scores of the teacher mean nothing")


def compare(
    name: str, given: HostFloats, probe: Probe, params: Params, config: DecoderConfig, dtype: str
) -> Finding:
    """Says whether given log-probs are right, one place off, or of another temperature.

    Args:
      name: of the finding.
      given: log-probs of the response; NaN where there is none.
      probe: the response.
      params: weights that should give them.
      config: their architecture.
      dtype: in which they are computed.
    """
    fresh = functools.partial(
        fresh_logprobs, params, jnp.asarray(probe.tokens), len(probe.prompt), config, dtype
    )
    gaps = {"right": _gap(given, fresh(offset=0, temperature=1.0))}
    gaps |= {
        f"shifted by one token {where}": _gap(given, fresh(offset=offset, temperature=1.0))
        for offset, where in ((-1, "too early"), (1, "too late"))
    }
    gaps |= {
        f"of temperature {t}": _gap(given, fresh(offset=0, temperature=t)) for t in _TEMPERATURES
    }
    return _judge(name, gaps, _TOLERANCE[dtype])


def _judge(name: str, gaps: dict[str, float], tolerance: float) -> Finding:
    nearest = min(gaps, key=lambda kind: gaps[kind])
    others = min(gap for kind, gap in gaps.items() if kind != "right")
    shown = f"log-probs equal a fresh pass to {gaps['right']:.2g} nats"
    if gaps["right"] > tolerance:
        kind = nearest if gaps[nearest] <= tolerance else "of something else"
        return error(
            name, f"log-probs are {kind}: they miss a fresh pass by {gaps['right']:.2g} nats"
        )
    if others <= tolerance:
        return warning(name, f"{shown}, but this model is too uncertain to show a shift")
    return ok(name, f"{shown}; a shift or a temperature would show ({others:.2g})")


@functools.partial(jax.jit, static_argnums=(2, 3, 4), static_argnames=("offset", "temperature"))
def fresh_logprobs(
    params: Params,
    tokens: Int[Array, " L"],
    prompt_length: int,
    config: DecoderConfig,
    dtype: str,
    *,
    offset: int,
    temperature: float,
) -> Float[Array, " R"]:
    """Log-probs of the tokens after the prompt, by one forward pass without any cache.

    Args:
      params: weights.
      tokens: prompt and response.
      prompt_length: tokens of the prompt, at least two.
      config: the decoder.
      dtype: of activations.
      offset: 0; places by which the predicting hidden states are wrongly moved otherwise.
      temperature: 1; what logits are wrongly divided by otherwise.
    """
    length = tokens.shape[0]
    hidden = hidden_states(
        params,
        config,
        tokens[None],
        jnp.arange(length)[None],
        jnp.ones((1, length), jnp.int32),
        compute_dtype=jnp.dtype(dtype),
    )
    first = prompt_length - 1 + offset
    predicting = hidden[0, first : first + length - prompt_length]
    logits = last_logits(predicting, output_head(params, config)) / temperature
    chosen = jnp.take_along_axis(logits, tokens[prompt_length:, None], axis=1)[:, 0]
    return chosen - jax.nn.logsumexp(logits, axis=1)


def _gap(given: HostFloats, reference: Float[Array, " R"]) -> float:
    return float(np.nanmax(np.abs(given - np.asarray(reference))))


def _score(scorer: Scorer, probe: Probe) -> Score:
    return asyncio.run(scorer.score(probe.prompt, probe.generation.tokens, rollout_id=0))
