"""`python -m jopd.sft --config=... --workdir=DIR`: supervised learning from expert demonstrations.

Makes cold-start students and teachers, through the same packed update as distillation; the result
is a Hugging Face directory, `DIR/model`, that every command takes as a checkpoint.
"""

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import closing

import jax.numpy as jnp

from jopd import assembly
from jopd.algorithms.distillation import supervised_loss
from jopd.command import Invocation, run_command
from jopd.evaluation.evaluator import Evaluation
from jopd.experience.batching import RowLayout, pack_demonstrations
from jopd.learner.state import LearnerState, init_state, make_optimizer
from jopd.learner.update import Updater, check_finite
from jopd.models.export import ModelCard, export_model, render_card
from jopd.panels import Task
from jopd.reporting import ProgressLine, Reporter
from jopd.rollout.demonstrations import Demonstrator
from jopd.runtime.run_directory import claim
from jopd.settings import SftSettings
from jopd.tasks import TaskStream


def main(settings: SftSettings, invocation: Invocation) -> None:
    """Prints what will run, then runs it."""
    print(json.dumps(invocation.config, indent=2))
    print("supervised loss: cross-entropy of the expert's reply, token mean, then mean over turns")
    if invocation.dry_run:
        return
    directory = claim(invocation.workdir, invocation.config, command="sft", resume="no")
    with closing(directory):
        evaluation = learn_from_expert(settings, invocation)
    print(
        f"success rate {100 * evaluation.success_rate:.1f} % on {evaluation.num_tasks} "
        f"held-out tasks; the model is in {invocation.workdir / 'model'}"
    )


def learn_from_expert(settings: SftSettings, invocation: Invocation) -> Evaluation:
    """Learns, writes the model, and evaluates it.

    Raises:
      ValueError: settings do not fit each other or the environment.
    """
    workdir = invocation.workdir
    stage = assembly.open_stage(settings, workdir)
    print(stage.conditions)
    meshes = assembly.make_meshes(settings.devices)
    student = assembly.open_model(settings.student, stage, name="student")
    optimizer = make_optimizer(settings.optimizer)
    state = init_state(student.load(meshes.learner, jnp.dtype("float32")), optimizer)
    updater = Updater(
        student.config, optimizer, supervised_loss, settings.learner, mesh=meshes.learner
    )
    demonstrator = make_demonstrator(settings, stage, student)
    reporter = Reporter(workdir, settings.reporting)
    examiner = Examiner(student, state, stage, meshes, settings)
    with closing(reporter), closing(examiner):
        state = run_updates(state, updater, demonstrator, settings, reporter, examiner)
        card = make_card(settings, invocation)
        export_model(
            state.params,
            student.config,
            student.directory,
            workdir / "model",
            card,
            base_dir=student.directory,
        )
        evaluation = examiner.evaluate(state)
    rates = {settings.env.domain: 100 * evaluation.success_rate}
    card = dataclasses.replace(card, success_rates=rates)
    (workdir / "model" / "README.md").write_text(render_card(card), encoding="utf-8")
    return evaluation


class Examiner:
    """Evaluates the model while it learns, with one engine.

    Attributes:
      success_rate: of the last evaluation, or None before it.
    """

    def __init__(
        self,
        student: assembly.ModelFiles,
        state: LearnerState,
        stage: assembly.Stage,
        meshes: assembly.Meshes,
        settings: SftSettings,
    ):
        self.success_rate: float | None = None
        self._weights, self._engine = assembly.start_student(
            student, state, settings.engine, meshes.engine
        )
        self._evaluator = stage.make_evaluator("student", student, self._engine)

    def evaluate(self, state: LearnerState) -> Evaluation:
        """Success rate of the present weights on the eval panel."""
        version = int(state.update_index)
        if version > self._weights.latest().version:
            self._weights.publish(state.params, version=version)
        evaluation = self._evaluator.run(policy_version=version)
        self.success_rate = evaluation.success_rate
        return evaluation

    def close(self) -> None:
        """Ends the engine."""
        self._engine.close()


def make_demonstrator(
    settings: SftSettings, stage: assembly.Stage, student: assembly.ModelFiles
) -> Demonstrator:
    """Demonstrations on the training panel, in the panel's seeded order."""
    return Demonstrator(
        tasks=endless(TaskStream(stage.env.load_panel("train"), seed=settings.runtime.seed)),
        simulator=stage.env.make_simulator(),
        tokenizer=student.tokenizer,
        style=stage.style,
        limits=settings.rollout,
        settings=settings.demonstrations,
        seed=settings.runtime.seed,
    )


def endless(stream: TaskStream) -> Iterator[Task]:
    """The tasks of a stream, each consumed as it is given."""
    while True:
        issued = stream.next_task()
        stream.mark_consumed(issued.number)
        yield issued.task


def run_updates(
    state: LearnerState,
    updater: Updater,
    demonstrator: Demonstrator,
    settings: SftSettings,
    reporter: Reporter,
    examiner: Examiner,
) -> LearnerState:
    """Applies `num_updates` updates, with an evaluation after every `evaluation.interval`."""
    layout = RowLayout.for_batch(
        settings.demonstrations.batch_size,
        rows_per_micro_batch=settings.learner.rows_per_micro_batch,
        row_length=settings.learner.row_length,
    )
    last = settings.runtime.num_updates
    for q in range(last):
        started = time.monotonic()
        turns = demonstrator.next_batch()
        packed = pack_demonstrations(turns, layout, reduction="seq-mean-token-mean")
        state, result = updater(state, packed.batch, packed.used_micro_batches)
        check_finite(result, update_index=q, rollout_ids=[turn.rollout_id for turn in turns])
        speed = packed.real_tokens / (time.monotonic() - started)
        metrics = {
            "loss/supervised": float(result.loss),
            "loss/grad_norm": float(result.grad_norm),
            "batch/packing_fill": packed.fill,
            "time/trained_tokens_per_s": speed,
        }
        is_due = (q + 1) % settings.evaluation.interval == 0 and q + 1 < last
        evaluated = examiner.evaluate(state).metrics() if is_due else {}
        reporter.write(q + 1, metrics | evaluated)
        line = ProgressLine(
            phase="learn from the expert",
            update_index=q + 1,
            num_updates=last,
            success_rate=examiner.success_rate,
            details=(f"loss {metrics['loss/supervised']:.3f}", f"{speed:,.0f} tok/s"),
        )
        reporter.terminal.show(line, keep=is_due)
    return state


def make_card(settings: SftSettings, invocation: Invocation) -> ModelCard:
    """The model card before the evaluation."""
    name = invocation.workdir.name
    return ModelCard(
        name=name,
        base_model=settings.student.checkpoint or "random weights",
        teachers=("the environment's expert",),
        method="supervised learning from demonstrations",
        update=settings.runtime.num_updates,
        success_rates={},
        command=f"python -m jopd.sft {invocation.recipe} --workdir={name}",
    )


if __name__ == "__main__":
    run_command(SftSettings, main)
