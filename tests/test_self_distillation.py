"""A teacher with the student's weights must leave nothing to learn.

Teacher minus behaviour log-probs are zero, and so is the gradient of the update that is made of
them. The same comparisons are made once more with scores that are wrong in the two ways that are
easily overlooked, one place off and at another temperature, to show that they would notice.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from made_turns import make_turn

from jopd.algorithms.distillation import weighted_opd_loss
from jopd.engines.base import Engine, Sampling, Score, Scorer
from jopd.engines.factory import make_engine, make_scorer
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.engines.teacher_scorer import ScorerSettings
from jopd.experience.batching import RowLayout, pack
from jopd.learner.update import Updater, UpdateSettings
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import hidden_states, init_params, output_head
from jopd.types import Generation, Turn, WeightSnapshot

MAX_CONTEXT = 64
CONFIG = DecoderConfig(
    vocab_size=61,
    hidden_size=16,
    intermediate_size=32,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    rope_theta=1e4,
    rms_norm_eps=1e-6,
    tie_embeddings=True,
    qkv_bias=False,
    qk_norm=True,
    max_positions=128,
    model_type="qwen3",
)
PARAMS = jax.tree.map(lambda leaf: 3 * leaf, init_params(CONFIG, jax.random.key(0)))
BOUND = 1e-4  # float32 sums in another order
LEARNER = UpdateSettings(
    rows_per_micro_batch=2,
    row_length=MAX_CONTEXT,
    compute_dtype="float32",
    remat=False,
    head_chunk=16,
)


@dataclass(frozen=True)
class Scored:
    """A turn as the explorer makes it."""

    prompt: np.ndarray
    generation: Generation
    score: Score

    @property
    def advantage(self) -> np.ndarray:
        """Teacher minus behaviour log-probs, in nats."""
        assert self.score.mask.all()
        return self.score.logprobs - self.generation.logprobs


@dataclass(frozen=True)
class Played:
    """All turns, and how many of their tokens engine and scorer did not compute again."""

    turns: list[Scored]
    reused_by_engine: int
    reused_by_scorer: int


@pytest.fixture(scope="module")
def played() -> Played:
    """Four rollouts at once of three turns each; every prompt extends the turn before it."""
    snapshot = WeightSnapshot(params=PARAMS, version=0)
    engine = make_engine(
        JetStreamSettings(slots=4, max_context=MAX_CONTEXT, max_prompt=48, prefill_buckets=(48,)),
        CONFIG,
        snapshot,
    )
    settings = ScorerSettings(
        cache_rows=4,
        max_context=MAX_CONTEXT,
        max_batch_rows=2,
        max_batch_tokens=64,
        buckets=(32,),
        head_chunk=16,
        compute_dtype="float32",
        cache_dtype="float32",
        deadline_s=300.0,
    )
    scorer = make_scorer(settings, CONFIG, PARAMS)
    try:
        turns = asyncio.run(play(engine, scorer))
        return Played(turns, engine.counts.reused_tokens, scorer.counts.reused_tokens)
    finally:
        engine.close()
        scorer.close()


@pytest.fixture
def turns(played) -> list[Scored]:
    return played.turns


async def play(engine: Engine, scorer: Scorer) -> list[Scored]:
    rollouts = await asyncio.gather(*(play_rollout(engine, scorer, r) for r in range(4)))
    return [turn for rollout in rollouts for turn in rollout]


async def play_rollout(engine: Engine, scorer: Scorer, rollout_id: int) -> list[Scored]:
    rng = np.random.default_rng(rollout_id)
    sampling = Sampling(temperature=0.7, max_tokens=6, stop_ids=(0,))
    prompt = rng.integers(1, CONFIG.vocab_size, 8 + rollout_id).astype(np.int32)
    turns = []
    for index in range(3):
        generation = await engine.respond(prompt, sampling=sampling, seed=10 * rollout_id + index)
        score = await scorer.score(prompt, generation.tokens, rollout_id=rollout_id)
        turns.append(Scored(prompt=prompt, generation=generation, score=score))
        observation = rng.integers(1, CONFIG.vocab_size, 4).astype(np.int32)
        prompt = np.concatenate([prompt, generation.tokens, observation])
    return turns


@jax.jit
def all_logits(ids):
    hidden = hidden_states(
        PARAMS,
        CONFIG,
        ids,
        jnp.arange(ids.shape[1])[None],
        jnp.ones_like(ids),
        compute_dtype=jnp.float32,
    )
    return hidden[0] @ output_head(PARAMS, CONFIG).T


def scored_otherwise(turn: Scored, *, shift: int = 0, temperature: float = 1.0) -> np.ndarray:
    """Log-probs of the response read `shift` places later, or at another temperature."""
    ids = np.zeros((1, MAX_CONTEXT), np.int32)
    whole = np.concatenate([turn.prompt, turn.generation.tokens])
    ids[0, : len(whole)] = whole
    logprobs = np.asarray(jax.nn.log_softmax(all_logits(ids) / temperature))
    first = len(turn.prompt) - 1 + shift
    return logprobs[first + np.arange(len(turn.generation.tokens)), turn.generation.tokens]


def largest_advantage(turn: Scored, teacher: np.ndarray) -> float:
    return float(np.abs(teacher - turn.generation.logprobs).max())


def gradient_norm(turns: list[Scored], teacher: Callable[[Scored], np.ndarray]) -> float:
    """Norm of the update's gradient, from the learner's own path, for a teacher's scores."""
    trained = [as_turn(i, turn, teacher(turn)) for i, turn in enumerate(turns)]
    layout = RowLayout.for_batch(
        len(trained), rows_per_micro_batch=LEARNER.rows_per_micro_batch, row_length=MAX_CONTEXT
    )
    packed = pack(trained, layout, reduction="seq-mean-token-mean")
    updater = Updater(CONFIG, optax.identity(), weighted_opd_loss, LEARNER)
    _, gradient = updater.gradient(PARAMS, packed.batch, packed.used_micro_batches)
    return float(optax.tree.norm(gradient))


