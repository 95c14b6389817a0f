"""Our decoder behind JetStream's engine interface, driven by hand in one thread."""

import functools
from dataclasses import replace

import jax
import numpy as np
import pytest
from tiny_student import (
    CONFIG,
    SETTINGS,
    forward_logprobs,
    greedy_response,
    random_prompts,
    weights,
)

from jopd.engines import decode_programs, decode_state
from jopd.engines.base import Sampling
from jopd.engines.jetstream_engine import JetStreamEngine
from jopd.engines.jetstream_messages import Block, Prompt
from jopd.parallel import make_mesh
from jopd.types import WeightSnapshot


def _engine(snapshot=None, **changes):
    return JetStreamEngine(CONFIG, snapshot or weights(), replace(SETTINGS, **changes))


def _prompt(tokens, *, temperature=0.0, limit=20, stop_ids=(), seed=0):
    sampling = Sampling(temperature=temperature, max_tokens=limit, stop_ids=stop_ids)
    return Prompt(tokens=np.asarray(tokens, np.int32), sampling=sampling, seed=seed)


class _Hand:
    """Plays prompts through an engine as JetStream's threads do, one after the other."""

    def __init__(self, engine):
        self.engine = engine
        self.state = engine.init_decode_state()

    def play(self, *prompts):
        """Plays up to `slots` prompts together; their tokens and log-probs."""
        for slot, prompt in enumerate(prompts):
            prefix = self.engine.prefill(
                params=self.engine.load_params(), padded_tokens=prompt, true_length=0
            )
            self.state = self.engine.insert(prefix, self.state, slot)
        samples = [[] for _ in prompts]
        while len(self.engine.running) > 0:
            self.state, result = self.engine.generate(self.engine.load_params(), self.state)
            block = Block.read(result)
            for slot in list(self.engine.running):
                samples[slot].append(block.sample(slot))
                if block.finished[slot]:
                    self.engine.release(slot, _tokens(samples[slot]))
        return [(_tokens(parts), _logprobs(parts)) for parts in samples]


def _tokens(samples):
    return np.array([token for sample in samples for token in sample.token_ids], np.int32)


def _logprobs(samples):
    return np.concatenate([sample.logprobs for sample in samples])


def test_greedy_responses_are_those_of_whole_forward_passes():
    prompts = random_prompts(4)
    played = _Hand(_engine()).play(*(_prompt(tokens, limit=19) for tokens in prompts))
    for tokens, (response, _) in zip(prompts, played, strict=True):
        assert response.tolist() == greedy_response(weights().params, tokens, 19)


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_logprobs_are_those_of_a_fresh_forward_pass_at_temperature_one(temperature):
    prompts = random_prompts(4, seed=1)
    played = _Hand(_engine()).play(
        *(_prompt(tokens, temperature=temperature, seed=i) for i, tokens in enumerate(prompts))
    )
    for tokens, (response, logprobs) in zip(prompts, played, strict=True):
        expected = forward_logprobs(weights().params, tokens, response)
        np.testing.assert_allclose(logprobs, expected, atol=1e-4)  # float32, two orders of sums


def test_limits_are_exact():
    hand, tokens = _Hand(_engine()), random_prompts(1)[0]
    whole = greedy_response(weights().params, tokens, 20)
    for first in range(1, 21, 4):
        limits = range(first, first + 4)
        played = hand.play(*(_prompt(tokens, limit=limit) for limit in limits))
        assert [response.tolist() for response, _ in played] == [whole[:n] for n in limits]


def test_a_stop_id_ends_a_response_anywhere_in_a_block():
    hand, tokens = _Hand(_engine()), random_prompts(1, seed=3)[0]
    whole = hand.play(_prompt(tokens, temperature=1.5, seed=5, limit=20))[0][0].tolist()
    firsts = [place for place in range(20) if whole[place] not in whole[:place]]
    assert {place % SETTINGS.decode_block for place in firsts} == set(range(8))
    for place in firsts:
        prompt = _prompt(tokens, temperature=1.5, seed=5, limit=20, stop_ids=(99, whole[place]))
        assert hand.play(prompt)[0][0].tolist() == whole[: place + 1]


