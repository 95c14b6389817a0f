import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding, SingleDeviceSharding
from jax.sharding import PartitionSpec as P

from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import abstract_params, hidden_states
from jopd.parallel import make_mesh, param_shardings, reshard, split_devices

CONFIG = DecoderConfig(
    vocab_size=32,
    hidden_size=16,
    intermediate_size=24,
    num_layers=2,
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


def random_params(config):
    generator = np.random.default_rng(0)
    return jax.tree.map(
        lambda leaf: jnp.asarray(generator.normal(size=leaf.shape), leaf.dtype) * 0.1,
        abstract_params(config),
    )


def specs(config, mesh):
    shardings = param_shardings(abstract_params(config), mesh)
    return jax.tree.map(lambda sharding: sharding.spec, shardings)


def test_a_mesh_keeps_the_order_of_its_devices_and_leaves_sharding_to_the_compiler():
    devices = jax.devices()[2:8]
    mesh = make_mesh(devices, {"fsdp": 3, "tensor": 2})
    assert mesh.devices.tolist() == [devices[0:2], devices[2:4], devices[4:6]]
    assert mesh.axis_names == ("fsdp", "tensor")
    assert mesh.axis_types == (AxisType.Auto, AxisType.Auto)


@pytest.mark.parametrize("axes", [{"fsdp": 3, "tensor": 2}, {"fsdp": 0, "tensor": 4}, {}])
def test_axes_that_do_not_multiply_to_the_devices_are_refused(axes):
    with pytest.raises(ValueError, match=re.escape(f"got {axes} for 4 devices")):
        make_mesh(jax.devices()[:4], axes)


def test_decoder_rules_split_width_by_fsdp_and_heads_by_tensor():
    found = specs(CONFIG, make_mesh(jax.devices(), {"fsdp": 4, "tensor": 2}))
    attention, mlp = found["layers"]["attention"], found["layers"]["mlp"]
    assert found["embed"]["embedding"] == P("tensor", "fsdp")
    assert found["head"]["kernel"] == P("tensor", "fsdp")
    assert attention["query"] == {
        "kernel": P(None, "fsdp", "tensor", None),
        "bias": P(None, "tensor", None),
    }
    assert attention["value"]["kernel"] == P(None, "fsdp", "tensor", None)
    assert attention["output"]["kernel"] == P(None, "tensor", None, "fsdp")
    assert mlp["gate"]["kernel"] == P(None, "fsdp", "tensor")
    assert mlp["down"]["kernel"] == P(None, "tensor", "fsdp")
    assert found["final_norm"]["scale"] == P()


def test_dimensions_that_an_axis_does_not_divide_are_replicated_along_it():
    config = dataclasses.replace(CONFIG, vocab_size=33)
    found = specs(config, make_mesh(jax.devices(), {"fsdp": 2, "tensor": 4}))
    assert found["embed"]["embedding"] == P(None, "fsdp")  # 33 rows over 4
    assert found["layers"]["attention"]["query"]["kernel"] == P(None, "fsdp", "tensor", None)
    assert found["layers"]["attention"]["key"]["kernel"] == P(
        None, "fsdp", None, None
    )  # 2 KV heads
    assert found["layers"]["attention"]["key"]["bias"] == P(None, None, None)


@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_every_parameter_of_every_family_has_a_rule(family):
    config = dataclasses.replace(
        CONFIG, model_type=family, qkv_bias=family == "qwen2", qk_norm=family == "qwen3"
    )
    shardings = param_shardings(
        abstract_params(config), make_mesh(jax.devices(), {"fsdp": 8, "tensor": 1})
    )
    assert jax.tree.structure(shardings) == jax.tree.structure(abstract_params(config))


def test_all_parameters_that_no_rule_places_are_named_at_once():
    params = {
        "embed": {"embedding": jnp.zeros((4, 4))},
        "a": {"b": jnp.zeros((3,)), "c": jnp.zeros((2, 2))},
    }
    mesh = make_mesh(jax.devices()[:1], {"fsdp": 1, "tensor": 1})
    with pytest.raises(
        ValueError, match=r"a/b \(3,\): matches no rule\n  a/c \(2, 2\): matches no rule"
    ):
        param_shardings(params, mesh)


def test_rules_that_do_not_fit_are_refused():
    mesh = make_mesh(jax.devices()[:2], {"fsdp": 2})
    params = {"x": jnp.zeros((2,)), "y": jnp.zeros((2, 2))}
    rules = (("x", P(None, "fsdp")), ("y", P("fsdp", "tensor")))
    with pytest.raises(ValueError) as error:
        param_shardings(params, mesh, rules)
    assert "x (2,): has fewer dimensions than its rule" in str(error.value)
    assert "y (2, 2): its rule names axes ['tensor'] that the mesh lacks" in str(error.value)


def test_the_first_matching_rule_wins_and_patterns_match_whole_names():
    mesh = make_mesh(jax.devices()[:2], {"fsdp": 2})
    params = {"up": {"kernel": jnp.zeros((2, 2))}, "group": {"kernel": jnp.zeros((2, 2))}}
    rules = (("up/kernel", P("fsdp")), (".*", P()))
    found = param_shardings(params, mesh, rules)
    assert found["up"]["kernel"].spec == P("fsdp")
    assert found["group"]["kernel"].spec == P()


def test_the_same_rules_place_an_optimizers_state():
    mesh = make_mesh(jax.devices(), {"fsdp": 4, "tensor": 2})
    params = abstract_params(CONFIG)
    state = jax.eval_shape(optax.adamw(1e-3).init, params)
    found = param_shardings(state, mesh)
    assert found[0].count.spec == P()
    assert jax.tree.leaves(found[0].mu) == jax.tree.leaves(param_shardings(params, mesh))


def test_sharded_and_unsharded_parameters_compute_the_same():
    config = dataclasses.replace(CONFIG, num_layers=1)
    params = random_params(config)
    mesh = make_mesh(jax.devices()[:4], {"fsdp": 2, "tensor": 2})
    tokens = jnp.arange(12, dtype=jnp.int32)[None]

    @jax.jit
    def forward(weights):
        ones = jnp.ones_like(tokens)
        return hidden_states(weights, config, tokens, tokens, ones, compute_dtype=jnp.float32)

    sharded = jax.device_put(params, param_shardings(params, mesh))
    # float32 sums in another order
    np.testing.assert_allclose(forward(sharded), forward(params), atol=1e-5)


def test_devices_are_dealt_in_order_and_the_rest_is_idle():
    devices = jax.devices()
    split = split_devices(devices, learner=4, engine=2, teacher=1)
    assert split.learner == tuple(devices[:4])
    assert split.engine == tuple(devices[4:6])
    assert split.teacher == tuple(devices[6:7])
    assert split.idle == tuple(devices[7:])


def test_one_device_is_shared_by_all():
    split = split_devices(jax.devices()[:1], learner=1, engine=1, teacher=1)
    assert split.learner == split.engine == split.teacher == tuple(jax.devices()[:1])
    assert split.idle == ()


def test_zero_devices_mean_sharing():
    devices = jax.devices()[:3]
    split = split_devices(devices, learner=2, engine=1, teacher=0)
    assert split.teacher == split.engine == tuple(devices[2:])
    split = split_devices(devices, learner=3, engine=0, teacher=0)
    assert split.teacher == split.engine == split.learner == tuple(devices)


def test_a_split_that_cannot_be_says_what_is_there_and_what_was_asked():
    message = r"learner=4, engine=4, teacher=1 ask for 9 devices and this host has 8"
    with pytest.raises(ValueError, match=message):
        split_devices(jax.devices(), learner=4, engine=4, teacher=1)
    with pytest.raises(ValueError, match="ask for 4 devices and this host has 1"):
        split_devices(jax.devices()[:1], learner=2, engine=1, teacher=1)
    with pytest.raises(ValueError, match="got learner=0, engine=1, teacher=-1"):
        split_devices(jax.devices(), learner=0, engine=1, teacher=-1)


def test_resharding_keeps_values_and_sets_layout_and_type():
    params = random_params(CONFIG)
    learner = make_mesh(jax.devices()[:4], {"fsdp": 2, "tensor": 2})
    engine = make_mesh(jax.devices()[4:6], {"fsdp": 1, "tensor": 2})
    params = jax.device_put(params, param_shardings(params, learner))
    target = param_shardings(params, engine)
    moved = reshard(params, target, jnp.bfloat16)
    assert jax.tree.map(lambda leaf: leaf.sharding, moved) == target
    for (path, before), after in zip(
        jax.tree.leaves_with_path(params), jax.tree.leaves(moved), strict=True
    ):
        dtype = jnp.bfloat16 if path[-1].key in ("kernel", "embedding") else jnp.float32
        assert after.dtype == dtype
        np.testing.assert_array_equal(np.asarray(before).astype(dtype), np.asarray(after))


def layouts():
    mesh = make_mesh(jax.devices()[:2], {"fsdp": 2})
    return {
        "one device": (SingleDeviceSharding(jax.devices()[0]),) * 2,
        "same mesh": (NamedSharding(mesh, P("fsdp")),) * 2,
        "gathered on the same mesh": (NamedSharding(mesh, P("fsdp")), NamedSharding(mesh, P())),
        "replicated to one of its devices": (
            NamedSharding(mesh, P()),
            SingleDeviceSharding(jax.devices()[0]),
        ),
    }


@pytest.mark.parametrize("case", sorted(layouts()))
def test_a_donated_update_cannot_change_what_the_engine_reads(case):
    source, target = layouts()[case]
    values = np.arange(4096, dtype=np.float32).reshape(64, 64)
    params = {"x": jax.device_put(jnp.asarray(values), source)}
    copied = reshard(params, {"x": target}, jnp.float32)

    def pointers(array):
        return {shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards}

    assert not pointers(params["x"]) & pointers(copied["x"])
    updated = jax.jit(lambda tree: {"x": tree["x"] * 0 - 1}, donate_argnums=0)(params)
    jax.block_until_ready(updated)
    assert params["x"].is_deleted()
    np.testing.assert_array_equal(copied["x"], values)


def test_resharding_leaves_the_learners_arrays_usable():
    params = random_params(CONFIG)
    before = jax.tree.map(np.array, params)
    everywhere = jax.tree.map(lambda _: SingleDeviceSharding(jax.devices()[3]), params)
    reshard(params, everywhere, jnp.float32)
    jax.tree.map(np.testing.assert_array_equal, before, params)
