import dataclasses
import errno
import json
import re
import tracemalloc

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from full_disk import files_up_to
from jax.sharding import NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from jopd.models.architectures import DecoderConfig
from jopd.models.checkpoint_files import CheckpointError, new_directory, open_tensors
from jopd.models.checkpoint_keys import tensor_layouts
from jopd.models.checkpoints import load_config, load_params, save_pretrained
from jopd.models.decoder import abstract_params, output_head
from jopd.parallel import make_mesh, param_shardings

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


def assert_same_params(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


def rewrite(directory, change):
    """Applies `change` to the dict of stored tensors of a one-file checkpoint."""
    tensors = safetensors.numpy.load_file(directory / "model.safetensors")
    change(tensors)
    safetensors.numpy.save_file(tensors, directory / "model.safetensors")


# --- loading


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("buffer_bytes", [1, 2**28])
def test_streaming_onto_a_mesh_equals_the_plain_load(tmp_path, family, buffer_bytes):
    config = FAMILIES[family]
    expected = random_params(config)
    directory = save(tmp_path / "model", expected, config, max_shard_bytes=6000)
    shardings = param_shardings(expected, make_mesh(jax.devices(), {"fsdp": 4, "tensor": 2}))
    found = load_params(directory, config, shardings, jnp.float32, buffer_bytes=buffer_bytes)
    assert jax.tree.map(lambda leaf: leaf.sharding, found) == shardings
    assert_same_params(found, expected)
    plain = load_params(directory, config, here(), jnp.float32, buffer_bytes=buffer_bytes)
    assert_same_params(plain, expected)


@pytest.mark.parametrize(
    "spec", [P("x"), P(None, "x"), P(None, None, "x"), P(None, None, None, "x"), P(("x", "y"))]
)
def test_any_axis_may_be_sharded_the_layer_and_head_axes_too(tmp_path, spec):
    config = dataclasses.replace(QWEN2, num_layers=8, num_heads=8, num_kv_heads=4)
    expected = random_params(config)
    directory = save(tmp_path / "model", expected, config)
    mesh = make_mesh(jax.devices(), {"x": 4, "y": 2})

    def sharding(leaf):
        fits = len(spec) <= leaf.ndim and leaf.shape[len(spec) - 1] % 8 == 0
        return NamedSharding(mesh, spec if fits or (leaf.ndim == 4 and len(spec) > 1) else P())

    found = load_params(directory, config, jax.tree.map(sharding, expected), jnp.float32)
    assert_same_params(found, expected)


@pytest.mark.parametrize("stored", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("wanted", ["bfloat16", "float32"])
def test_every_stored_type_becomes_the_wanted_type(tmp_path, stored, wanted):
    params = random_params(QWEN2)
    directory = save(tmp_path / "model", params, QWEN2, dtype=stored)
    found = load_params(directory, QWEN2, here(), wanted)
    expected = jax.tree.map(lambda leaf: np.asarray(leaf).astype(stored).astype(wanted), params)
    assert {leaf.dtype for leaf in jax.tree.leaves(found)} == {jnp.dtype(wanted)}
    assert_same_params(found, expected)


def test_loading_reads_only_the_rows_that_a_shard_needs(tmp_path):
    directory = save(tmp_path / "model", random_params(QWEN2), QWEN2)
    layout = tensor_layouts(QWEN2, stored_rows=40)["layers/attention/query/kernel"]
    window = (slice(4, 8), slice(2, 3), slice(1, 4))  # width, heads, head size
    assert layout.stored_window(window) == (slice(8, 12), slice(4, 8))
    with open_tensors(directory) as reader:
        stored = reader.read(layout.name.format(layer=1), layout.stored_window(window))
    assert stored.shape == (4, 4)  # one head of four rows, four columns
    expected = random_params(QWEN2)["layers"]["attention"]["query"]["kernel"][1][window]
    np.testing.assert_array_equal(layout.to_ours(stored, window), expected)


def test_the_host_never_holds_more_than_a_few_tensors(tmp_path):
    config = dataclasses.replace(QWEN2, hidden_size=128, intermediate_size=1024, num_layers=6)
    params = random_params(config)
    directory = save(tmp_path / "model", params, config)
    shardings = param_shardings(params, make_mesh(jax.devices()[:2], {"fsdp": 2, "tensor": 1}))
    load_params(directory, config, shardings, jnp.float32, buffer_bytes=1)  # compiles
    tensor_bytes = 4 * 128 * 1024
    tracemalloc.start()  # numpy's memory is traced, that of the devices is not
    found = load_params(directory, config, shardings, jnp.float32, buffer_bytes=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(found)) > 15 * tensor_bytes
    assert peak < 3 * tensor_bytes


def test_donating_loaded_replicas_leaves_the_others_alone(tmp_path):
    directory = save(tmp_path / "model", random_params(QWEN2), QWEN2)
    replicated = NamedSharding(make_mesh(jax.devices(), {"x": 8}), P())
    params = load_params(directory, QWEN2, replicated, jnp.float32)
    shards = [shard.data for shard in params["embed"]["embedding"].addressable_shards]
    expected = np.array(shards[1])
    jax.block_until_ready(jax.jit(lambda x: x * 0, donate_argnums=0)(shards[0]))
    np.testing.assert_array_equal(shards[1], expected)


# --- tied heads


def test_a_tied_checkpoint_may_repeat_its_embedding_as_head(tmp_path):
    params = random_params(QWEN2_TIED)
    directory = save(tmp_path / "model", params, QWEN2_TIED)

    def repeat(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]

    rewrite(directory, repeat)
    assert_same_params(load_params(directory, QWEN2_TIED, here(), jnp.float32), params)


def test_a_tied_checkpoint_with_another_head_is_refused(tmp_path):
    directory = save(tmp_path / "model", random_params(QWEN2_TIED), QWEN2_TIED)

    def add_head(tensors):
        tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
        tensors["lm_head.weight"][39, 15] += 1

    rewrite(directory, add_head)
    with pytest.raises(CheckpointError, match=r"lm_head\.weight differs from model\.embed_tokens"):
        load_params(directory, QWEN2_TIED, here(), jnp.float32)


def test_an_untied_checkpoint_needs_a_head(tmp_path):
    directory = save(tmp_path / "model", random_params(QWEN2), QWEN2)
    rewrite(directory, lambda tensors: tensors.pop("lm_head.weight"))
    with pytest.raises(CheckpointError, match=r"missing: lm_head\.weight"):
        load_params(directory, QWEN2, here(), jnp.float32)


# --- padded vocabularies


@pytest.mark.parametrize("config", [QWEN2, QWEN2_TIED], ids=["untied", "tied"])
def test_padding_rows_are_zero_and_are_cut_off_on_export(tmp_path, config):
    params = random_params(config)
    base = save(tmp_path / "base", params, config)
    padded_config = dataclasses.replace(config, vocab_size=48)
    mesh = make_mesh(jax.devices(), {"fsdp": 1, "tensor": 8})  # the last shard is padding only
    shardings = param_shardings(abstract_params(padded_config), mesh)
    padded = load_params(base, config, shardings, jnp.float32, pad_vocab_to=48)
    for leaf in [padded["embed"]["embedding"], output_head(padded, padded_config)]:
        assert leaf.shape == (48, 16)
        np.testing.assert_array_equal(leaf[40:], 0)
    base_config = json.loads((base / "config.json").read_text())
    again = save(tmp_path / "again", padded, padded_config, base_config=base_config)
    assert load_config(again) == config
    assert_same_params(load_params(again, config, here(), jnp.float32), params)


def test_other_numbers_of_rows_need_an_explicit_request(tmp_path):
    directory = save(tmp_path / "model", random_params(QWEN2), QWEN2)
    padded = dataclasses.replace(QWEN2, vocab_size=48)
    with pytest.raises(CheckpointError) as error:
        load_params(directory, padded, here(), jnp.float32)
    assert "wrong shape: lm_head.weight is (40, 16), not (48, 16)" in str(error.value)
    assert "pad_vocab_to=48" in str(error.value)
    with pytest.raises(CheckpointError, match="pad_vocab_to=32 is below the 40 stored rows"):
        load_params(directory, QWEN2, here(), jnp.float32, pad_vocab_to=32)


# --- what can be wrong with a directory


def test_all_faults_of_a_checkpoint_are_reported_at_once(tmp_path):
    directory = save(tmp_path / "model", random_params(QWEN2), QWEN2)

    def break_it(tensors):
        tensors.pop("model.norm.weight")
        tensors.pop("model.layers.2.mlp.up_proj.weight")
        tensors["model.layers.3.mlp.up_proj.weight"] = np.zeros((24, 16), np.float32)
        tensors["model.layers.0.self_attn.q_proj.bias"] = np.zeros((8,), np.float32)
        tensors["model.layers.1.mlp.down_proj.weight"] = np.zeros((16, 24), np.int8)
        tensors["model.layers.1.self_attn.rotary_emb.inv_freq"] = np.zeros((2,), np.float32)

    rewrite(directory, break_it)
    with pytest.raises(CheckpointError) as error:
        load_params(directory, QWEN2, here(), jnp.float32)
    assert str(error.value).splitlines()[1:] == [
        "  missing: model.layers.2.mlp.up_proj.weight",
        "  missing: model.norm.weight",
        "  unexpected: model.layers.3.mlp.up_proj.weight",
        "  wrong shape: model.layers.0.self_attn.q_proj.bias is (8,), not (16,)",
        "  not BF16, F16 or F32: model.layers.1.mlp.down_proj.weight is I8",
    ]


def test_a_directory_that_is_no_checkpoint_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="is no directory; give a local Hugging Face"):
        load_config(tmp_path / "absent")
    with pytest.raises(CheckpointError, match=r"config.json does not exist; give a Hugging Face"):
        load_config(tmp_path)
    with pytest.raises(CheckpointError, match=r"has neither model\.safetensors nor"):
        load_params(tmp_path, QWEN2, here(), jnp.float32)
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"only pytorch_model.bin; load these with transf"):
        load_params(tmp_path, QWEN2, here(), jnp.float32)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ("[]", "must hold a JSON object, got list"),
        ('{"model_type": "gemma3"}', "model_type must be one of .* got 'gemma3'"),
        ('{"model_type": "qwen2"}', "the model config has no"),
    ],
)
def test_a_config_of_something_else_is_refused(tmp_path, content, message):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(CheckpointError, match=message) as error:
        load_config(tmp_path)
    assert str(tmp_path / "config.json") in str(error.value)


