"""Every field of a config changes the model, and what the model does not compute is refused."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.models.architectures import DecoderConfig, ModelType, RopeScaling
from jopd.models.decoder import (
    abstract_params,
    hidden_states,
    init_cache,
    init_params,
    output_head,
)

CONFIG = DecoderConfig(
    vocab_size=11,
    hidden_size=8,
    intermediate_size=12,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    rope_theta=10000.0,
    rms_norm_eps=1e-6,
    tie_embeddings=False,
    qkv_bias=False,
    qk_norm=True,
    max_positions=64,
    model_type="qwen3",
)
YARN = RopeScaling(
    rope_type="yarn", factor=4.0, original_max_positions=512, beta_fast=8.0, beta_slow=0.5
)
LLAMA3 = RopeScaling(rope_type="llama3", factor=4.0, original_max_positions=16)

SHAPE_CHANGES = {
    "vocab_size": 13,
    "hidden_size": 10,
    "intermediate_size": 14,
    "num_layers": 3,
    "num_heads": 6,
    "num_kv_heads": 4,
    "head_dim": 8,
    "tie_embeddings": True,
    "qkv_bias": True,
    "qk_norm": False,
}
OUTPUT_CHANGES = {"rope_theta": 500.0, "rms_norm_eps": 0.1, "rope_scaling": YARN}
SCALING_CHANGES = [
    (YARN, "rope_type", "linear"),
    (YARN, "factor", 2.0),
    (YARN, "original_max_positions", 64),
    (YARN, "beta_fast", 2.0),
    (YARN, "beta_slow", 1.9),
    (YARN, "truncate", False),
    (YARN, "attention_factor", 1.3),
    (LLAMA3, "low_freq_factor", 0.1),
    (LLAMA3, "high_freq_factor", 2.0),
]


def outputs(config):
    """Final hidden states of one row, with weights large enough for attention to matter."""
    params = jax.tree.map(lambda leaf: 10 * leaf, init_params(config, jax.random.key(0)))
    tokens = jnp.arange(9)[None]
    ones = jnp.ones_like(tokens)
    return hidden_states(params, config, tokens, 3 * tokens, ones, compute_dtype=jnp.float32)


def test_this_file_knows_every_field():
    known = {*SHAPE_CHANGES, *OUTPUT_CHANGES, "max_positions", "model_type"}
    assert known == {field.name for field in dataclasses.fields(DecoderConfig)}
    known = {name for _, name, _ in SCALING_CHANGES}
    assert known == {field.name for field in dataclasses.fields(RopeScaling)}


@pytest.mark.parametrize("name", SHAPE_CHANGES)
def test_a_size_or_variant_changes_the_parameters(name):
    other = dataclasses.replace(CONFIG, **{name: SHAPE_CHANGES[name]})
    shapes = [
        jax.tree.map(lambda leaf: leaf.shape, abstract_params(config)) for config in (CONFIG, other)
    ]
    assert shapes[0] != shapes[1]


@pytest.mark.parametrize("name", OUTPUT_CHANGES)
def test_a_constant_changes_the_output(name):
    other = dataclasses.replace(CONFIG, **{name: OUTPUT_CHANGES[name]})
    assert jnp.max(jnp.abs(outputs(CONFIG) - outputs(other))) > 1e-4


@pytest.mark.parametrize(("scaling", "name", "value"), SCALING_CHANGES)
def test_a_rotary_setting_changes_the_output(scaling, name, value):
    configs = (
        dataclasses.replace(CONFIG, rope_scaling=given)
        for given in (scaling, dataclasses.replace(scaling, **{name: value}))
    )
    first, second = map(outputs, configs)
    assert jnp.max(jnp.abs(first - second)) > 1e-4


def test_no_cache_is_longer_than_max_positions():
    init_cache(CONFIG, 1, 64, jnp.float32)
    with pytest.raises(ValueError, match="max_positions = 64"):
        init_cache(CONFIG, 1, 65, jnp.float32)


def test_model_type_names_the_family_on_export():
    assert CONFIG.to_hugging_face()["architectures"] == ["Qwen3ForCausalLM"]
    with pytest.raises(ValueError, match="'llama' means qkv_bias, qk_norm"):
        dataclasses.replace(CONFIG, model_type="llama").to_hugging_face()


def test_a_tied_head_is_the_embedding_and_an_untied_one_is_not():
    tied = dataclasses.replace(CONFIG, tie_embeddings=True)
    for config in (CONFIG, tied):
        params = init_params(config, jax.random.key(0))
        same = np.array_equal(output_head(params, config), params["embed"]["embedding"])
        assert same == config.tie_embeddings


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"num_kv_heads": 3}, "multiple of num_kv_heads"), ({"head_dim": 5}, "head_dim must be even")],
)
def test_sizes_that_do_not_fit_each_other_are_refused(sizes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIG, **sizes)


@pytest.mark.parametrize("scaling", [None, YARN, LLAMA3, dataclasses.replace(YARN, truncate=False)])
@pytest.mark.parametrize("model_type", ["qwen2", "qwen3", "llama"])
def test_a_config_survives_the_way_through_hugging_face(model_type, scaling):
    config = dataclasses.replace(
        CONFIG,
        model_type=model_type,
        qkv_bias=model_type == "qwen2",
        qk_norm=model_type == "qwen3",
        rope_scaling=scaling,
    )
    assert DecoderConfig.from_hugging_face(config.to_hugging_face()) == config


def test_older_files_name_the_rotary_base_and_scaling_separately():
    new = dataclasses.replace(CONFIG, rope_theta=5e5, rope_scaling=LLAMA3).to_hugging_face()
    old = {name: value for name, value in new.items() if name != "rope_parameters"}
    old["rope_scaling"] = {
        "type" if name == "rope_type" else name: value
        for name, value in old["rope_scaling"].items()
    }
    newest = {
        name: value for name, value in new.items() if name[:9] not in ("rope_thet", "rope_scal")
    }
    for data in (old, newest):
        read = DecoderConfig.from_hugging_face(data)
        assert (read.rope_theta, read.rope_scaling) == (5e5, LLAMA3)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "qwen3_moe"),
        ("hidden_act", "gelu"),
        ("attention_bias", True),
        ("mlp_bias", True),
        ("use_sliding_window", True),
        ("num_experts", 8),
        ("quantization_config", {"bits": 4}),
        ("layer_types", ["full_attention", "sliding_attention"]),
        ("rope_parameters", {"rope_type": "longrope", "factor": 2.0}),
        ("rope_parameters", {"rope_type": "dynamic", "factor": 2.0}),
        ("rope_parameters", {"rope_type": "default", "mrope_section": [1, 2, 3]}),
        ("vocab_size", None),
    ],
)
def test_what_is_not_computed_is_refused_by_name(key, value):
    named = "rope" if key == "rope_parameters" else key
    with pytest.raises(ValueError, match=named):
        DecoderConfig.from_hugging_face(CONFIG.to_hugging_face() | {key: value})


# name: (V, D, F, layers, N, K, tied head)
_QWEN25_SIZES = {
    "qwen2.5-1.5b": (151936, 1536, 8960, 28, 12, 2, True),
    "qwen2.5-3b": (151936, 2048, 11008, 36, 16, 2, True),
    "qwen2.5-7b": (152064, 3584, 18944, 28, 28, 4, False),
}
_QWEN3_SIZES = {
    "qwen3-1.7b": (151936, 2048, 6144, 28, 16, 8, True),
    "qwen3-4b": (151936, 2560, 9728, 36, 32, 8, True),
    "qwen3-8b": (151936, 4096, 12288, 36, 32, 8, False),
}


def _named(
    sizes: tuple[int, int, int, int, int, int, bool], model_type: ModelType
) -> DecoderConfig:
    vocab, width, hidden, layers, heads, kv_heads, tied = sizes
    return DecoderConfig(
        vocab_size=vocab,
        hidden_size=width,
        intermediate_size=hidden,
        num_layers=layers,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=128,
        rope_theta=1e6,
        rms_norm_eps=1e-6,
        tie_embeddings=tied,
        qkv_bias=model_type == "qwen2",
        qk_norm=model_type == "qwen3",
        max_positions=32768 if model_type == "qwen2" else 40960,
        model_type=model_type,
    )


NAMED_SIZES: dict[str, DecoderConfig] = {
    **{name: _named(sizes, "qwen2") for name, sizes in _QWEN25_SIZES.items()},
    **{name: _named(sizes, "qwen3") for name, sizes in _QWEN3_SIZES.items()},
}
"""The sizes of the papers, as their public (Instruct) configs have them."""


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("qwen2.5-1.5b", 1.54),
        ("qwen2.5-3b", 3.09),
        ("qwen2.5-7b", 7.61),
        ("qwen3-1.7b", 1.72),
        ("qwen3-4b", 4.02),
        ("qwen3-8b", 8.19),
    ],
)
def test_named_sizes_have_their_published_parameter_counts(name, billions):
    leaves = jax.tree.leaves(abstract_params(NAMED_SIZES[name]))
    assert sum(leaf.size for leaf in leaves) / 1e9 == pytest.approx(billions, abs=0.01)
