"""Sampling by inverse CDF."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.engines.sampling import sample_tokens, token_uniforms

_BLOCK = 512
_jitted = jax.jit(sample_tokens, static_argnames="real_vocab_size")


def _sample(logits, uniforms, temperature, real_vocab_size=None):
    rows, vocab = logits.shape
    tokens, logprobs = _jitted(
        jnp.asarray(logits, jnp.float32),
        jnp.asarray(uniforms, jnp.float32),
        jnp.broadcast_to(jnp.asarray(temperature, jnp.float32), (rows,)),
        real_vocab_size=real_vocab_size or vocab,
    )
    return np.asarray(tokens), np.asarray(logprobs)


def _softmax(logits, temperature=1.0):
    scaled = np.asarray(logits, np.float64) / temperature
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def _oracle(probabilities, uniforms):
    """The first block, then the first id in it, whose cumulative share passes its uniform."""
    tokens = []
    for row, (first, second) in zip(probabilities, uniforms, strict=True):
        blocks = [row[start : start + _BLOCK] for start in range(0, len(row), _BLOCK)]
        masses = np.array([block.sum() for block in blocks])
        chosen = int(np.argmax(np.cumsum(masses) / masses.sum() > first))
        inside = np.cumsum(blocks[chosen]) / blocks[chosen].sum()
        tokens.append(chosen * _BLOCK + int(np.argmax(inside > second)))
    return np.array(tokens)


@pytest.mark.parametrize("vocab", [7, 64, 512, 1300])
@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_sampled_ids_are_those_of_the_inverse_cdf(key, vocab, temperature):
    logits = np.asarray(3 * jax.random.normal(key, (200, vocab)))
    uniforms = np.random.default_rng(0).uniform(size=(200, 2))
    tokens, _ = _sample(logits, uniforms, temperature)
    np.testing.assert_array_equal(tokens, _oracle(_softmax(logits, temperature), uniforms))


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_frequencies_match_the_tempered_softmax(key, temperature):
    draws, vocab = 20_000, 40
    logits = np.asarray(jax.random.normal(key, (vocab,)))
    seeds = jnp.stack([jnp.zeros(draws, jnp.uint32), jnp.arange(draws, dtype=jnp.uint32)], 1)
    uniforms = token_uniforms(seeds, jnp.zeros(draws, jnp.int32))
    tokens, _ = _sample(np.tile(logits, (draws, 1)), uniforms, temperature)
    expected = draws * _softmax(logits, temperature)
    chi_square = np.sum((np.bincount(tokens, minlength=vocab) - expected) ** 2 / expected)
    assert chi_square < 39 + 4 * np.sqrt(2 * 39)  # 39 degrees of freedom, four deviations


def test_temperature_zero_takes_the_largest_logit(key):
    logits = np.asarray(jax.random.normal(key, (50, 600)))
    tokens, _ = _sample(logits, np.full((50, 2), 0.7), 0.0)
    np.testing.assert_array_equal(tokens, logits.argmax(axis=-1))


def test_every_row_has_its_own_temperature(key):
    logits = np.asarray(2 * jax.random.normal(key, (6, 64)))
    uniforms = np.random.default_rng(1).uniform(size=(6, 2))
    mixed = np.array([0.0, 1.0, 0.0, 0.4, 2.0, 0.0])
    tokens, _ = _sample(logits, uniforms, mixed)
    alone = [_sample(logits, uniforms, temperature)[0][i] for i, temperature in enumerate(mixed)]
    assert tokens.tolist() == alone


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_padding_of_the_vocabulary_is_never_sampled(key, temperature):
    logits = np.array(jax.random.normal(key, (300, 700)))
    logits[:, 530:] += 20.0
    uniforms = np.array(jax.random.uniform(key, (300, 2)))
    uniforms[:50] = 1 - 2.0**-24  # the largest uniform: rounding may pass the total
    tokens, _ = _sample(logits, uniforms, temperature, real_vocab_size=530)
    assert tokens.max() < 530


def test_ids_of_no_probability_are_never_sampled():
    logits = np.full((3, 1100), -np.inf)
    logits[:, [600, 602]] = 0.0
    tokens, _ = _sample(logits, [[0.0, 0.0], [0.999999, 0.499], [1 - 2.0**-24] * 2], 1.0)
    assert tokens.tolist() == [600, 600, 602]


@pytest.mark.parametrize("temperature", [0.0, 0.4, 1.0, 2.0])
def test_logprobs_are_at_temperature_one_over_the_padded_vocabulary(key, temperature):
    logits = np.asarray(2 * jax.random.normal(key, (40, 90)))
    uniforms = np.asarray(jax.random.uniform(key, (40, 2)))
    tokens, logprobs = _sample(logits, uniforms, temperature, real_vocab_size=80)
    expected = np.log(_softmax(logits))[np.arange(40), tokens]
    np.testing.assert_allclose(logprobs, expected, atol=1e-5)  # float32 sums of 90 terms


def test_huge_logits_do_not_overflow():
    logits = np.array([[1e4, 1e4 - 1, -1e4]])
    tokens, logprobs = _sample(logits, [[0.5, 0.9]], 0.1)
    assert tokens.tolist() == [0]
    np.testing.assert_allclose(logprobs, -np.log1p(np.exp(-1)), atol=1e-3)  # float32 at 1e4


def test_uniforms_depend_on_seed_and_index_only():
    seeds = jnp.array([[1, 2], [3, 4], [1, 2]], jnp.uint32)
    indices = jnp.array([5, 5, 6], jnp.int32)
    together = np.asarray(token_uniforms(seeds, indices))
    alone = np.asarray(token_uniforms(seeds[1:2], indices[1:2]))
    np.testing.assert_array_equal(together[1:2], alone)
    assert len({tuple(pair) for pair in together.tolist()}) == 3