def test_missing_and_damaged_files_are_named(tmp_path):
    directory = save(tmp_path / "model", random_params(QWEN2), QWEN2, max_shard_bytes=6000)
    shards = sorted(directory.glob("*.safetensors"))
    content = shards[0].read_bytes()
    shards[0].write_bytes(content[:-7])
    with pytest.raises(CheckpointError, match=f"{re.escape(str(shards[0]))} is damaged"):
        load_params(directory, QWEN2, here(), jnp.float32)
    shards[0].write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(CheckpointError, match="is damaged or no safetensors file"):
        load_params(directory, QWEN2, here(), jnp.float32)
    shards[0].unlink()
    shards[2].unlink()
    with pytest.raises(CheckpointError, match=f"missing: {shards[0].name}, {shards[2].name}"):
        load_params(directory, QWEN2, here(), jnp.float32)


# --- saving


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_our_files_are_read_by_the_safetensors_library(tmp_path, dtype):
    params = random_params(QWEN2, dtype)
    directory = save(tmp_path / "model", params, QWEN2)
    with safetensors.safe_open(directory / "model.safetensors", "numpy") as file:
        down = file.get_tensor("model.layers.2.mlp.down_proj.weight")
        key_bias = file.get_tensor("model.layers.1.self_attn.k_proj.bias")
        assert file.metadata() == {"format": "pt"}
    assert down.dtype == dtype
    np.testing.assert_array_equal(down, params["layers"]["mlp"]["down"]["kernel"][2].T)
    expected = params["layers"]["attention"]["key"]["bias"][1].reshape(8)
    np.testing.assert_array_equal(key_bias, expected)


