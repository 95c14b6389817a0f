"""The update: loss and gradient depend neither on the layout of turns nor on the devices."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jopd.learner.state import OptimizerSettings, init_state, make_optimizer
from jopd.learner.update import NonFiniteError, Updater, UpdateSettings, check_finite
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import hidden_states, init_params, output_head
from jopd.parallel import make_mesh, param_shardings
from jopd.types import TurnBatch

CONFIG = DecoderConfig.from_hugging_face(
    {
        "model_type": "qwen3",
        "vocab_size": 48,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "tie_word_embeddings": True,
        "max_position_embeddings": 64,
        "hidden_act": "silu",
    }
)
LENGTHS = [(3, 4), (5, 2), (2, 6), (7, 3), (4, 4), (1, 1)]  # prompt and response tokens
OPTIMIZER = OptimizerSettings(
    learning_rate=1e-3,
    warmup_updates=0,
    decay_updates=0,
    beta1=0.9,
    beta2=0.999,
    epsilon=1e-8,
    weight_decay=0.01,
    max_grad_norm=1.0,
)


def opd(learner, teacher, weight):
    advantage = jax.lax.stop_gradient(teacher - learner)
    return -jnp.sum(weight * advantage * jnp.exp(learner - jax.lax.stop_gradient(learner)))


def turns() -> list[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """(tokens, weights, teacher log-probs) of each turn; weight 1/(N |V|) on the response."""
    rng = np.random.default_rng(0)
    made = []
    for prompt, response in LENGTHS:
        tokens = rng.integers(0, CONFIG.vocab_size, prompt + response)
        weight = np.where(np.arange(prompt + response) < prompt, 0, 1 / (len(LENGTHS) * response))
        made.append((tokens, weight, rng.normal(-3, 1, prompt + response) * (weight > 0)))
    return made


def lay_out(rows: list[list[int]], length: int) -> TurnBatch:
    """Puts the turns with the given numbers into rows."""
    fields = {
        name: np.zeros((len(rows), length), np.int32 if i < 3 else np.float32)
        for i, name in enumerate(
            (
                "tokens",
                "positions",
                "segment_ids",
                "loss_weight",
                "teacher_logprobs",
                "behaviour_logprobs",
            )
        )
    }
    for r, numbers in enumerate(rows):
        start = 0
        for segment, number in enumerate(numbers, 1):
            tokens, weight, teacher = turns()[number]
            place = (r, slice(start, start + len(tokens)))
            fields["tokens"][place] = tokens
            fields["positions"][place] = np.arange(len(tokens))
            fields["segment_ids"][place] = segment
            fields["loss_weight"][place] = weight
            fields["teacher_logprobs"][place] = teacher
            start += len(tokens)
    return TurnBatch(**fields)


def updater(rows_per_micro_batch: int, row_length: int, mesh=None) -> Updater:
    settings = UpdateSettings(
        rows_per_micro_batch=rows_per_micro_batch,
        row_length=row_length,
        compute_dtype="float32",
        remat=True,
        head_chunk=4,
    )
    return Updater(CONFIG, make_optimizer(OPTIMIZER), opd, settings, mesh=mesh)


PADDED = [[0], [1], [2], [3], [4], [5], [], []]
PACKED = [[0, 1, 5], [2, 4], [3], []]


def gradient_of(rows, row_length, rows_per_micro_batch, mesh=None):
    params = init_params(CONFIG, jax.random.key(1))
    if mesh is not None:
        params = jax.device_put(params, param_shardings(params, mesh))
    used = -(-len(rows) // rows_per_micro_batch)
    return updater(rows_per_micro_batch, row_length, mesh).gradient(
        params, lay_out(rows, row_length), used
    )


@functools.cache
def plain_gradient():
    """One turn at a time, whole logits, no packing: the definition."""

    def loss_of(params):
        total = 0.0
        for tokens, weight, teacher in turns():
            ids = jnp.asarray(tokens)[None]
            places = jnp.arange(ids.shape[1])[None]
            hidden = hidden_states(
                params, CONFIG, ids, places, jnp.ones_like(ids), compute_dtype=jnp.float32
            )
            logits = jnp.einsum("bld,vd->blv", hidden, output_head(params, CONFIG))
            logprobs = jax.nn.log_softmax(logits)[0, :-1]
            chosen = jnp.take_along_axis(logprobs, ids[0, 1:, None], axis=1)[:, 0]
            total += opd(chosen, jnp.asarray(teacher[1:]), jnp.asarray(weight[1:]))
        return total

    return jax.jit(jax.value_and_grad(loss_of))(init_params(CONFIG, jax.random.key(1)))


def assert_same(one, other):
    assert float(one[0]) == pytest.approx(float(other[0]), abs=1e-6)
    for a, b in zip(jax.tree.leaves(one[1]), jax.tree.leaves(other[1]), strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=2e-6)  # float32 sums


@pytest.mark.parametrize(
    ("rows", "rows_per_micro_batch"),
    [(PADDED, 2), (PACKED, 1), (PACKED, 4)],
    ids=["padded in 4 micro-batches", "packed in 4 micro-batches", "packed in 1 micro-batch"],
)
def test_layout_and_micro_batches_do_not_change_loss_or_gradient(rows, rows_per_micro_batch):
    assert_same(gradient_of(rows, 16, rows_per_micro_batch), plain_gradient())


@pytest.mark.parametrize("axes", [{"fsdp": 8, "tensor": 1}, {"fsdp": 4, "tensor": 2}])
def test_eight_devices_give_the_gradient_of_one(axes):
    mesh = make_mesh(jax.devices(), axes)
    assert_same(gradient_of(PADDED, 16, 8, mesh), plain_gradient())


def test_unused_micro_batches_are_not_computed():
    params = init_params(CONFIG, jax.random.key(1))
    poisoned = lay_out([*PACKED, [0]], 16)
    poisoned.loss_weight[4] = np.nan
    loss, _ = updater(1, 16).gradient(params, poisoned, 4)
    assert float(loss) == pytest.approx(float(plain_gradient()[0]), abs=1e-6)


def test_one_update_counts_up_keeps_float32_and_compiles_once():
    optimizer = make_optimizer(OPTIMIZER)
    state = init_state(init_params(CONFIG, jax.random.key(1), jnp.bfloat16), optimizer)
    apply = updater(2, 16)
    for used in (2, 1, 2):
        state, result = apply(state, lay_out(PACKED, 16), used)
    assert int(state.update_index) == 3
    assert {leaf.dtype for leaf in jax.tree.leaves(state.params)} == {jnp.dtype("float32")}
    assert float(result.changed_share) > 0.9
    assert apply.compilations == 1


@pytest.mark.parametrize("shape", [{"fsdp": 1, "tensor": 1}, {"fsdp": 2, "tensor": 2}])
def test_on_a_mesh_the_state_keeps_its_place_and_the_update_is_one_program(shape):
    mesh = make_mesh(jax.devices()[: shape["fsdp"] * shape["tensor"]], shape)
    optimizer = make_optimizer(OPTIMIZER)
    params = init_params(CONFIG, jax.random.key(1))
    shardings = param_shardings(params, mesh)
    state = init_state(jax.device_put(params, shardings), optimizer)
    moments = state.opt_state[1][0]
    for tree in (moments.mu, moments.nu):
        assert jax.tree.map(lambda leaf: leaf.sharding, tree) == shardings
    apply = updater(2, 16, mesh)
    before = [leaf.sharding for leaf in jax.tree.leaves(state)]
    for _ in range(3):
        state, _ = apply(state, lay_out(PACKED, 16), 2)
    for leaf, place in zip(jax.tree.leaves(state), before, strict=True):
        assert leaf.sharding.is_equivalent_to(place, leaf.ndim)
    assert apply.compilations == 1


def test_float32_masters_keep_an_update_of_one_millionth_that_bfloat16_would_lose():
    tiny = OptimizerSettings(
        **{name: getattr(OPTIMIZER, name) for name in OptimizerSettings.__slots__}
        | {"learning_rate": 1e-6, "weight_decay": 0.0}
    )
    optimizer = make_optimizer(tiny)
    params = init_params(CONFIG, jax.random.key(1))
    before = jax.tree.map(np.asarray, params)
    settings = UpdateSettings(
        rows_per_micro_batch=4, row_length=16, compute_dtype="float32", remat=False, head_chunk=4
    )
    apply = Updater(CONFIG, optimizer, opd, settings)
    state, result = apply(init_state(params, optimizer), lay_out(PACKED, 16), 1)
    after = np.asarray(state.params["layers"]["mlp"]["up"]["kernel"])
    start = before["layers"]["mlp"]["up"]["kernel"]
    lost = np.mean(after.astype(jnp.bfloat16) == start.astype(jnp.bfloat16))
    assert float(result.changed_share) > 0.6
    assert lost > 0.9


def test_non_finite_loss_names_update_and_rollouts():
    batch = lay_out(PACKED, 16)
    batch.teacher_logprobs[0, 4] = np.inf
    optimizer = make_optimizer(OPTIMIZER)
    state = init_state(init_params(CONFIG, jax.random.key(1)), optimizer)
    _, result = updater(2, 16)(state, batch, 2)
    with pytest.raises(NonFiniteError, match=r"update 7 .*\[3, 9\]"):
        check_finite(result, update_index=7, rollout_ids=[9, 3, 9])


def test_learner_logprobs_come_back_in_place():
    params = init_params(CONFIG, jax.random.key(1))
    optimizer = make_optimizer(OPTIMIZER)
    batch = lay_out(PACKED, 16)
    _, result = updater(2, 16)(init_state(params, optimizer), batch, 2)
    logprobs = np.asarray(result.learner_logprobs)
    assert ((logprobs != 0) == (batch.loss_weight != 0)).all()
    assert (logprobs <= 0).all()
