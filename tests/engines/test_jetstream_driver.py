"""JetStream's orchestrator driving our engine, from asyncio."""

import asyncio
import contextlib
import logging
import threading
import time
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_student import CONFIG, SETTINGS, forward_logprobs, next_logits, random_prompts, weights

from jopd.engines.base import EngineError, Sampling
from jopd.engines.jetstream_driver import JetStreamDriver
from jopd.types import FinishReason, WeightSnapshot


@contextlib.contextmanager
def _driver(snapshot=None, **changes):
    driver = JetStreamDriver(CONFIG, snapshot or weights(), replace(SETTINGS, **changes))
    try:
        yield driver
    finally:
        driver.close()


def _sampling(limit=20, temperature=1.0, stop_ids=()):
    return Sampling(temperature=temperature, max_tokens=limit, stop_ids=stop_ids)


async def _respond_all(driver, prompts, sampling):
    return await asyncio.gather(
        *(
            driver.respond(prompt, sampling=sampling, seed=seed)
            for seed, prompt in enumerate(prompts)
        )
    )


def _assert_logprobs_match(params, prompt, generation):
    expected = forward_logprobs(params, prompt, generation.tokens)
    np.testing.assert_allclose(generation.logprobs, expected, atol=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_logprobs_match_a_fresh_forward_pass_with_more_requests_than_slots(temperature):
    prompts = random_prompts(30)
    with _driver() as driver:
        sampling = _sampling(temperature=temperature, stop_ids=(3, 17))
        generations = asyncio.run(_respond_all(driver, prompts, sampling))
        counts = driver.counts
    for prompt, generation in zip(prompts, generations, strict=True):
        _assert_logprobs_match(weights().params, prompt, generation)
        stopped = int(generation.tokens[-1]) in (3, 17)
        assert not {3, 17} & set(generation.tokens[:-1].tolist())
        assert stopped or len(generation.tokens) == 20
        assert generation.finish_reason is (FinishReason.STOP if stopped else FinishReason.LENGTH)
        assert generation.policy_version == 0
    assert counts.generated_tokens == sum(len(generation.tokens) for generation in generations)
    assert counts.prefilled_tokens + counts.reused_tokens == sum(map(len, prompts))


def test_limits_are_exact_in_mixed_company():
    tokens = random_prompts(1)[0]
    limits = [*range(1, 21), *range(20, 0, -1)]

    async def play(driver):
        return await asyncio.gather(
            *(driver.respond(tokens, sampling=_sampling(limit), seed=4) for limit in limits)
        )

    with _driver() as driver:
        generations = asyncio.run(play(driver))
    whole = generations[19].tokens.tolist()
    for limit, generation in zip(limits, generations, strict=True):
        assert generation.tokens.tolist() == whole[:limit]


def test_the_same_seed_gives_the_same_response_in_any_company():
    prompts = random_prompts(12, seed=5)
    with _driver(reuse_prefixes=False) as driver:
        together = asyncio.run(_respond_all(driver, prompts, _sampling()))
        alone = asyncio.run(driver.respond(prompts[7], sampling=_sampling(), seed=7))
    np.testing.assert_array_equal(alone.tokens, together[7].tokens)


def test_first_tokens_are_distributed_as_the_softmax():
    draws, tokens = 600, random_prompts(1, seed=2)[0]
    with _driver() as driver:
        sampling = _sampling(limit=1)
        generations = asyncio.run(_respond_all(driver, [tokens] * draws, sampling))
    real = next_logits(weights().params, tokens)[-1][: SETTINGS.real_vocab_size]
    expected = draws * np.asarray(jax.nn.softmax(real))
    counts = np.bincount(
        [generation.tokens[0] for generation in generations], minlength=len(expected)
    )
    kept = expected > 5  # where a normal approximation holds
    chi_square = np.sum((counts[kept] - expected[kept]) ** 2 / expected[kept])
    assert chi_square < kept.sum() + 4 * np.sqrt(2 * kept.sum())


async def _multi_turn(driver, first, turns):
    """A rollout whose every prompt goes on from the last one; its prompts and generations."""
    history, played = first, []
    for turn in range(turns):
        generation = await driver.respond(history, sampling=_sampling(5), seed=turn)
        played.append((history, generation))
        history = np.concatenate([history, generation.tokens, np.array([turn], np.int32)])
    return played


@pytest.mark.parametrize("rollouts", [SETTINGS.slots, SETTINGS.slots + 3])
def test_reused_prefixes_give_the_logprobs_of_a_fresh_forward_pass(rollouts):
    async def play(driver):
        firsts = [np.resize(tokens, 18) for tokens in random_prompts(rollouts, seed=11)]
        return await asyncio.gather(*(_multi_turn(driver, first, 6) for first in firsts))

    with _driver() as driver:
        played = asyncio.run(play(driver))
        counts = driver.counts
    for history, generation in (turn for rollout in played for turn in rollout):
        _assert_logprobs_match(weights().params, history, generation)
    if rollouts <= SETTINGS.slots:  # more histories than rows are overwritten in turn
        assert counts.reused_tokens > counts.prefilled_tokens


def test_reuse_prefills_a_growing_history_once():
    def prefilled(reuse):
        with _driver(reuse_prefixes=reuse) as driver:
            played = asyncio.run(_multi_turn(driver, np.arange(17, dtype=np.int32), 8))
            return driver.counts.prefilled_tokens, sum(len(history) for history, _ in played)

    whole, every = prefilled(False)
    assert whole == every
    assert prefilled(True)[0] == 17 + 7 * 2  # each later turn: its last token and the observation


def test_turns_after_a_swap_are_of_the_new_weights_and_reuse_nothing_old():
    first, second = weights(), weights(seed=1, version=7)

    async def play(driver):
        before = await _multi_turn(driver, np.arange(12, dtype=np.int32), 3)
        driver.publish(second)
        history = np.concatenate([before[-1][0], before[-1][1].tokens])
        reused = driver.counts.reused_tokens
        generation = await driver.respond(history, sampling=_sampling(), seed=0)
        assert driver.counts.reused_tokens == reused
        return before, history, generation

    with _driver() as driver:
        before, history, generation = asyncio.run(play(driver))
        assert driver.counts.swaps == 1
    for prompt, earlier in before:
        assert earlier.policy_version == 0
        _assert_logprobs_match(first.params, prompt, earlier)
    assert generation.policy_version == 7
    _assert_logprobs_match(second.params, history, generation)


def test_every_turn_is_of_one_version_while_weights_are_published():
    snapshots = {version: weights(seed=version, version=version) for version in range(4)}
    prompts = random_prompts(40, seed=21)

    async def play(driver):
        task = asyncio.create_task(_respond_all(driver, prompts, _sampling()))
        for version in (1, 2, 3):
            await asyncio.sleep(0.03)
            driver.publish(snapshots[version])
        return await task

    with _driver(snapshots[0]) as driver:
        generations = asyncio.run(play(driver))
        last = asyncio.run(driver.respond(prompts[0], sampling=_sampling(), seed=0))
    for prompt, generation in zip(prompts, generations, strict=True):
        _assert_logprobs_match(snapshots[generation.policy_version].params, prompt, generation)
    assert last.policy_version == 3


def test_publishing_does_not_wait_for_running_turns():
    snapshots = [weights(version=version) for version in range(1, 20)]

    async def play(driver):
        turns = [
            asyncio.create_task(driver.respond(tokens, sampling=_sampling(48), seed=0))
            for tokens in random_prompts(8, seed=2)
        ]
        await asyncio.sleep(0)
        for snapshot in snapshots:
            driver.publish(snapshot)
        running = not any(turn.done() for turn in turns)
        return running, await asyncio.gather(*turns)

    with _driver() as driver:
        asyncio.run(driver.respond(np.arange(5), sampling=_sampling(1), seed=0))
        running, generations = asyncio.run(play(driver))
        assert running
        assert {generation.policy_version for generation in generations} <= {0, 19}
        later = asyncio.run(driver.respond(np.arange(5), sampling=_sampling(1), seed=0))
        assert later.policy_version == 19  # it was admitted after the swap
        assert driver.counts.swaps == 1  # only the newest of nineteen


def test_a_cancelled_request_frees_its_slot():
    prompts = random_prompts(SETTINGS.slots + 10, seed=3)

    async def play(driver):
        tasks = [
            asyncio.create_task(driver.respond(tokens, sampling=_sampling(60), seed=0))
            for tokens in prompts
        ]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        cancelled = sum(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes)
        limit = _sampling(5)
        return cancelled, await driver.respond(prompts[0], sampling=limit, seed=0)

    with _driver() as driver:
        cancelled, after = asyncio.run(play(driver))
        assert driver.counts.cancelled == cancelled
        assert cancelled > 0
    assert len(after.tokens) == 5
    _assert_logprobs_match(weights().params, prompts[0], after)


def test_a_failure_in_a_thread_reaches_every_request():
    broken = jax.tree.map(lambda leaf: leaf[..., :-1], weights().params)

    async def play(driver):
        await driver.respond(np.arange(5), sampling=_sampling(2), seed=0)
        driver.publish(WeightSnapshot(params=broken, version=1))
        waiting = await asyncio.gather(
            *(driver.respond(np.arange(5), sampling=_sampling(), seed=i) for i in range(12)),
            return_exceptions=True,
        )
        with pytest.raises(EngineError):
            await driver.respond(np.arange(5), sampling=_sampling(), seed=0)
        return waiting

    with _driver() as driver:
        outcomes = asyncio.run(play(driver))
    assert all(isinstance(outcome, EngineError) for outcome in outcomes)
    assert len({id(outcome.__cause__) for outcome in outcomes}) == 1
    assert outcomes[0].__cause__ is not None


def test_a_stuck_engine_ends_with_an_error_that_says_where():
    with _driver(deadline_s=0.2) as driver:
        blocked = threading.Event()
        driver._engine.prefill = lambda **_: blocked.wait()
        with pytest.raises(EngineError, match=r"no progress for 0\.2 s") as caught:
            asyncio.run(driver.respond(np.arange(5), sampling=_sampling(), seed=0))
        assert "prefill" in str(caught.value)
        blocked.set()


def test_closing_wakes_requests_and_ends_the_threads():
    before = set(threading.enumerate())

    async def play(driver):
        tasks = [
            asyncio.create_task(driver.respond(tokens, sampling=_sampling(60), seed=0))
            for tokens in random_prompts(20, seed=3)
        ]
        await asyncio.sleep(0.05)
        began = time.monotonic()
        driver.close()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        return time.monotonic() - began, outcomes

    with _driver() as driver:
        took_s, outcomes = asyncio.run(play(driver))
        with pytest.raises(EngineError, match="closed"):
            asyncio.run(driver.respond(np.arange(5), sampling=_sampling(), seed=0))
    assert took_s < 10
    assert any(isinstance(outcome, EngineError) for outcome in outcomes)
    deadline = time.monotonic() + 5
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not set(threading.enumerate()) - before


def test_requests_of_several_event_loops_are_served():
    results = {}

    def explore(number):
        results[number] = asyncio.run(
            _respond_all(driver, random_prompts(6, seed=number), _sampling())
        )

    with _driver() as driver:
        threads = [threading.Thread(target=explore, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for number, generations in results.items():
        for prompt, generation in zip(random_prompts(6, seed=number), generations, strict=True):
            _assert_logprobs_match(weights().params, prompt, generation)


def test_the_engine_works_beside_a_learner_on_the_same_device():
    update = jax.jit(
        lambda params, x: jax.tree.map(lambda leaf: leaf + 0 * jnp.sum(x @ x), params),
        donate_argnums=0,
    )
    learning = threading.Event()

    def learn():
        params, x = jax.tree.map(jnp.copy, weights().params), jnp.ones((200, 200))
        while not learning.is_set():
            params = update(params, x)
        jax.block_until_ready(params)

    prompts = random_prompts(20, seed=9)
    learner = threading.Thread(target=learn)
    with _driver() as driver:
        learner.start()
        try:
            generations = asyncio.run(_respond_all(driver, prompts, _sampling()))
        finally:
            learning.set()
            learner.join()
    for prompt, generation in zip(prompts, generations, strict=True):
        _assert_logprobs_match(weights().params, prompt, generation)


@pytest.mark.parametrize(
    ("prompt", "sampling", "complaint"),
    [
        (np.zeros(0, np.int32), _sampling(), "prompt must have 1 to 64"),
        (np.zeros(65, np.int32), _sampling(), "prompt must have 1 to 64"),
        (np.arange(50), _sampling(63), "max_tokens must be 1 to 62"),
        (np.arange(5), _sampling(0), "max_tokens must be 1"),
        (np.arange(5), _sampling(stop_ids=tuple(range(9))), "at most 8"),
        (np.arange(5), _sampling(temperature=-1.0), "temperature"),
        (np.array([64]), _sampling(), "prompt ids"),
    ],
)
def test_requests_that_do_not_fit_are_refused(prompt, sampling, complaint):
    with _driver() as driver, pytest.raises(ValueError, match=complaint):
        asyncio.run(driver.respond(prompt, sampling=sampling, seed=0))


def test_jetstream_leaves_the_root_logger_alone():
    assert logging.getLogger().level > logging.DEBUG
    assert not any(
        getattr(handler, "stream", None) is not None and handler.level == logging.DEBUG
        for handler in logging.getLogger().handlers
    )