def test_shards_stay_within_their_limit_and_the_index_lists_every_tensor(tmp_path):
    directory = save(tmp_path / "model", random_params(QWEN2), QWEN2, max_shard_bytes=6000)
    index = json.loads((directory / "model.safetensors.index.json").read_text())
    found = {}
    for file in sorted(directory.glob("*.safetensors")):
        tensors = safetensors.numpy.load_file(file)
        assert sum(tensor.nbytes for tensor in tensors.values()) <= 6000
        found |= dict.fromkeys(tensors, file.name)
    assert index["weight_map"] == found
    assert index["metadata"]["total_size"] == 4 * sum(
        leaf.size for leaf in jax.tree.leaves(random_params(QWEN2))
    )


def test_the_base_models_config_is_kept(tmp_path):
    base_config = QWEN2.to_hugging_face() | {"sliding_window": None, "bos_token_id": 7}
    directory = save(tmp_path / "model", random_params(QWEN2), QWEN2, base_config=base_config)
    written = json.loads((directory / "config.json").read_text())
    assert written == base_config | {"dtype": "float32", "torch_dtype": "float32"}


def test_a_base_config_of_another_model_is_refused(tmp_path):
    base_config = QWEN2.to_hugging_face() | {"rope_theta": 5e5, "rope_parameters": None}
    with pytest.raises(CheckpointError, match="base_config describes DecoderConfig"):
        save(tmp_path / "model", random_params(QWEN2), QWEN2, base_config=base_config)
    base_config = QWEN2.to_hugging_face() | {"vocab_size": 41}
    with pytest.raises(CheckpointError, match="has 41 vocabulary rows, the parameters 40"):
        save(tmp_path / "model", random_params(QWEN2), QWEN2, base_config=base_config)
    assert not list(tmp_path.iterdir())