def test_a_response_depends_on_its_seed_and_not_on_its_neighbours():
    engine = _engine(reuse_prefixes=False)
    prompts = [
        _prompt(tokens, temperature=1.0, seed=i) for i, tokens in enumerate(random_prompts(4))
    ]
    together = _Hand(engine).play(*prompts)
    for prompt, (response, _) in zip(prompts, together, strict=True):
        alone = _Hand(engine).play(prompt)[0][0]
        np.testing.assert_array_equal(alone, response)
    other = _Hand(engine).play(replace(prompts[0], seed=99))[0][0]
    assert other.tolist() != together[0][0].tolist()


def test_padding_of_the_vocabulary_is_never_generated():
    head = weights().params["head"]["kernel"]
    params = weights().params | {"head": {"kernel": head.at[60:].multiply(10.0)}}
    tokens = np.arange(8, dtype=np.int32)
    played = _Hand(_engine(WeightSnapshot(params=params, version=0))).play(
        *(_prompt(tokens, temperature=temperature) for temperature in (0.0, 1.0, 2.0))
    )
    for response, logprobs in played:
        assert response.max() < 60
        expected = forward_logprobs(params, tokens, response)
        assert expected.min() < -8  # padding takes most of the mass
        np.testing.assert_allclose(logprobs, expected, atol=1e-4)


def test_a_growing_history_is_computed_once():
    hand, history = _Hand(_engine()), random_prompts(1, seed=8)[0]
    computed = 0
    history = np.resize(history, 20)
    for turn in range(4):
        response, logprobs = hand.play(_prompt(history, temperature=1.0, seed=turn, limit=9))[0]
        expected = forward_logprobs(weights().params, history, response)
        np.testing.assert_allclose(logprobs, expected, atol=1e-4)
        computed += len(history) if turn == 0 else 4  # the last token and the observation
        assert hand.engine.prefilled_tokens == computed
        history = np.concatenate([history, response, np.array([1, 2, 3], np.int32)])
    assert hand.engine.reused_tokens > 0


def test_a_prompt_copies_the_beginning_of_a_running_one():
    hand, tokens = _Hand(_engine()), random_prompts(1, seed=9)[0]
    first = np.concatenate([tokens, np.arange(20, dtype=np.int32)])
    second = np.concatenate([tokens, np.arange(16, dtype=np.int32), np.array([50], np.int32)])
    played = hand.play(_prompt(first), _prompt(second))
    assert hand.engine.reused_tokens == len(tokens) + 16
    for prompt, (response, logprobs) in zip((first, second), played, strict=True):
        assert response.tolist() == greedy_response(weights().params, prompt, 20)
        expected = forward_logprobs(weights().params, prompt, response)
        np.testing.assert_allclose(logprobs, expected, atol=1e-4)


def test_a_prompt_whose_row_was_overwritten_is_computed_whole():
    hand, tokens = _Hand(_engine()), np.arange(40, dtype=np.int32)
    hand.play(_prompt(tokens, limit=1))
    engine, request = hand.engine, _prompt(tokens)
    prefix = engine.prefill(params=engine.load_params(), padded_tokens=request, true_length=0)
    assert prefix.cache is None  # it relies on the row
    hand.play(*(_prompt(np.full(30, 50 + i), limit=1) for i in range(SETTINGS.slots)))
    hand.state = engine.insert(prefix, hand.state, 0)
    _, result = engine.generate(engine.load_params(), hand.state)
    sample = Block.read(result).sample(0)
    assert sample.token_ids == greedy_response(weights().params, tokens, 8)


def test_keys_and_values_of_earlier_weights_are_never_served():
    hand, tokens = _Hand(_engine()), random_prompts(1, seed=6)[0]
    prompt = np.concatenate([tokens, np.arange(20, dtype=np.int32)])
    hand.play(_prompt(prompt))
    later = weights(seed=1, version=1)
    hand.engine.swap(hand.engine.weights.place(later))
    response, logprobs = hand.play(_prompt(np.concatenate([prompt, prompt[:5]])))[0]
    assert hand.engine.reused_tokens == 0
    expected = forward_logprobs(later.params, np.concatenate([prompt, prompt[:5]]), response)
    np.testing.assert_allclose(logprobs, expected, atol=1e-4)


