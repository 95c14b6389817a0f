"""Attention: masks by hand, a slow oracle, and the backends against each other."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from jopd.models.attention import attend, cached_attention, causal_mask

RAGGED = {
    "documents": np.repeat([1, 2, 3, 4, 0], [70, 1, 90, 30, 9]),
    "one long document": np.ones(200),
    "shorter than a block": np.repeat([1, 2, 0], [5, 20, 3]),
    "one token each": np.arange(1, 131),
    "empty places between": np.tile(np.repeat([3, 0, 7, 0], [40, 3, 11, 6]), 3),
    "numbers out of order": np.repeat([9, 2, 5, 2], [50, 60, 70, 10]),
    "all empty": np.zeros(70),
}


def random_inputs(key, rows, length, *, heads=4, kv_heads=2, width=8, dtype=jnp.float32):
    """Query, key, value and a cotangent."""
    shapes = [(rows, length, n, width) for n in (heads, kv_heads, kv_heads, heads)]
    keys = jax.random.split(key, 4)
    return [jax.random.normal(k, shape, dtype) for k, shape in zip(keys, shapes, strict=True)]


def softmax_mean(query, keys, values):
    """Attention of one query of one head, in float64."""
    scores = keys @ query / np.sqrt(len(query))
    weights = np.exp(scores - scores.max())
    return weights @ values / weights.sum()


def value_and_cotangents(backend, query, key, value, cotangent, segments):
    out, pull = jax.vjp(
        lambda *arrays: attend(*arrays, segments, backend=backend), query, key, value
    )
    return out, *pull(cotangent)


def test_tokens_read_earlier_tokens_of_their_segment_only():
    mask = causal_mask(jnp.asarray([[1, 1, 1, 2, 2, 0, 0]]))
    expected = [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0],
        [0, 0, 0, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 1, 0],
        [0, 0, 0, 0, 0, 0, 1],
    ]
    np.testing.assert_array_equal(mask[0].astype(int), expected)


@pytest.mark.parametrize("backend", ["xla", "blocked"])
def test_attention_is_the_softmax_mean_over_readable_tokens(backend, key):
    segments = np.repeat([1, 2, 0], [60, 75, 5])
    query, keys, values, _ = random_inputs(key, 1, 140)
    ours = attend(query, keys, values, jnp.asarray(segments[None]), backend=backend)
    q, k, v = (np.asarray(x[0], np.float64) for x in (query, keys, values))
    for i in range(135):
        readable = [j for j in range(i + 1) if segments[j] == segments[i]]
        for head in range(4):
            expected = softmax_mean(q[i, head], k[readable, head // 2], v[readable, head // 2])
            np.testing.assert_allclose(ours[0, i, head], expected, atol=1e-5)


@pytest.mark.parametrize("layout", RAGGED)
def test_blocked_equals_xla_in_value_and_gradient(layout, key):
    segments = jnp.asarray(RAGGED[layout][None], jnp.int32)
    inputs = random_inputs(key, 1, segments.shape[1])
    blocked = value_and_cotangents("blocked", *inputs, segments)
    whole = value_and_cotangents("xla", *inputs, segments)
    for ours, theirs in zip(blocked, whole, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_blocked_in_bf16_is_close_to_float32(key):
    segments = jnp.asarray(RAGGED["documents"][None], jnp.int32)
    inputs = random_inputs(key, 1, segments.shape[1])
    narrow = value_and_cotangents("blocked", *(x.astype(jnp.bfloat16) for x in inputs), segments)
    wide = value_and_cotangents("xla", *inputs, segments)
    for ours, theirs in zip(narrow, wide, strict=True):
        assert ours.dtype == jnp.bfloat16
        error = jnp.linalg.norm(ours.astype(jnp.float32) - theirs) / jnp.linalg.norm(theirs)
        assert error < 0.02  # bf16 keeps 8 bits


def test_rows_are_independent_in_blocked(key):
    segments = jnp.asarray(np.stack([RAGGED["documents"], RAGGED["one long document"]]), jnp.int32)
    query, keys, values, _ = random_inputs(key, 2, 200)
    both = attend(query, keys, values, segments, backend="blocked")
    for row in range(2):
        alone = attend(
            *(x[row : row + 1] for x in (query, keys, values, segments)), backend="blocked"
        )
        np.testing.assert_array_equal(both[row], alone[0])


def test_blocked_never_holds_a_length_by_length_matrix(key):
    length = 2048
    segments = jnp.asarray(np.repeat([1, 2], length // 2)[None])
    inputs = random_inputs(key, 1, length, heads=1, kv_heads=1)
    compiled = jax.jit(value_and_cotangents, static_argnums=0).lower("blocked", *inputs, segments)
    assert compiled.compile().memory_analysis().temp_size_in_bytes < length * length


def test_an_unknown_backend_is_refused(key):
    query, keys, values, _ = random_inputs(key, 1, 4)
    attend_unchecked = attend.__wrapped__
    with pytest.raises(ValueError, match="auto or one of"):
        attend_unchecked(query, keys, values, jnp.ones((1, 4), int), backend="splash2")


@pytest.mark.parametrize("axes", [(8, 1), (4, 2)])
def test_devices_attend_to_their_rows_and_heads_without_talking(axes, key):
    mesh = Mesh(
        np.asarray(jax.devices()).reshape(axes), ("rows", "heads"), axis_types=(AxisType.Auto,) * 2
    )
    segments = jnp.asarray(np.sort(np.random.default_rng(0).integers(0, 4, (8, 128)), axis=1))
    inputs = random_inputs(key, 8, 128)
    split = NamedSharding(mesh, PartitionSpec("rows", None, "heads"))
    placed = [jax.device_put(x, split) for x in inputs]
    rows = jax.device_put(segments, NamedSharding(mesh, PartitionSpec("rows")))
    program = jax.jit(value_and_cotangents, static_argnums=0)
    compiled = program.lower("blocked", *placed, rows).compile()
    for ours, theirs in zip(
        compiled(*placed, rows), program("blocked", *inputs, segments), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert not re.findall(r"all-gather|all-reduce|all-to-all|collective", compiled.as_text())


def test_a_cached_query_reads_the_indices_up_to_its_position(key):
    """Over a cache of two blocks and a bit, at every position of interest."""
    query, keys, values, _ = random_inputs(key, 1, 300)
    stacked = (jnp.stack([jnp.zeros_like(x), x]) for x in (keys, values))
    positions = jnp.asarray([[0, 1, 127, 128, 255, 256, 270, 299]])
    ours = cached_attention(query[:, :8], *stacked, jnp.int32(1), positions)
    q, k, v = (np.asarray(x[0], np.float64) for x in (query, keys, values))
    for place, position in enumerate(positions[0].tolist()):
        for head in range(4):
            expected = softmax_mean(
                q[place, head], k[: position + 1, head // 2], v[: position + 1, head // 2]
            )
            np.testing.assert_allclose(ours[0, place, head], expected, atol=1e-5)


def test_padding_queries_are_finite_and_do_not_lengthen_the_read(key):
    """Behind the last position in use the cache is never read, so a NaN there is harmless."""
    query, keys, values, _ = random_inputs(key, 2, 600)
    poisoned = (x.at[:, 200:].set(jnp.nan)[None] for x in (keys, values))
    positions = jnp.asarray([[3, 600], [600, 600]])
    out = cached_attention(query[:, :2], *poisoned, jnp.int32(0), positions)
    assert jnp.all(jnp.isfinite(out[0, 0]))
    assert not jnp.any(jnp.isnan(out))
