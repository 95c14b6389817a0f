import asyncio
import math

import numpy as np
import pytest

from jopd.engines.base import Engine, EngineError, Sampling, Scorer
from jopd.engines.scripted import ScriptedEngine, ScriptedScorer, from_ids, from_text
from jopd.types import FinishReason, WeightSnapshot

PROMPT = np.array([1, 2], np.int32)
SCRIPT = from_ids({(1, 2): (5, 6, 0, 7)})


def respond(engine: ScriptedEngine, prompt: np.ndarray = PROMPT, *, max_tokens: int = 9, seed=0):
    sampling = Sampling(temperature=1.0, max_tokens=max_tokens, stop_ids=(0,))
    return asyncio.run(engine.respond(prompt, sampling=sampling, seed=seed))


def score(scorer: ScriptedScorer, response: np.ndarray):
    return asyncio.run(scorer.score(PROMPT, response, rollout_id=0))


def test_both_keep_the_protocols():
    assert isinstance(ScriptedEngine(SCRIPT), Engine)
    assert isinstance(ScriptedScorer(), Scorer)


def test_the_answer_ends_with_the_first_stop_id():
    generation = respond(ScriptedEngine(SCRIPT))
    assert generation.tokens.tolist() == [5, 6, 0]
    assert generation.finish_reason is FinishReason.STOP


def test_the_answer_is_cut_at_the_limit():
    generation = respond(ScriptedEngine(SCRIPT), max_tokens=2)
    assert generation.tokens.tolist() == [5, 6]
    assert generation.finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize(("max_tokens", "disagreement"), [(9, -3), (2, -2)])
def test_the_worked_example_of_the_module_holds(max_tokens, disagreement):
    generation = respond(ScriptedEngine(SCRIPT), max_tokens=max_tokens)
    teacher = score(ScriptedScorer(logprob=math.log(1 / 2)), generation.tokens)
    difference = float((generation.logprobs - teacher.logprobs).sum())
    assert difference == pytest.approx(disagreement * math.log(2))


def test_log_probs_may_depend_on_the_id():
    generation = respond(ScriptedEngine(SCRIPT, logprob=lambda token: -float(token)))
    assert generation.logprobs.tolist() == [-5.0, -6.0, 0.0]


def test_a_script_may_be_any_function_of_prompt_and_seed():
    engine = ScriptedEngine(lambda prompt, seed: [seed, len(prompt), 0])
    assert respond(engine, seed=7).tokens.tolist() == [7, 2, 0]


def test_the_last_key_in_the_prompt_answers():
    script = from_text({"go": (3, 0), "look": (4, 0)}, lambda ids: "look, then go")
    assert respond(ScriptedEngine(script)).tokens.tolist() == [3, 0]
    with pytest.raises(KeyError, match="no key of the script occurs in 'wait'"):
        respond(ScriptedEngine(from_text({"go": (3, 0)}, lambda ids: "wait")))


def test_a_turn_carries_the_version_that_was_published_last():
    engine = ScriptedEngine(SCRIPT)
    assert respond(engine).policy_version == engine.policy_version == 0
    engine.publish(WeightSnapshot(params={}, version=3))
    assert respond(engine).policy_version == engine.policy_version == 3


def test_a_turn_keeps_the_version_it_began_with():
    engine = ScriptedEngine(SCRIPT)

    async def play():
        sampling = Sampling(temperature=1.0, max_tokens=9, stop_ids=(0,))
        turn = asyncio.create_task(engine.respond(PROMPT, sampling=sampling, seed=0))
        await asyncio.sleep(0)
        engine.publish(WeightSnapshot(params={}, version=1))
        return await turn

    assert asyncio.run(play()).policy_version == 0


def test_a_prompt_that_does_not_fit_is_refused():
    engine = ScriptedEngine(SCRIPT, max_context=10)
    assert respond(engine, max_tokens=8).tokens.tolist() == [5, 6, 0]
    with pytest.raises(ValueError, match="prompt of 2 and max_tokens = 9 pass max_context = 10"):
        respond(engine)


def test_unknown_ids_are_masked_with_log_prob_zero():
    known = np.array([True, True, False])
    scored = score(ScriptedScorer(known_ids=known), np.array([0, 2, 1], np.int32))
    assert scored.mask.tolist() == [True, False, True]
    np.testing.assert_allclose(scored.logprobs, [math.log(1 / 4), 0.0, math.log(1 / 4)])


def test_nothing_is_answered_after_close():
    engine, scorer = ScriptedEngine(SCRIPT), ScriptedScorer()
    engine.close()
    scorer.close()
    with pytest.raises(EngineError, match="the engine is closed"):
        respond(engine)
    with pytest.raises(EngineError, match="the scorer is closed"):
        score(scorer, PROMPT)
