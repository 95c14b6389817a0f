"""Wires the parts of one training run together; `jopd.train` has the loop that uses them."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp

from jopd import assembly
from jopd.algorithms.distillation import weighted_opd_loss
from jopd.customer import Customer, open_customer
from jopd.engines.base import Engine, Scorer
from jopd.evaluation.evaluator import Evaluator
from jopd.evaluation.progress import RunProgress
from jopd.evaluation.summary import RunSummary
from jopd.experience.batching import RowLayout
from jopd.learner.checkpoint import Checkpointer
from jopd.learner.state import LearnerState, init_state, make_optimizer
from jopd.learner.update import Updater
from jopd.reporting import ProgressLine, Reporter
from jopd.runtime.crew import Closable
from jopd.runtime.explorer import Explorer
from jopd.runtime.stream import ExperienceStream
from jopd.runtime.weights import WeightStore
from jopd.settings import SettingsError, TrainSettings
from jopd.types import Params, WeightSnapshot


@dataclass(slots=True, kw_only=True)
class TrainingParts:
    """The parts of a run; `state` and `update_index` move on together.

    Attributes:
      settings: of the run.
      state: the learner's.
      update_index: updates applied.
      updater: applies one.
      layout: shape of packed batches.
      stream: from explorers to the learner.
      explorer: plays tasks.
      weights: back from the learner to the engine.
      engine: the student's.
      scorer: the teacher's.
      customer: engine of the model that plays tau2-bench's customer, or None.
      evaluator: of the student.
      progress: how far the run has come.
      checkpointer: of the run.
      reporter: where numbers go.
    """

    settings: TrainSettings
    state: LearnerState
    update_index: int
    updater: Updater
    layout: RowLayout
    stream: ExperienceStream
    explorer: Explorer
    weights: WeightStore
    engine: Engine
    scorer: Scorer
    customer: Engine | None
    evaluator: Evaluator
    progress: RunProgress
    checkpointer: Checkpointer
    reporter: Reporter

    @property
    def closables(self) -> tuple[Closable, ...]:
        """What a failure anywhere must wake."""
        return (self.stream.queue, *(_Closing(model.close) for model in self._models))

    @property
    def _models(self) -> tuple[Engine | Scorer, ...]:
        """What runs a model on threads of its own."""
        customers = () if self.customer is None else (self.customer,)
        return (self.engine, self.scorer, *customers)

    def applied_update(self) -> None:
        """Counts an update."""
        self.update_index += 1
        self.stream.delivery.update_index = self.update_index

    def counts(self) -> dict[str, float]:
        """Counts of the stream and of what runs a model, for the log."""
        engine, scorer = self.engine.counts, self.scorer.counts
        prompt_tokens = engine.prefilled_tokens + engine.reused_tokens
        return {
            **self.stream.metrics(),
            "explore/generated_tokens": float(engine.generated_tokens),
            "explore/reused_share": engine.reused_tokens / max(prompt_tokens, 1),
            "teacher/scored_tokens": float(scorer.scored_tokens),
            "teacher/masked_tokens": float(scorer.masked_tokens),
            **_customer_counts(self.customer),
        }

    def report(self, update_index: int, metrics: Mapping[str, float]) -> None:
        """Writes the numbers of an update and shows its line."""
        self.reporter.write(update_index, metrics)
        self.show(
            "train",
            f"gap {metrics['kl/per_token']:.3f}",
            f"rollouts/batch {metrics['batch/effective_rollouts']:.1f}",
            f"queue {metrics['queue/turns']:.0f}+{metrics['queue/pending_turns']:.0f}",
            f"lag {metrics['lag/mean']:.2f}",
            f"{metrics['time/trained_tokens_per_s']:,.0f} tok/s",
        )

    def show(self, phase: str, *details: str, keep: bool = False) -> None:
        """Shows one line of progress."""
        line = ProgressLine(
            phase=phase,
            update_index=self.update_index,
            num_updates=self.settings.runtime.num_updates,
            success_rate=self.progress.success_rate,
            details=details,
        )
        self.reporter.terminal.show(line, keep=keep)

    def save(self) -> None:
        """Starts a checkpoint of everything, unless this update has one."""
        if self.checkpointer.latest() != self.update_index:
            host = {"stream": self.stream.state(), "progress": self.progress.state()}
            self.checkpointer.save(self.state, host)

    def summary(self) -> RunSummary:
        """What the run has come to."""
        return self.progress.summary(
            eval_episodes=self.settings.evaluation.episodes,
            updates=self.update_index,
            composer=self.settings.composer.composer,
            seed=self.settings.runtime.seed,
        )

    def close(self) -> None:
        """Ends threads, finishes the last checkpoint, closes files."""
        for model in self._models:
            model.close()
        self.stream.close()
        self.reporter.close()
        self.checkpointer.close()


def _customer_counts(engine: Engine | None) -> dict[str, float]:
    if engine is None:
        return {}
    return {"explore/customer_tokens": float(engine.counts.generated_tokens)}


@dataclass(frozen=True, slots=True)
class _Closing:
    """A Closable around something that needs no error."""

    function: Callable[[], None]

    def close(self, error: BaseException | None = None) -> None:
        """Closes it."""
        del error
        self.function()


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a run is about, before anything is learned.

    Attributes:
      settings: of the run.
      stage: environment, prompts and limits.
      meshes: devices of learner, engine and teacher.
      student: files of the initial student.
      teacher: files of the teacher.
      customer: the model that plays tau2-bench's customer, or None.
    """

    settings: TrainSettings
    stage: assembly.Stage
    meshes: assembly.Meshes
    student: assembly.ModelFiles
    teacher: assembly.ModelFiles
    customer: Customer | None


