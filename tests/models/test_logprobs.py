"""Token log-probs in chunks against whole logits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jopd.models.logprobs import last_logits, token_logprobs

ROWS, LENGTH, WIDTH, VOCAB = 3, 22, 6, 17


@pytest.fixture
def inputs(key):
    """hidden, head, targets, ragged mask, and a cotangent."""
    keys = jax.random.split(key, 5)
    mask = jax.random.uniform(keys[3], (ROWS, LENGTH)) < jnp.asarray([[0.9], [0.3], [0.0]])
    return (
        jax.random.normal(keys[0], (ROWS, LENGTH, WIDTH)),
        jax.random.normal(keys[1], (VOCAB, WIDTH)),
        jax.random.randint(keys[2], (ROWS, LENGTH), 0, VOCAB),
        mask,
        jax.random.normal(keys[4], (ROWS, LENGTH)),
    )


def whole_logprobs(hidden, head, targets, mask):
    """From the definition, with the logits whole."""
    logprobs = jax.nn.log_softmax(hidden @ head.T, axis=-1)
    chosen = jnp.take_along_axis(logprobs, targets[:, :, None], axis=-1)[:, :, 0]
    return jnp.where(mask, chosen, 0.0)


def with_gradient(function, hidden, head, targets, mask, cotangent):
    out, pull = jax.vjp(lambda x, y: function(x, y, targets, mask), hidden, head)
    return out, *pull(cotangent)


def chunked(size):
    return lambda *arrays: token_logprobs(*arrays, chunk_size=size)


@pytest.mark.parametrize("chunk_size", [1, 4, 22, 100])
def test_logprobs_and_gradients_are_those_of_whole_logits(chunk_size, inputs):
    ours = with_gradient(chunked(chunk_size), *inputs)
    theirs = with_gradient(whole_logprobs, *inputs)
    for mine, reference in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, reference, atol=1e-5)


def test_a_token_of_two_has_the_log_of_its_odds():
    """Logits 0 and log 3: probabilities 1/4 and 3/4."""
    hidden, head = jnp.ones((1, 1, 1)), jnp.asarray([[0.0], [np.log(3.0)]])
    for target, probability in ((0, 0.25), (1, 0.75)):
        ours = token_logprobs(
            hidden, head, jnp.full((1, 1), target), jnp.ones((1, 1), bool), chunk_size=4
        )
        np.testing.assert_allclose(ours, np.log(probability), rtol=1e-6)


def test_nothing_wanted_gives_zeros_and_zero_gradients(inputs):
    hidden, head, targets, mask, cotangent = inputs
    for array in with_gradient(chunked(4), hidden, head, targets, jnp.zeros_like(mask), cotangent):
        np.testing.assert_array_equal(array, jnp.zeros_like(array))


def test_unwanted_places_are_not_computed(inputs):
    """Chunks are filled with wanted places first, so a NaN at an unwanted place is never met."""
    hidden, head, targets, _, cotangent = inputs
    wanted = jnp.asarray([[0, 5, 9, 21], [3, 4, 5, 6], [1, 2, 20, 21]])
    mask = jnp.zeros((ROWS, LENGTH), bool).at[jnp.arange(ROWS)[:, None], wanted].set(True)
    poisoned = jnp.where(mask[:, :, None], hidden, jnp.nan)
    ours = with_gradient(chunked(4), poisoned, head, targets, mask, cotangent)
    theirs = with_gradient(whole_logprobs, hidden, head, targets, mask, cotangent)
    for mine, reference in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, reference, atol=1e-5)


def test_logits_are_never_whole_forward_or_backward():
    length, width, vocab = 512, 8, 1000
    arrays = (
        jax.ShapeDtypeStruct((1, length, width), jnp.float32),
        jax.ShapeDtypeStruct((vocab, width), jnp.float32),
        jax.ShapeDtypeStruct((1, length), jnp.int32),
        jax.ShapeDtypeStruct((1, length), jnp.bool_),
        jax.ShapeDtypeStruct((1, length), jnp.float32),
    )
    program = jax.jit(lambda *given: with_gradient(chunked(32), *given))
    used = program.lower(*arrays).compile().memory_analysis().temp_size_in_bytes
    assert used < length * vocab * 4 / 4  # a quarter of the logits; a chunk is a sixteenth


def test_bf16_operands_are_close_and_the_head_gradient_stays_float32(inputs):
    hidden, head, targets, mask, cotangent = inputs
    ours = with_gradient(chunked(8), hidden.astype(jnp.bfloat16), head, targets, mask, cotangent)
    theirs = with_gradient(whole_logprobs, *inputs)
    assert [array.dtype for array in ours] == [jnp.float32, jnp.bfloat16, jnp.float32]
    for mine, reference in zip(ours, theirs, strict=True):
        error = jnp.linalg.norm(mine.astype(jnp.float32) - reference)
        assert error < 0.02 * jnp.linalg.norm(reference)  # bf16 keeps 8 bits


@pytest.mark.parametrize("axes", [(8, 1), (2, 4)])
def test_rows_and_vocabulary_may_be_split_over_devices(axes, key):
    keys = jax.random.split(key, 5)
    inputs = (
        jax.random.normal(keys[0], (8, LENGTH, WIDTH)),
        jax.random.normal(keys[1], (16, WIDTH)),
        jax.random.randint(keys[2], (8, LENGTH), 0, 16),
        jax.random.uniform(keys[3], (8, LENGTH)) < jnp.arange(8)[:, None] / 7,
        jax.random.normal(keys[4], (8, LENGTH)),
    )
    mesh = Mesh(
        np.asarray(jax.devices()).reshape(axes), ("rows", "vocab"), axis_types=(AxisType.Auto,) * 2
    )
    rows, vocab = (NamedSharding(mesh, PartitionSpec(axis)) for axis in ("rows", "vocab"))
    placed = jax.device_put(inputs, (rows, vocab, rows, rows, rows))
    ours = jax.jit(lambda *given: with_gradient(chunked(5), *given))(*placed)
    for mine, reference in zip(ours, with_gradient(whole_logprobs, *inputs), strict=True):
        np.testing.assert_allclose(mine, reference, atol=1e-5)


def test_last_logits_are_float32_products(key):
    hidden = jax.random.normal(key, (2, 5)).astype(jnp.bfloat16)
    head = jax.random.normal(key, (7, 5))
    ours = last_logits(hidden, head)
    theirs = np.asarray(hidden, np.float64) @ np.asarray(head.astype(jnp.bfloat16), np.float64).T
    assert ours.dtype == jnp.float32
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)
