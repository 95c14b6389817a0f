"""Checkpoints of a run: all that exact resume needs, written by Orbax while training goes on.

Each checkpoint holds the learner's state (arrays, restored straight to their shardings) and the
host's state (a JSON tree: queue, pending pool, tasks, counters). A checkpoint counts once Orbax has
committed it; a torn one is never restored.
"""

import errno
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import orbax.checkpoint as ocp

from jopd.learner.state import LearnerState
from jopd.models.checkpoints import CheckpointError

HostState = dict[str, Any]
"""What JSON can hold."""

_HEADROOM = 1.1  # array files are a little larger than their arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSettings:
    """When checkpoints are written and which are kept.

    Attributes:
      interval: updates between two checkpoints.
      keep: how many of the newest are kept.
    """

    interval: int
    keep: int


class Checkpointer:
    """Writes and restores the checkpoints of one run directory.

    Attributes:
      directory: where they are.
      keep: how many of the newest are kept.
    """

    def __init__(self, directory: Path, *, keep: int):
        self._directory = directory.absolute()
        self._directory.mkdir(parents=True, exist_ok=True)
        self._manager = ocp.CheckpointManager(
            self._directory,
            options=ocp.CheckpointManagerOptions(max_to_keep=keep, enable_async_checkpointing=True),
        )

    def latest(self) -> int | None:
        """Update index of the newest whole checkpoint, or None."""
        return self._manager.latest_step()

    def save(self, state: LearnerState, host: HostState) -> None:
        """Starts writing a checkpoint of `state`; returns once the arrays have been copied.

        Raises:
          OSError: the disk is too full, or an earlier write failed.
        """
        self.check()
        self._check_space(state)
        self._manager.save(
            int(state.update_index),
            args=ocp.args.Composite(
                learner=ocp.args.StandardSave(_arrays(state)),
                host=ocp.args.JsonSave({"shapes": _shapes(state), "state": host}),
            ),
        )

    def check(self) -> None:
        """Raises what a background write has failed with since the last check."""
        try:
            self._manager.check_for_errors()
        except (OSError, ValueError, RuntimeError) as error:
            raise OSError(self._write_failure()) from error

    def restore(self, update_index: int, like: LearnerState) -> tuple[LearnerState, HostState]:
        """Restores a checkpoint to the shapes and shardings of `like`.

        Raises:
          CheckpointError: there is no such checkpoint, or its arrays are of another model.
        """
        if update_index not in self._manager.all_steps():
            raise CheckpointError(
                f"{self._directory} has no checkpoint of update {update_index}; "
                f"it has {sorted(self._manager.all_steps())}"
            )
        host = self._restore(update_index, host=ocp.args.JsonRestore()).host
        self._check_same_arrays(update_index, host["shapes"], like)
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, _arrays(like))
        learner = self._restore(update_index, learner=ocp.args.StandardRestore(abstract)).learner
        return LearnerState(**learner), host["state"]

    def close(self) -> None:
        """Waits for the last write and ends Orbax's threads.

        Raises:
          OSError: the last write failed.
        """
        try:
            self._manager.wait_until_finished()
        except (OSError, ValueError, RuntimeError) as error:
            raise OSError(self._write_failure()) from error
        finally:
            self._manager.close()

    def _check_space(self, state: LearnerState) -> None:
        needed = int(sum(leaf.nbytes for leaf in jax.tree.leaves(state)) * _HEADROOM)
        free = shutil.disk_usage(self._directory).free
        if free < needed:
            raise OSError(
                errno.ENOSPC,
                f"the disk is too full for a checkpoint of update {int(state.update_index)}: it "
                f"needs about {needed / 1e6:.1f} MB and {free / 1e6:.1f} MB are free. Free some "
                "space and continue with --resume=auto; earlier checkpoints are untouched",
                str(self._directory),
            )

    def _write_failure(self) -> str:
        free = shutil.disk_usage(self._directory).free
        return (
            f"writing a checkpoint to {self._directory} failed ({free / 1e6:.1f} MB are free "
            "there). Mend the disk and continue with --resume=auto; earlier checkpoints are "
            "untouched"
        )

    def _restore(self, update_index: int, **items: Any) -> Any:
        return self._manager.restore(update_index, args=ocp.args.Composite(**items))

    def _check_same_arrays(
        self, update_index: int, have: dict[str, list[int]], like: LearnerState
    ) -> None:
        want = _shapes(like)
        wrong = [
            f"{path}: {have.get(path, 'absent')} in the checkpoint, {want.get(path, 'absent')} here"
            for path in sorted(have.keys() | want.keys())
            if have.get(path) != want.get(path)
        ]
        if wrong:
            raise CheckpointError(
                f"the checkpoint of update {update_index} in {self._directory} is of another "
                "model:\n  " + "\n  ".join(wrong[:12]) + "\nUse the config that the run was "
                "started with, or another --workdir."
            )


def _arrays(state: LearnerState) -> dict[str, Any]:
    """The state as Orbax stores it: containers that name their leaves and nothing else."""
    return {
        "params": state.params,
        "opt_state": state.opt_state,
        "update_index": state.update_index,
    }


def _shapes(state: LearnerState) -> dict[str, list[int]]:
    flat, _ = jax.tree_util.tree_flatten_with_path(_arrays(state))
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): list(x.shape) for path, x in flat
    }