def assemble_training(settings: TrainSettings, workdir: Path) -> TrainingParts:
    """Builds the parts of a run, at its newest checkpoint if it has one; evaluates the teacher.

    Raises:
      CheckpointError: a model or the checkpoint is missing, damaged or of another architecture.
      ValueError: settings do not fit each other or the environment.
    """
    check_settings(settings)
    world = open_world(settings, workdir)
    show_prompt(world.stage, world.student)
    if world.customer is not None:
        print("the customer's words in it are the scripted one's; a model says them in the run")
    optimizer = make_optimizer(settings.optimizer)
    state = init_state(world.student.load(world.meshes.learner, jnp.dtype("float32")), optimizer)
    stream = ExperienceStream(
        world.stage.env.load_panel("train"),
        queue=settings.queue,
        composer=settings.composer,
        directory=workdir / "turns",
        seed=settings.runtime.seed,
    )
    progress = RunProgress()
    checkpointer = Checkpointer(workdir / "checkpoints", keep=settings.checkpoint.keep)
    state = resume(state, stream, progress, checkpointer)
    reporter = Reporter(workdir, settings.reporting, resume_at=int(state.update_index))
    teacher_params = world.teacher.load(
        world.meshes.teacher, jnp.dtype(settings.scorer.compute_dtype)
    )
    world, customer = start_customer(world, teacher_params)
    if progress.teacher_success_rate is None:
        progress.teacher_success_rate = evaluate_teacher(world, teacher_params, reporter)
    weights, engine = assembly.start_student(
        world.student, state, settings.engine, world.meshes.engine
    )
    scorer = assembly.start_scorer(
        world.teacher, teacher_params, world.student, settings.scorer, world.meshes.teacher
    )
    player = world.stage.make_player(
        world.student, engine, scorer=scorer, temperature=settings.rollout.temperature
    )
    return TrainingParts(
        settings=settings,
        state=state,
        update_index=int(state.update_index),
        updater=Updater(
            world.student.config,
            optimizer,
            functools.partial(weighted_opd_loss, distill_coef=settings.loss.distill_coef),
            settings.learner,
            mesh=world.meshes.learner,
        ),
        layout=RowLayout.for_batch(
            settings.composer.batch_size,
            rows_per_micro_batch=settings.learner.rows_per_micro_batch,
            row_length=settings.learner.row_length,
        ),
        stream=stream,
        explorer=Explorer(
            tasks=stream.tasks,
            make_env=world.stage.make_env,
            player=player,
            deliver=stream.delivery,
            settings=settings.explorer,
            seed=settings.runtime.seed,
        ),
        weights=weights,
        engine=engine,
        scorer=scorer,
        customer=customer,
        evaluator=world.stage.make_evaluator("student", world.student, engine),
        progress=progress,
        checkpointer=checkpointer,
        reporter=reporter,
    )


