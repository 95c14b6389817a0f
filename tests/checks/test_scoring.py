"""The doctor's comparison of log-probs calls mistakes by their names."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.checks.scoring import (
    Probe,
    check_scorer,
    check_self_distillation,
    compare,
    fresh_logprobs,
    make_probe,
)
from jopd.engines.base import Score
from jopd.engines.factory import make_engine, make_scorer
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.engines.teacher_scorer import ScorerSettings
from jopd.models.checkpoints import load_config, load_params
from jopd.models.decoder import abstract_params
from jopd.parallel import make_mesh, param_shardings
from jopd.types import WeightSnapshot

MODEL = Path(__file__).parents[2] / "configs" / "quickstart_models" / "teacher"
CONFIG = load_config(MODEL)
PROMPT = np.arange(20, 32, dtype=np.int32)


@pytest.fixture(scope="module")
def params():
    mesh = make_mesh(jax.devices()[:1], {"fsdp": 1, "tensor": 1})
    shardings = param_shardings(abstract_params(CONFIG), mesh)
    return load_params(MODEL, CONFIG, shardings, jnp.dtype("float32"))


@pytest.fixture(scope="module")
def probe(params) -> Probe:
    settings = JetStreamSettings(slots=2, max_context=64, max_prompt=32, prefill_buckets=(32,))
    engine = make_engine(settings, CONFIG, WeightSnapshot(params=params, version=0))
    try:
        return make_probe(engine, PROMPT)
    finally:
        engine.close()


@pytest.fixture(scope="module")
def scorer(params):
    settings = ScorerSettings(
        cache_rows=2,
        max_context=64,
        max_batch_rows=2,
        max_batch_tokens=64,
        buckets=(32,),
        head_chunk=16,
        compute_dtype="float32",
        cache_dtype="float32",
        deadline_s=300.0,
    )
    scorer = make_scorer(settings, CONFIG, params)
    yield scorer
    scorer.close()


class Wrong:
    """A scorer whose scores went wrong on their way."""

    def __init__(self, scorer, change):
        self.scorer, self.change = scorer, change
        self.counts = scorer.counts

    async def score(self, prompt, response, *, rollout_id):
        score = await self.scorer.score(prompt, response, rollout_id=rollout_id)
        return self.change(score)

    def close(self):
        pass


def shifted(score: Score) -> Score:
    return Score(logprobs=np.roll(score.logprobs, 1), mask=score.mask)


def half_masked(score: Score) -> Score:
    mask = np.arange(len(score.mask)) % 2 == 0
    return Score(logprobs=np.where(mask, score.logprobs, 0).astype(np.float32), mask=mask)


def levels(findings) -> list[str]:
    return [finding.level for finding in findings]


def test_engine_scorer_and_fresh_pass_agree(params, probe, scorer):
    given = probe.generation.logprobs
    assert compare("engine", given, probe, params, CONFIG, "float32").level == "ok"
    assert levels(check_self_distillation(scorer, probe, dtype="float32")) == ["ok"]
    assert levels(check_scorer("t", scorer, probe, params, CONFIG, dtype="float32")) == ["ok"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"offset": 1, "temperature": 1.0}, "shifted by one token too late"),
        ({"offset": -1, "temperature": 1.0}, "shifted by one token too early"),
        ({"offset": 0, "temperature": 0.4}, "of temperature 0.4"),
        ({"offset": 0, "temperature": 3.0}, "of something else"),
    ],
)
def test_wrong_log_probs_are_called_by_their_mistake(params, probe, wrong, words):
    from_mistake = fresh(params, probe, **wrong)
    finding = compare("teacher", from_mistake, probe, params, CONFIG, "float32")
    assert finding.level == "error"
    assert words in finding.text


def fresh(params, probe: Probe, **wrong) -> np.ndarray:
    from_pass = fresh_logprobs(
        params, jnp.asarray(probe.tokens), len(probe.prompt), CONFIG, "float32", **wrong
    )
    return np.asarray(from_pass)


def test_a_teacher_shifted_by_one_is_found(params, probe, scorer):
    wrong = Wrong(scorer, shifted)
    assert levels(check_self_distillation(wrong, probe, dtype="float32")) == ["error"]
    assert levels(check_scorer("t", wrong, probe, params, CONFIG, dtype="float32")) == ["error"]


def test_tokens_without_a_score_are_said_and_not_compared(params, probe, scorer):
    wrong = Wrong(scorer, half_masked)
    found = list(check_scorer("t", wrong, probe, params, CONFIG, dtype="float32"))
    assert levels(found) == ["warning", "ok"]
    assert "have no score" in found[0].text


def test_a_model_that_cannot_show_a_shift_says_so(params, probe):
    flat = jax.tree.map(jnp.zeros_like, params)
    uniform = np.full(len(probe.generation.tokens), -np.log(CONFIG.vocab_size), np.float32)
    finding = compare("teacher", uniform, probe, flat, CONFIG, "float32")
    assert finding.level == "warning"
    assert "too uncertain" in finding.text
