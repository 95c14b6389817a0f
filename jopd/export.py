"""`python -m jopd.export --run=RUN --out=DIR [--update=N]`: a trained student for Hugging Face."""

import sys
from collections.abc import Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
from absl import app, flags

from jopd.models.checkpoints import CheckpointError
from jopd.models.export import ModelCard, export_model
from jopd.parallel import make_mesh
from jopd.trained import TrainedStudent, load_trained_student

_RUN = flags.DEFINE_string("run", None, "Run directory of jopd.train.")
_UPDATE = flags.DEFINE_integer("update", None, "Which checkpoint; the newest if not given.")
_OUT = flags.DEFINE_string("out", None, "Directory to write; must not exist or be empty.")
_DTYPE = flags.DEFINE_enum("dtype", "bfloat16", ["bfloat16", "float32"], "Type in the files.")


def main(_: Sequence[str]) -> None:
    """Exports the student of a run."""
    run, out = Path(_RUN.value or ""), Path(_OUT.value or "")
    mesh = make_mesh(jax.local_devices()[:1], {"fsdp": 1, "tensor": 1})
    try:
        trained = load_trained_student(run, mesh=mesh, update=_UPDATE.value)
        export_trained(trained, run, out)
    except CheckpointError as error:
        sys.exit(f"CheckpointError: {error}")
    print(f"the student after {trained.update_index} updates is in {out}")


def export_trained(trained: TrainedStudent, run: Path, out: Path) -> None:
    """Writes a trained student with a card that says where it comes from."""
    settings, model = trained.settings, trained.model
    rates = [rate for update, rate in trained.points if update == trained.update_index]
    card = ModelCard(
        name=out.name,
        base_model=settings.student.checkpoint or "random weights",
        teachers=(settings.teacher.checkpoint or "random weights",),
        method=f"asynchronous on-policy distillation with {settings.composer.composer} batches",
        update=trained.update_index,
        success_rates={settings.env.domain: 100 * rates[-1]} if rates else {},
        command=f"python -m jopd.train --config=... --workdir={run.name}",
    )
    export_model(
        trained.params,
        model.config,
        model.directory,
        out,
        card,
        base_dir=model.directory,
        dtype=jnp.dtype(_DTYPE.value),
    )


if __name__ == "__main__":
    flags.mark_flags_as_required(["run", "out"])
    app.run(main)
