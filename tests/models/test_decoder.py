"""The decoder: packing, the KV cache, recomputation, precision, the parameter tree."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import (
    abstract_params,
    extend,
    hidden_states,
    init_cache,
    init_params,
    output_head,
)
from jopd.models.logprobs import token_logprobs

CONFIG = DecoderConfig(
    vocab_size=31,
    hidden_size=16,
    intermediate_size=24,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    rope_theta=10000.0,
    rms_norm_eps=1e-6,
    tie_embeddings=False,
    qkv_bias=False,
    qk_norm=True,
    max_positions=128,
    model_type="qwen3",
)
LENGTHS = (70, 5, 1, 40)


@pytest.fixture
def params(key):
    """Matrices large enough for every token to matter."""
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: 8 * leaf if path[-1].key == "kernel" else leaf, init_params(CONFIG, key)
    )


def documents():
    rng = np.random.default_rng(0)
    return [rng.integers(0, CONFIG.vocab_size, length) for length in LENGTHS]


def packed(parts):
    """tokens, positions, segment ids of one row of 130 places."""
    tokens, positions, segments = np.zeros((3, 1, 130), np.int32)
    start = 0
    for number, part in enumerate(parts, 1):
        place = slice(start, start + len(part))
        tokens[0, place], positions[0, place], segments[0, place] = part, range(len(part)), number
        start += len(part)
    return jnp.asarray(tokens), jnp.asarray(positions), jnp.asarray(segments)


@functools.partial(jax.jit, static_argnames=("attention", "remat", "compute_dtype"))
def logprobs(params, row, *, attention="blocked", remat=False, compute_dtype="float32"):
    """Log-prob of every token that follows one of its own document."""
    tokens, _, segments = row
    settings = {"attention": attention, "remat": remat, "compute_dtype": jnp.dtype(compute_dtype)}
    hidden = hidden_states(params, CONFIG, *row, **settings)
    mask = (segments[:, 1:] == segments[:, :-1]) & (segments[:, 1:] != 0)
    return token_logprobs(
        hidden[:, :-1], output_head(params, CONFIG), tokens[:, 1:], mask, chunk_size=32
    )


@functools.partial(jax.jit, static_argnames=("remat", "compute_dtype"))
def gradient(params, row, weights, **settings):
    """Gradient of the weighted sum of log-probs."""
    return jax.grad(lambda params: jnp.vdot(weights, logprobs(params, row, **settings)))(params)


@pytest.mark.parametrize("attention", ["xla", "blocked"])
def test_packing_does_not_move_a_document_s_logprobs(attention, params):
    parts = documents()
    together = np.asarray(logprobs(params, packed(parts), attention=attention)[0])
    start = 0
    for part in parts:
        alone = logprobs(params, packed([part]), attention=attention)[0]
        wanted = slice(0, len(part) - 1)
        np.testing.assert_allclose(together[start:][wanted], alone[wanted], atol=1e-5)
        start += len(part)


def test_packing_does_not_move_a_document_s_gradient(params):
    parts = documents()
    weights = (jnp.arange(129) < len(parts[0]) - 1).astype(jnp.float32)[None]
    alone = gradient(params, packed(parts[:1]), weights)
    beside = gradient(params, packed(parts), weights)
    for first, second in zip(*map(jax.tree.leaves, (alone, beside)), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5 * float(jnp.max(jnp.abs(first))))


def test_extending_the_cache_gives_the_hidden_states_of_one_pass(params):
    """Ragged rows: a padded prefill, a second stretch, then token by token."""
    lengths, cuts = np.asarray([30, 19]), (12, 25)
    tokens = np.random.default_rng(1).integers(0, CONFIG.vocab_size, (2, 30))
    positions = np.where(np.arange(30) < lengths[:, None], np.arange(30), 40)
    segments = (positions < 40).astype(int)
    whole = hidden_states(
        params, CONFIG, *map(jnp.asarray, (tokens, positions, segments)), compute_dtype=jnp.float32
    )
    cache, pieces = init_cache(CONFIG, 2, 40, jnp.float32), []
    for start, stop in ((0, 12), cuts, *((i, i + 1) for i in range(25, 30))):
        piece, cache = extend(
            params,
            CONFIG,
            jnp.asarray(tokens[:, start:stop]),
            jnp.asarray(positions[:, start:stop]),
            cache,
            compute_dtype=jnp.float32,
        )
        pieces.append(piece)
    ours = np.concatenate(pieces, axis=1)
    for row, length in enumerate(lengths):
        np.testing.assert_allclose(ours[row, :length], whole[row, :length], atol=2e-5)


def test_padding_tokens_leave_the_cache_alone(params):
    cache = init_cache(CONFIG, 1, 20, jnp.float32)
    tokens, positions = jnp.asarray([[4, 9, 2]]), jnp.asarray([[0, 20, 21]])
    _, filled = extend(params, CONFIG, tokens, positions, cache, compute_dtype=jnp.float32)
    for array in (filled.keys, filled.values):
        assert jnp.all(array[:, :, 0] != 0)
        assert jnp.all(array[:, :, 1:] == 0)


def test_rewriting_a_position_replaces_what_was_there(params):
    cache = init_cache(CONFIG, 1, 8, jnp.float32)

    def run(cache, token, position):
        place = jnp.asarray([[token]]), jnp.asarray([[position]])
        return extend(params, CONFIG, *place, cache, compute_dtype=jnp.float32)

    _, once = run(cache, 5, 0)
    _, other = run(cache, 7, 0)
    _, rewritten = run(other, 5, 0)
    np.testing.assert_array_equal(once.keys, rewritten.keys)
    np.testing.assert_array_equal(run(once, 3, 1)[0], run(rewritten, 3, 1)[0])


def test_a_donated_cache_is_updated_in_place():
    config = dataclasses.replace(CONFIG, max_positions=4096)
    cache = jax.eval_shape(lambda: init_cache(config, 2, 4096, jnp.float32))
    tokens = jax.ShapeDtypeStruct((2, 1), jnp.int32)
    program = jax.jit(
        lambda params, tokens, positions, cache: extend(
            params, config, tokens, positions, cache, compute_dtype=jnp.float32
        ),
        donate_argnums=3,
    )
    memory = program.lower(abstract_params(config), tokens, tokens, cache).compile()
    memory = memory.memory_analysis()
    size = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(cache))
    assert memory.alias_size_in_bytes >= size
    assert memory.temp_size_in_bytes < size / 10


def test_recomputation_changes_no_gradient(params):
    row, weights = packed(documents()), jnp.ones((1, 129))
    kept, recomputed = (gradient(params, row, weights, remat=remat) for remat in (False, True))
    for first, second in zip(*map(jax.tree.leaves, (kept, recomputed)), strict=True):
        np.testing.assert_allclose(first, second, atol=1e-5 * float(jnp.max(jnp.abs(first))))


def test_recomputation_keeps_less_than_the_matrix_products():
    config = dataclasses.replace(CONFIG, num_layers=8, intermediate_size=128)
    row = [jax.ShapeDtypeStruct((1, 512), jnp.int32)] * 3

    def temporaries(remat):
        def loss(params, *row):
            return jnp.sum(
                hidden_states(params, config, *row, compute_dtype=jnp.float32, remat=remat)
            )

        program = jax.jit(jax.grad(loss)).lower(abstract_params(config), *row).compile()
        return program.memory_analysis().temp_size_in_bytes

    assert temporaries(True) < 0.6 * temporaries(False)


def test_bf16_compute_is_close_and_keeps_float32_gradients(params):
    """bf16 keeps 8 bits: about half a percent per product."""
    row, weights = packed(documents()), jnp.ones((1, 129))
    wide, narrow = (logprobs(params, row, compute_dtype=dtype) for dtype in ("float32", "bfloat16"))
    assert narrow.dtype == jnp.float32
    assert jnp.max(jnp.abs(narrow - wide)) < 0.2
    wide, narrow = (
        gradient(params, row, weights, compute_dtype=dtype) for dtype in ("float32", "bfloat16")
    )
    for ours, theirs in zip(*map(jax.tree.leaves, (narrow, wide)), strict=True):
        assert ours.dtype == jnp.float32
        assert jnp.linalg.norm(ours - theirs) < 0.05 * jnp.linalg.norm(theirs)


def test_parameters_are_the_agreed_tree():
    config = dataclasses.replace(CONFIG, qkv_bias=True)
    leaves = jax.tree_util.tree_leaves_with_path(abstract_params(config))
    shapes = {
        jax.tree_util.keystr(path, simple=True, separator="/"): leaf.shape for path, leaf in leaves
    }
    assert shapes == {
        "embed/embedding": (31, 16),
        "layers/input_norm/scale": (2, 16),
        "layers/attention/query/kernel": (2, 16, 4, 8),
        "layers/attention/query/bias": (2, 4, 8),
        "layers/attention/key/kernel": (2, 16, 2, 8),
        "layers/attention/key/bias": (2, 2, 8),
        "layers/attention/value/kernel": (2, 16, 2, 8),
        "layers/attention/value/bias": (2, 2, 8),
        "layers/attention/output/kernel": (2, 4, 8, 16),
        "layers/attention/query_norm/scale": (2, 8),
        "layers/attention/key_norm/scale": (2, 8),
        "layers/post_norm/scale": (2, 16),
        "layers/mlp/gate/kernel": (2, 16, 24),
        "layers/mlp/up/kernel": (2, 16, 24),
        "layers/mlp/down/kernel": (2, 24, 16),
        "final_norm/scale": (16,),
        "head/kernel": (31, 16),
    }


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_abstract_params_describe_init_params(dtype, key):
    real = init_params(CONFIG, key, dtype)
    described = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), abstract_params(CONFIG, dtype))
    assert described == jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), real)


def test_layers_start_from_different_weights(key):
    kernel = init_params(CONFIG, key)["layers"]["mlp"]["up"]["kernel"]
    assert float(jnp.std(kernel)) == pytest.approx(0.02, rel=0.1)
    assert not jnp.array_equal(kernel[0], kernel[1])
