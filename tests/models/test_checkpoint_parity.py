"""Checkpoints against transformers: both directions give the same logits."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import SingleDeviceSharding

from jopd.models.architectures import DecoderConfig
from jopd.models.checkpoints import load_config, load_params, save_pretrained
from jopd.models.decoder import abstract_params, hidden_states, output_head

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

QWEN2 = DecoderConfig(
    vocab_size=40,
    hidden_size=16,
    intermediate_size=24,
    num_layers=3,
    num_heads=4,
    num_kv_heads=2,
    head_dim=4,
    rope_theta=1e4,
    rms_norm_eps=1e-6,
    tie_embeddings=False,
    qkv_bias=True,
    qk_norm=False,
    max_positions=64,
    model_type="qwen2",
)
QWEN2_TIED = dataclasses.replace(QWEN2, tie_embeddings=True)
QWEN3 = dataclasses.replace(QWEN2, model_type="qwen3", qkv_bias=False, qk_norm=True, head_dim=6)
LLAMA = dataclasses.replace(QWEN2, model_type="llama", qkv_bias=False)
TOKENS = np.array([[3, 1, 4, 1, 5, 9, 2, 6], [5, 3, 5, 8, 9, 7, 9, 3]], np.int32)
FAMILIES = {"qwen2": QWEN2, "qwen2 tied": QWEN2_TIED, "qwen3": QWEN3, "llama": LLAMA}


def here():
    return SingleDeviceSharding(jax.devices()[0])


def random_params(config, dtype=jnp.float32):
    generator = np.random.default_rng(0)

    def leaf(shape):
        return jnp.asarray(generator.normal(size=shape.shape) * 0.2, dtype)

    return jax.tree.map(leaf, abstract_params(config))


def save(directory, params, config, **options):
    settings = {"tokenizer_dir": None, "generation_config": None, "max_shard_bytes": 2**30}
    save_pretrained(directory, params, config, **(settings | options))
    return directory


def our_logits(params, config, tokens=TOKENS):
    ids = jnp.asarray(tokens)
    positions = jnp.broadcast_to(jnp.arange(ids.shape[1], dtype=jnp.int32), ids.shape)
    hidden = hidden_states(
        params, config, ids, positions, jnp.ones_like(ids), compute_dtype=jnp.float32
    )
    return np.asarray(jnp.einsum("BLD,VD->BLV", hidden, output_head(params, config)))


def reference_logits(directory, tokens=TOKENS):
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    with torch.no_grad():
        return model.eval()(torch.from_numpy(tokens).long()).logits.numpy()


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("max_shard_bytes", [2**30, 6000])
def test_transformers_computes_our_logits_from_an_export(tmp_path, family, max_shard_bytes):
    config = FAMILIES[family]
    params = random_params(config)
    directory = save(tmp_path / "model", params, config, max_shard_bytes=max_shard_bytes)
    assert (directory / "model.safetensors").is_file() == (max_shard_bytes == 2**30)
    # float32 on both sides, sums in another order
    np.testing.assert_allclose(reference_logits(directory), our_logits(params, config), atol=2e-4)


def test_transformers_loads_an_export_as_the_right_class_and_type(tmp_path):
    directory = save(tmp_path / "model", random_params(QWEN3), QWEN3, dtype=jnp.bfloat16)
    model = transformers.AutoModelForCausalLM.from_pretrained(directory)
    assert type(model) is transformers.Qwen3ForCausalLM
    assert model.dtype == torch.bfloat16


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("family", ["Qwen2", "Qwen3", "Llama"])
def test_we_compute_the_logits_of_a_transformers_checkpoint(tmp_path, family, tied):
    torch.manual_seed(0)
    reference_config = getattr(transformers, f"{family}Config")(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=4,
        tie_word_embeddings=tied,
        initializer_range=0.2,
    )
    model = getattr(transformers, f"{family}ForCausalLM")(reference_config)
    for name, parameter in model.named_parameters():
        if name.endswith((".bias", "norm.weight")):  # initialised to constants
            torch.nn.init.normal_(parameter)
    model.save_pretrained(tmp_path, max_shard_size="5KB")
    config = load_config(tmp_path)
    params = load_params(tmp_path, config, here(), jnp.float32)
    np.testing.assert_allclose(our_logits(params, config), reference_logits(tmp_path), atol=2e-4)


def test_a_padded_model_exports_to_the_same_logits(tmp_path):
    base = save(tmp_path / "base", random_params(QWEN2), QWEN2)
    padded_config = dataclasses.replace(QWEN2, vocab_size=64)
    padded = load_params(base, padded_config, here(), jnp.float32, pad_vocab_to=64)
    base_config = json.loads((base / "config.json").read_text())
    again = save(tmp_path / "again", padded, padded_config, base_config=base_config)
    ours = our_logits(padded, padded_config)[..., :40]
    np.testing.assert_allclose(reference_logits(again), ours, atol=2e-4)