def test_every_bucket_compiles_once():
    hand = _Hand(_engine())
    for computed in SETTINGS.buckets:
        hand.play(_prompt(np.full(computed, 1), limit=2))
        history = np.arange(64 - min(computed, 30), dtype=np.int32) % 60
        hand.play(_prompt(history, limit=1))
        hand.play(_prompt(np.concatenate([history, np.full(64 - len(history), 7)]), limit=1))
    warm = hand.engine.compilations
    for i, tokens in enumerate(random_prompts(12, longest=64)):
        hand.play(_prompt(tokens, temperature=1.0, limit=1 + i, stop_ids=(i,), seed=i))
        hand.play(_prompt(np.concatenate([tokens, tokens])[:64], limit=1 + i))
    assert hand.engine.compilations == warm


def test_the_decode_state_is_updated_in_place():
    hand = _Hand(_engine())
    hand.play(_prompt(np.arange(9)))
    before = hand.state.cache.keys
    place = before.unsafe_buffer_pointer()
    hand.play(_prompt(np.arange(12)))
    assert before.is_deleted()
    assert hand.state.cache.keys.unsafe_buffer_pointer() == place


def test_long_prompts_are_computed_in_chunks(monkeypatch):
    orders = decode_state.Orders(
        seed=np.zeros(2, np.uint32),
        temperature=np.float32(0),
        max_tokens=np.int32(9),
        stop_ids=np.full(8, -1, np.int32),
        version=np.int32(0),
    )

    def prefill(tokens, lengths):
        run = functools.partial(decode_programs.prefill, config=CONFIG, settings=SETTINGS)
        compiled = jax.jit(run)
        return [compiled(weights().params, tokens, np.int32(length), orders) for length in lengths]

    tokens, lengths = np.arange(50, dtype=np.int32) % 13, (1, 16, 17, 33, 50)
    whole = prefill(tokens, lengths)
    monkeypatch.setattr(decode_programs, "_CHUNK", 16)
    chunked = prefill(tokens, lengths)
    for length, (cache, drawn), (found, drawn_found) in zip(lengths, whole, chunked, strict=True):
        np.testing.assert_allclose(drawn_found.logprob, drawn.logprob, atol=1e-5)
        np.testing.assert_allclose(found.keys[:, :, :length], cache.keys[:, :, :length], atol=1e-5)


def test_sharded_engines_generate_the_same_tokens():
    mesh = make_mesh(jax.devices()[2:4], {"fsdp": 1, "tensor": 2})
    sharded = JetStreamEngine(CONFIG, weights(), SETTINGS, mesh=mesh)
    assert len(_Hand(sharded).state.cache.keys.sharding.device_set) == 2
    history = random_prompts(1, seed=2)[0]
    prompts = [_prompt(tokens, temperature=1.0, seed=i) for i, tokens in enumerate([history] * 3)]
    for expected, found in zip(
        _Hand(_engine()).play(*prompts), _Hand(sharded).play(*prompts), strict=True
    ):
        np.testing.assert_array_equal(expected[0], found[0])
        np.testing.assert_allclose(expected[1], found[1], atol=1e-4)


def test_the_engine_lives_where_its_first_weights_lie():
    device = jax.devices()[5]
    snapshot = WeightSnapshot(params=jax.device_put(weights().params, device), version=0)
    hand = _Hand(_engine(snapshot))
    hand.play(_prompt(np.arange(9)))
    assert hand.state.cache.keys.devices() == {device}
    hand.engine.swap(hand.engine.weights.place(weights(version=1)))
    assert hand.engine.weights.current.params["embed"]["embedding"].devices() == {device}


def test_matrices_are_cast_once_and_norms_stay_whole():
    params = _engine(compute_dtype="bfloat16").weights.current.params
    assert params["embed"]["embedding"].dtype == "bfloat16"
    assert params["layers"]["mlp"]["gate"]["kernel"].dtype == "bfloat16"
    assert params["layers"]["input_norm"]["scale"].dtype == "float32"
