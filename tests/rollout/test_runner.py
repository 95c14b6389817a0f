import asyncio
import math

import numpy as np
import pytest
from corridor import END, TASK, WORDS, Corridor, make_player, walker

from jopd.engines.scripted import ScriptedScorer
from jopd.envs.base import LocalEnv
from jopd.rollout.runner import run_rollout, seed_of_turn
from jopd.types import Speaker, StopReason, WeightSnapshot


def play(engine, **changes):
    player = make_player(engine, **changes)
    coroutine = run_rollout(TASK, rollout_id=7, env=LocalEnv(Corridor()), player=player, seed=3)
    return asyncio.run(coroutine)


def test_success_is_the_tasks_own_criterion():
    won, lost = play(walker("right", "right")), play(walker("left"))
    assert (won.success, won.stop_reason, len(won.turns)) == (True, StopReason.ENV_DONE, 2)
    assert (lost.success, lost.env_done, lost.stop_reason) == (False, True, StopReason.ENV_DONE)


def test_a_turn_keeps_the_exact_tokens_of_prompt_and_response():
    first, second = play(walker("right", "right")).turns
    assert first.prompt_tokens.tolist() == [WORDS.index("place0")]
    assert second.prompt_tokens.tolist() == [WORDS.index("right"), WORDS.index("place1")]
    assert first.response_tokens.tolist() == [WORDS.index("right"), END]
    assert first.response_mask.all() and first.speaker is Speaker.STUDENT
    assert (first.rollout_id, first.index, second.index) == (7, 0, 1)


def test_behaviour_and_teacher_logprobs_belong_to_the_sampled_tokens():
    scorer = ScriptedScorer(logprob=math.log(1 / 2))
    turn = play(walker("left"), scorer=scorer).turns[0]
    np.testing.assert_allclose(turn.behaviour_logprobs, [math.log(1 / 4)] * 2, rtol=1e-6)
    np.testing.assert_allclose(turn.teacher_logprobs, [math.log(1 / 2)] * 2, rtol=1e-6)


def test_each_turn_carries_the_version_that_generated_it():
    engine = walker("right", "right")
    moves = engine._script

    def publish_then_move(prompt, seed):
        answer = moves(prompt, seed)
        engine.publish(WeightSnapshot(params=None, version=engine.policy_version + 1))
        return answer

    engine._script = publish_then_move
    assert [turn.policy_version for turn in play(engine).turns] == [0, 1]


def test_an_environment_failure_is_a_value_with_its_words():
    rollout = play(walker("right", "crash"))
    assert rollout.stop_reason is StopReason.ENV_ERROR
    assert (rollout.success, rollout.error) == (False, "the corridor fell down")
    assert len(rollout.turns) == 2


def test_an_engine_failure_is_not_swallowed():
    engine = walker("right")
    engine.close()
    with pytest.raises(RuntimeError, match="closed"):
        play(engine)


def test_the_horizon_ends_a_rollout():
    rollout = play(walker("jump", "jump", "jump"), horizon=3)
    assert rollout.stop_reason is StopReason.HORIZON
    assert [turn.action_valid for turn in rollout.turns] == [False] * 3


def test_overflow_end_stops_before_the_prompt_that_does_not_fit():
    rollout = play(walker("jump", "jump", "jump"), max_prompt_tokens=2)
    assert rollout.stop_reason is StopReason.CONTEXT_FULL
    assert len(rollout.turns) == 2
    assert not any(turn.prompt_truncated for turn in rollout.turns)


def test_overflow_window_drops_the_oldest_history():
    rollout = play(walker("jump", "jump", "right", "right"), max_prompt_tokens=2, overflow="window")
    assert rollout.success
    assert rollout.turns[3].prompt_tokens.tolist() == [WORDS.index("right"), WORDS.index("place1")]


def test_overflow_keep_stepping_makes_one_token_dead_turns():
    rollout = play(walker("jump", "jump"), max_prompt_tokens=2, overflow="keep_stepping", horizon=4)
    dead = rollout.turns[2:]
    assert rollout.stop_reason is StopReason.HORIZON and len(dead) == 2
    for turn in dead:
        assert turn.prompt_truncated and len(turn.prompt_tokens) == 2
        assert turn.response_mask.tolist() == [False]
        assert turn.teacher_logprobs is None and turn.action == ""


def test_seeds_of_turns_differ_by_run_rollout_and_turn():
    seeds = {seed_of_turn(s, r, t) for s in range(5) for r in range(20) for t in range(20)}
    assert len(seeds) == 5 * 20 * 20
    assert all(0 <= seed < 2**31 for seed in seeds)
