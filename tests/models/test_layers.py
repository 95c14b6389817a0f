"""Layers with weights of ones, by hand; rotary positions against transformers."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx

from jopd.models.architectures import DecoderConfig, RopeScaling
from jopd.models.layers import (
    GatedMLP,
    RMSNorm,
    project,
    rotary_angles,
    rotary_frequencies,
    rotate,
)

CONFIG = DecoderConfig(
    vocab_size=11,
    hidden_size=2,
    intermediate_size=3,
    num_layers=1,
    num_heads=1,
    num_kv_heads=1,
    head_dim=64,
    rope_theta=10000.0,
    rms_norm_eps=1e-6,
    tie_embeddings=True,
    qkv_bias=False,
    qk_norm=False,
    max_positions=512,
    model_type="llama",
)


def of_ones(module):
    """The module with every weight 1."""
    graph, state = nnx.split(module)
    return nnx.merge(graph, jax.tree.map(jnp.ones_like, state))


def test_rms_norm_divides_by_the_root_mean_square():
    """3 and 4 have mean square 12.5."""
    norm = of_ones(RMSNorm(2, 0.0))
    ours = norm(jnp.asarray([[[3.0, 4.0]]]))
    np.testing.assert_allclose(ours, [[[3 / math.sqrt(12.5), 4 / math.sqrt(12.5)]]], rtol=1e-6)


def test_rms_norm_adds_epsilon_to_the_mean_square_and_scales_last():
    norm = RMSNorm(2, 3.5)
    norm.scale[...] = jnp.asarray([1.0, 10.0])
    ours = norm(jnp.asarray([[[3.0, 4.0]]]))  # 12.5 + 3.5 = 16
    np.testing.assert_allclose(ours, [[[0.75, 10.0]]], rtol=1e-6)


def test_rms_norm_of_bf16_is_computed_in_float32():
    x = jnp.linspace(-3, 3, 300, dtype=jnp.bfloat16)[None, None]
    norm = RMSNorm(300, 1e-6)
    wide = norm(x.astype(jnp.float32))
    np.testing.assert_array_equal(norm(x), wide.astype(jnp.bfloat16))


def test_mlp_of_ones_is_silu_of_the_sum_times_the_sum():
    """Each of the 3 hidden units holds silu(s) s with s = 0.5 + 1.5; the output adds them up."""
    mlp = of_ones(GatedMLP(CONFIG))
    ours = mlp(jnp.asarray([[[0.5, 1.5]]]))
    expected = 3 * (2 / (1 + math.exp(-2))) * 2
    np.testing.assert_allclose(ours, [[[expected, expected]]], rtol=1e-6)


def test_projection_gradients_are_those_of_the_einsum(key):
    keys = jax.random.split(key, 3)
    x = jax.random.normal(keys[0], (2, 5, 4))
    kernel = jax.random.normal(keys[1], (4, 3, 2))
    cotangent = jax.random.normal(keys[2], (2, 5, 3, 2))
    equation = "BLD,DNH->BLNH"
    ours = jax.vjp(lambda *xs: project(equation, *xs), x, kernel)[1](cotangent)
    theirs = jax.vjp(lambda *xs: jnp.einsum(equation, *xs), x, kernel)[1](cotangent)
    for mine, reference in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, reference, rtol=1e-5, atol=1e-5)


def test_float32_weights_get_float32_gradients_from_bf16_activations(key):
    """Products of bf16 operands are exact in float32, and so must their sum over tokens be."""
    keys = jax.random.split(key, 2)
    x = jax.random.normal(keys[0], (1, 64, 4), jnp.bfloat16)
    kernel = jnp.ones((4, 3))
    cotangent = jax.random.normal(keys[1], (1, 64, 3), jnp.bfloat16)
    _, ours = jax.vjp(lambda *xs: project("BLD,DF->BLF", *xs), x, kernel)[1](cotangent)
    theirs = np.asarray(x[0], np.float64).T @ np.asarray(cotangent[0], np.float64)
    assert ours.dtype == jnp.float32
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_quarter_turn_moves_the_first_half_into_the_second():
    x = jnp.asarray([1.0, 2.0, 3.0, 4.0]).reshape(1, 1, 1, 4)
    quarter = jnp.full((1, 1, 2), math.pi / 2)
    np.testing.assert_allclose(rotate(x, quarter)[0, 0, 0], [-3, -4, 1, 2], atol=1e-6)
    np.testing.assert_allclose(rotate(x, 0 * quarter, 2.0)[0, 0, 0], [2, 4, 6, 8])


def test_rotated_products_depend_on_the_distance_only(key):
    query, other = jax.random.normal(key, (2, 1, 1, 1, 64))

    def product(position, distance):
        places = jnp.asarray([[position]]), jnp.asarray([[position + distance]])
        first, second = (rotary_angles(CONFIG, place) for place in places)
        return jnp.sum(rotate(query, first) * rotate(other, second))

    np.testing.assert_allclose(product(0, 7), product(200, 7), rtol=1e-4)
    assert abs(product(0, 7) - product(0, 8)) > 1e-3


SCALINGS = {
    "default": ({"rope_type": "default"}, None),
    "linear": (
        {"rope_type": "linear", "factor": 3.0},
        RopeScaling(rope_type="linear", factor=3.0, original_max_positions=512),
    ),
    "llama3": (
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 256,
        },
        RopeScaling(rope_type="llama3", factor=8.0, original_max_positions=256),
    ),
    "yarn": (
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
        RopeScaling(
            rope_type="yarn",
            factor=4.0,
            original_max_positions=128,
            attention_factor=0.1 * math.log(4) + 1,
        ),
    ),
    "yarn with everything": (
        {
            "rope_type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 128,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "truncate": False,
            "mscale": 0.7,
            "mscale_all_dim": 0.4,
        },
        RopeScaling(
            rope_type="yarn",
            factor=4.0,
            original_max_positions=128,
            beta_fast=16.0,
            beta_slow=2.0,
            truncate=False,
            attention_factor=(0.07 * math.log(4) + 1) / (0.04 * math.log(4) + 1),
        ),
    ),
}


@pytest.mark.torch
@pytest.mark.parametrize("name", SCALINGS)
def test_rotary_frequencies_are_those_of_transformers(name):
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    modelling = pytest.importorskip("transformers.models.llama.modeling_llama")
    parameters, scaling = SCALINGS[name]
    theirs = transformers.LlamaConfig(
        hidden_size=128,
        num_attention_heads=2,
        max_position_embeddings=512,
        rope_parameters={"rope_theta": 10000.0, **parameters},
    )
    reference = modelling.LlamaRotaryEmbedding(theirs)
    ours = dataclasses.replace(CONFIG, rope_scaling=scaling)
    assert DecoderConfig.from_hugging_face(theirs.to_dict()).rope_scaling == scaling
    np.testing.assert_allclose(rotary_frequencies(ours), reference.inv_freq.numpy(), rtol=1e-5)
    factor = 1.0 if scaling is None else scaling.attention_factor
    assert reference.attention_scaling == pytest.approx(factor, rel=1e-12)