def test_parameters_of_another_config_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="but their config means"):
        save(tmp_path / "model", random_params(QWEN2_TIED), QWEN2)


def test_a_taken_directory_is_left_alone(tmp_path):
    (tmp_path / "model").mkdir()
    save(tmp_path / "model", random_params(QWEN2), QWEN2)  # empty: fine
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(CheckpointError, match="exists already; remove it or choose another"):
        save(tmp_path / "model", random_params(QWEN2), QWEN2)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_disk_without_room_is_refused_before_anything_is_written(tmp_path):
    message = rf"{tmp_path / 'model'} needs {2**62} bytes .* \d+ free"
    with (
        pytest.raises(OSError, match=message),
        new_directory(tmp_path / "model", needed_bytes=2**62),
    ):
        pass
    assert not list(tmp_path.iterdir())


def test_a_write_that_fails_midway_leaves_nothing_behind(tmp_path):
    params = random_params(QWEN2)
    with files_up_to(4096), pytest.raises(OSError) as error:
        save(tmp_path / "model", params, QWEN2)
    assert error.value.errno == errno.EFBIG
    assert f"could not write {tmp_path / 'model'}" in str(error.value)
    assert re.search(r"its disk has \d+ bytes free", str(error.value))
    assert not list(tmp_path.iterdir())


def test_any_other_failure_leaves_nothing_behind_either(tmp_path):
    with pytest.raises(CheckpointError, match=r"has no tokenizer_config\.json"):
        save(tmp_path / "model", random_params(QWEN2), QWEN2, tokenizer_dir=tmp_path)
    assert not list(tmp_path.iterdir())


def test_bfloat16_masters_keep_their_bits(tmp_path):
    params = random_params(QWEN2, jnp.bfloat16)
    directory = save(tmp_path / "model", params, QWEN2)
    found = load_params(directory, QWEN2, here(), ml_dtypes.bfloat16)
    assert_same_params(found, params)
