from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from full_disk import small_file_system

from jopd.learner.checkpoint import Checkpointer
from jopd.learner.state import LearnerState
from jopd.models.checkpoints import CheckpointError

HOST = {"queue": [1, 2.5, "x"], "exact": 0.1234567890123456}


def state(update_index: int, width: int = 8) -> LearnerState:
    weights = jax.random.normal(jax.random.key(update_index), (4, width))
    return LearnerState(
        params={"layer": {"kernel": weights}},
        opt_state=({"mu": weights * 2},),
        update_index=jnp.int32(update_index),
    )


def test_arrays_and_host_state_come_back_exactly(tmp_path):
    checkpointer = Checkpointer(tmp_path, keep=2)
    checkpointer.save(state(3), HOST)
    checkpointer.close()
    again = Checkpointer(tmp_path, keep=2)
    restored, host = again.restore(again.latest(), state(0))
    again.close()
    assert host == HOST
    for a, b in zip(jax.tree.leaves(restored), jax.tree.leaves(state(3)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_only_the_newest_are_kept(tmp_path):
    checkpointer = Checkpointer(tmp_path, keep=2)
    for update_index in (1, 2, 3, 4):
        checkpointer.save(state(update_index), HOST)
    checkpointer.close()
    kept = {int(path.name) for path in tmp_path.iterdir() if path.name.isdigit()}
    assert kept == {3, 4}


def test_a_missing_checkpoint_names_those_that_are_there(tmp_path):
    checkpointer = Checkpointer(tmp_path, keep=2)
    checkpointer.save(state(5), HOST)
    checkpointer.close()
    again = Checkpointer(tmp_path, keep=2)
    with pytest.raises(CheckpointError, match=r"no checkpoint of update 4; it has \[5\]"):
        again.restore(4, state(0))
    again.close()


def test_a_checkpoint_of_another_model_names_the_arrays_that_differ(tmp_path):
    checkpointer = Checkpointer(tmp_path, keep=2)
    checkpointer.save(state(1), HOST)
    checkpointer.close()
    again = Checkpointer(tmp_path, keep=2)
    with pytest.raises(CheckpointError, match=r"params/layer/kernel: \[4, 8\] in the checkpoint"):
        again.restore(1, state(0, width=16))
    again.close()


@pytest.fixture
def small_disk(tmp_path):
    with small_file_system(tmp_path / "small", size="1m") as place:
        yield place


def test_a_full_disk_is_an_error_at_once_and_earlier_checkpoints_stay(small_disk: Path):
    checkpointer = Checkpointer(small_disk, keep=3)
    checkpointer.save(state(1), HOST)
    checkpointer._manager.wait_until_finished()
    with pytest.raises(OSError, match=r"too full for a checkpoint of update 2.*--resume=auto"):
        checkpointer.save(state(2, width=100_000), HOST)
    checkpointer.close()
    again = Checkpointer(small_disk, keep=3)
    restored, _ = again.restore(1, state(0))
    again.close()
    np.testing.assert_array_equal(
        restored.params["layer"]["kernel"], state(1).params["layer"]["kernel"]
    )