def check_settings(settings: TrainSettings) -> None:
    """Refuses settings of different parts that do not fit each other.

    Raises:
      SettingsError: naming both.
    """
    longest = settings.rollout.max_prompt_tokens + settings.rollout.max_response_tokens
    rules = (
        (
            longest <= settings.learner.row_length,
            f"learner.row_length must hold the longest turn, {longest} tokens",
        ),
        (
            longest <= settings.engine.max_context,
            f"engine.max_context must hold the longest turn, {longest} tokens",
        ),
        (
            settings.rollout.max_prompt_tokens <= settings.engine.max_prompt,
            "engine.max_prompt must be at least rollout.max_prompt_tokens",
        ),
        (
            longest <= settings.scorer.max_context,
            f"scorer.max_context must hold the longest turn, {longest} tokens",
        ),
        (
            settings.checkpoint.interval % settings.runtime.sync_interval == 0,
            "checkpoint.interval must be a multiple of runtime.sync_interval, so that a resumed "
            "run goes on with the published weights",
        ),
    )
    problems = [message for holds, message in rules if not holds]
    if problems:
        raise SettingsError("the config is not usable:\n  " + "\n  ".join(problems))


def open_world(settings: TrainSettings, workdir: Path) -> World:
    """Opens environment, prompt style, devices and model files."""
    stage = assembly.open_stage(settings, workdir)
    print(stage.conditions)
    return World(
        settings=settings,
        stage=stage,
        meshes=assembly.make_meshes(settings.devices),
        student=assembly.open_model(settings.student, stage, name="student"),
        teacher=assembly.open_model(settings.teacher, stage, name="teacher"),
        customer=open_customer(settings, stage),
    )


def start_customer(world: World, teacher_params: Params) -> tuple[World, Engine | None]:
    """Starts the model that plays the customer, if one does, and gives the world with it."""
    customer, mesh = world.customer, world.meshes.teacher
    if customer is None:
        return world, None
    params = teacher_params if customer.settings.is_teacher else customer.load(mesh)
    engine = customer.start(params, mesh)
    return dataclasses.replace(world, stage=customer.join(world.stage, engine)), engine


def show_prompt(stage: assembly.Stage, student: assembly.ModelFiles) -> None:
    """Prints the first prompt as the student sees it, and keeps it as `prompt.txt` of the run."""
    prompt = stage.first_prompt(student)
    print(prompt.framed())
    (stage.workdir / "prompt.txt").write_bytes(prompt.text.encode())


def resume(
    state: LearnerState,
    stream: ExperienceStream,
    progress: RunProgress,
    checkpointer: Checkpointer,
) -> LearnerState:
    """Restores the newest checkpoint into the parts, or forgets a try that left none."""
    newest = checkpointer.latest()
    if newest is None:
        stream.restart()
        return state
    state, host = checkpointer.restore(newest, state)
    stream.restore(host["stream"], version=newest)
    progress.restore(host["progress"])
    return state


def evaluate_teacher(world: World, params: Params, reporter: Reporter) -> float:
    """Success rate of the teacher, through the student's own pipeline."""
    snapshot = WeightSnapshot(params=params, version=0)
    engine = assembly.start_engine(
        world.teacher, snapshot, world.settings.engine, world.meshes.teacher
    )
    with closing(engine):
        evaluation = world.stage.make_evaluator("teacher", world.teacher, engine).run(
            policy_version=0
        )
    reporter.terminal.say(f"teacher success rate {100 * evaluation.success_rate:.1f} %")
    return evaluation.success_rate
