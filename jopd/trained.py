"""A student out of a run directory: its newest (or a named) checkpoint with what is known of it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jax.sharding import Mesh

from jopd import assembly
from jopd.learner.checkpoint import Checkpointer
from jopd.learner.state import init_state, make_optimizer
from jopd.models.checkpoints import CheckpointError
from jopd.settings import TrainSettings, build
from jopd.types import Params


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedStudent:
    """A student as a checkpoint of a run holds it.

    Attributes:
      settings: of the run.
      model: files of the student that the run began with.
      params: float32 weights.
      update_index: updates they contain.
      points: [update, success rate] of every evaluation until then.
    """

    settings: TrainSettings
    model: assembly.ModelFiles
    params: Params
    update_index: int
    points: list[Any]


def read_run_settings(run: Path) -> TrainSettings:
    """Settings of a training run, from its stored config.

    Raises:
      CheckpointError: the directory holds no training run.
    """
    stored = run / "config.json"
    if not stored.is_file():
        raise CheckpointError(
            f"{run} is no run directory: it has no config.json; give the --workdir of jopd.train"
        )
    config = json.loads(stored.read_text(encoding="utf-8"))
    if config.pop("command", None) != "train":
        raise CheckpointError(f"{run} holds no run of jopd.train; give the --workdir of one")
    return build(TrainSettings, config)


def load_trained_student(run: Path, *, mesh: Mesh, update: int | None = None) -> TrainedStudent:
    """Restores the student of a run.

    Args:
      run: the run directory.
      mesh: where the weights go.
      update: which checkpoint; None for the newest.

    Raises:
      CheckpointError: there is no run or no such checkpoint.
    """
    settings = read_run_settings(run)
    stage = assembly.open_stage(settings, run)
    model = assembly.open_model(settings.student, stage, name="student")
    like = init_state(model.load(mesh, jnp.dtype("float32")), make_optimizer(settings.optimizer))
    checkpointer = Checkpointer(run / "checkpoints", keep=settings.checkpoint.keep)
    wanted = checkpointer.latest() if update is None else update
    if wanted is None:
        raise CheckpointError(f"{run} has no checkpoint yet")
    state, host = checkpointer.restore(wanted, like)
    checkpointer.close()
    return TrainedStudent(
        settings=settings,
        model=model,
        params=state.params,
        update_index=wanted,
        points=host["progress"]["points"],
    )
