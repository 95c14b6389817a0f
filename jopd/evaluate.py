"""`python -m jopd.evaluate --config=... --workdir=DIR [--run=RUN [--update=N]]`: one evaluation.

Evaluates the config's student on the eval panel, or, with --run, the student of a training run's
checkpoint. Records and a summary go to DIR.
"""

import json
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import jax.numpy as jnp
from absl import flags

from jopd import assembly
from jopd.command import Invocation, run_command
from jopd.customer import customer_at_work, open_customer
from jopd.evaluation.evaluator import Evaluation
from jopd.reporting import Terminal
from jopd.runtime.run_directory import claim
from jopd.settings import TrainSettings
from jopd.trained import load_trained_student
from jopd.types import WeightSnapshot

_RUN = flags.DEFINE_string("run", None, "Evaluate the student of this run of jopd.train.")
_UPDATE = flags.DEFINE_integer(
    "update", None, "Which checkpoint of --run; the newest if not given."
)


def main(settings: TrainSettings, invocation: Invocation) -> None:
    """Evaluates and prints the success rate with its interval."""
    print(json.dumps(asdict(settings.evaluation), indent=2))
    if invocation.dry_run:
        return
    directory = claim(invocation.workdir, invocation.config, command="evaluate", resume="no")
    with closing(directory):
        evaluation = evaluate(settings, invocation.workdir)
    metrics = evaluation.metrics()
    (invocation.workdir / "summary.json").write_text(json.dumps(metrics, indent=2) + "\n")
    print(
        f"success rate {100 * evaluation.success_rate:.1f} % (95 % interval "
        f"{100 * metrics['eval/success_low']:.1f} to {100 * metrics['eval/success_high']:.1f}) on "
        f"{evaluation.num_tasks} tasks, version {evaluation.policy_version}"
    )


def evaluate(settings: TrainSettings, workdir: Path) -> Evaluation:
    """Plays the eval panel with the student that flags and settings name."""
    stage = assembly.open_stage(settings, workdir)
    print(stage.conditions)
    meshes = assembly.make_meshes(settings.devices)
    mesh = meshes.engine
    dtype = jnp.dtype(settings.engine.compute_dtype)
    if _RUN.value is None:
        model = assembly.open_model(settings.student, stage, name="student")
        snapshot = WeightSnapshot(params=model.load(mesh, dtype), version=0)
    else:
        trained = load_trained_student(Path(_RUN.value), mesh=mesh, update=_UPDATE.value)
        model = trained.model
        params = assembly.to_engine(model.config, mesh, settings.engine.compute_dtype)(
            trained.params
        )
        snapshot = WeightSnapshot(params=params, version=trained.update_index)
    terminal = Terminal(interval_s=settings.reporting.progress_interval_s)
    customer = open_customer(settings, stage)
    with (
        customer_at_work(customer, stage, meshes.teacher) as played,
        closing(assembly.start_engine(model, snapshot, settings.engine, mesh)) as engine,
    ):
        return played.make_evaluator("student", model, engine).run(
            policy_version=snapshot.version,
            on_progress=lambda done, of: terminal.show_text(f"evaluate {done}/{of}"),
        )


if __name__ == "__main__":
    run_command(TrainSettings, main)
