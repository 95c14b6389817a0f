import jax
import numpy as np

from jopd.types import TurnBatch


def test_turn_batch_is_a_pytree_of_its_six_arrays():
    ints, floats = np.zeros((2, 4), np.int32), np.zeros((2, 4), np.float32)
    batch = TurnBatch(
        tokens=ints,
        positions=ints,
        segment_ids=ints,
        loss_weight=floats,
        teacher_logprobs=floats,
        behaviour_logprobs=floats,
    )
    assert len(jax.tree.leaves(batch)) == 6
    assert jax.tree.map(lambda x: x + 1, batch).tokens[0, 0] == 1


def test_turn_batch_moves_to_a_device_and_through_jit():
    ints, floats = np.zeros((2, 4), np.int32), np.zeros((2, 4), np.float32)
    batch = TurnBatch(
        tokens=ints,
        positions=ints,
        segment_ids=ints,
        loss_weight=floats,
        teacher_logprobs=floats,
        behaviour_logprobs=floats,
    )
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[1])
    moved = jax.device_put(batch, sharding)
    assert jax.jit(lambda b: b)(moved).tokens.devices() == {jax.devices()[1]}