def as_turn(number: int, scored: Scored, teacher_logprobs: np.ndarray) -> Turn:
    return make_turn(
        number,
        prompt_tokens=scored.prompt,
        response_tokens=scored.generation.tokens,
        response_mask=np.ones(len(scored.generation.tokens), bool),
        behaviour_logprobs=scored.generation.logprobs,
        teacher_logprobs=teacher_logprobs.astype(np.float32),
    )


def test_a_teacher_with_the_students_weights_gives_zero_advantage(turns):
    for turn in turns:
        np.testing.assert_allclose(turn.advantage, 0.0, atol=BOUND)


def test_the_zero_holds_for_tokens_that_were_not_computed_again(played):
    assert played.reused_by_engine > 0
    assert played.reused_by_scorer > 4 * 2 * 8  # later turns find at least the first prompt


def test_the_check_would_pass_for_scores_of_the_right_place_and_temperature(turns):
    for turn in turns:
        assert largest_advantage(turn, scored_otherwise(turn)) < BOUND


@pytest.mark.parametrize("shift", [-1, 1])
def test_the_check_notices_scores_that_are_one_place_off(turns, shift):
    for turn in turns:
        assert largest_advantage(turn, scored_otherwise(turn, shift=shift)) > 100 * BOUND


@pytest.mark.parametrize("temperature", [0.7, 1.1])
def test_the_check_notices_scores_at_another_temperature(turns, temperature):
    for turn in turns:
        assert (
            largest_advantage(turn, scored_otherwise(turn, temperature=temperature)) > 100 * BOUND
        )


def test_the_update_finds_nothing_to_learn(turns):
    nothing = gradient_norm(turns, lambda turn: turn.score.logprobs)
    something = gradient_norm(turns, lambda turn: turn.score.logprobs - 1.0)
    assert nothing < 1e-5 * something


@pytest.mark.parametrize("mistake", [{"shift": 1}, {"shift": -1}, {"temperature": 0.7}])
def test_the_update_would_learn_from_wrong_scores(turns, mistake):
    right = gradient_norm(turns, scored_otherwise)
    wrong = gradient_norm(turns, lambda turn: scored_otherwise(turn, **mistake))
    assert wrong > 1e4 * right
