"""Builds the parts of a run from its settings: models, engine, scorer, environments, players."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from jopd.engines.base import Engine, Scorer
from jopd.engines.factory import make_engine, make_scorer
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.engines.teacher_scorer import ScorerSettings
from jopd.envs.base import Env, closing_simulator
from jopd.envs.factory import OpenEnvironment, open_environment
from jopd.envs.tau2.settings import Tau2Settings
from jopd.evaluation.evaluator import EvaluationSettings, Evaluator
from jopd.learner.state import LearnerState
from jopd.models.architectures import DecoderConfig
from jopd.models.checkpoints import load_config, load_params
from jopd.models.decoder import abstract_params
from jopd.models.source import ModelSettings, checkpoint_directory, make_scratch_model
from jopd.models.tokenizer import Tokenizer, check_compatible
from jopd.parallel import Device, DeviceSplit, make_mesh, param_shardings, reshard, split_devices
from jopd.rollout.demonstrations import shown_texts
from jopd.rollout.prompt_style import PromptStyle, load_style
from jopd.rollout.prompts import make_chat
from jopd.rollout.runner import Player, RolloutSettings
from jopd.runtime.weights import WeightStore
from jopd.settings import DeviceSettings, SftSettings, TrainSettings
from jopd.types import HostInts, Params, WeightSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Meshes:
    """The devices of the three programs of a run."""

    learner: Mesh
    engine: Mesh
    teacher: Mesh


def make_meshes(settings: DeviceSettings) -> Meshes:
    """Splits this host's devices; see `DeviceSettings`."""
    devices = jax.local_devices()
    split: DeviceSplit = split_devices(
        devices,
        learner=settings.learner or len(devices) - settings.engine - settings.teacher,
        engine=settings.engine,
        teacher=settings.teacher,
    )
    return Meshes(
        learner=_mesh(split.learner, settings.learner_tensor, "learner"),
        engine=_mesh(split.engine, settings.engine_tensor, "engine"),
        teacher=_mesh(split.teacher, settings.teacher_tensor, "teacher"),
    )


def _mesh(devices: Sequence[Device], tensor: int, name: str) -> Mesh:
    if len(devices) % tensor:
        raise ValueError(
            f"devices.{name}_tensor is {tensor}, which does not divide its {len(devices)} devices"
        )
    return make_mesh(devices, {"fsdp": len(devices) // tensor, "tensor": tensor})


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """A model on disk.

    Attributes:
      directory: its Hugging Face directory.
      config: its architecture.
      tokenizer: its tokenizer.
    """

    directory: Path
    config: DecoderConfig
    tokenizer: Tokenizer

    def load(self, mesh: Mesh, dtype: jnp.dtype) -> Params:
        """Reads the weights straight to their places on the mesh."""
        shardings = param_shardings(abstract_params(self.config), mesh)
        return load_params(self.directory, self.config, shardings, dtype)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedPrompt:
    """What a model is shown.

    Attributes:
      tokens: its ids, through the model's chat template.
      text: the same ids as text, special tokens included.
    """

    tokens: HostInts
    text: str

    def framed(self) -> str:
        """The text between two lines that tell where it begins and ends."""
        return f"--- the first prompt, {len(self.tokens):,} tokens ---\n{self.text}\n---"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where models play: environment, prompts, limits and the evaluation panel.

    Attributes:
      env: the environment, its data loaded.
      style: how turns are shown and replies read.
      rollout: limits of a rollout.
      evaluation: how models are evaluated.
      conditions: what a success rate depends on beside the model, in words.
      workdir: where evaluations and models from scratch are written.
    """

    env: OpenEnvironment
    style: PromptStyle
    rollout: RolloutSettings
    evaluation: EvaluationSettings
    conditions: str
    workdir: Path

    def make_env(self) -> Env:
        """One more environment."""
        return self.env.make_env()

    def words(self) -> Iterator[str]:
        """Texts whose words a model from scratch should know."""
        tasks = self.env.load_panel("train").tasks[: self.env.vocabulary_tasks]
        walks = self.env.vocabulary_walks
        return shown_texts(tasks, self.env.make_simulator(), self.style, walks=walks)

    def first_prompt(self, model: ModelFiles) -> RenderedPrompt:
        """The first prompt of the first evaluated task; starts a simulator for it.

        Where the environment has a customer, the words in it are the scripted one's.
        """
        task = self.env.load_panel("eval").tasks[0]
        with closing_simulator(self.env.make_simulator()) as simulator:
            chat = make_chat(self.style, [], simulator.reset(task))
        tokens = model.tokenizer.render_chat(chat.messages, tools=chat.tools)
        return RenderedPrompt(
            tokens=tokens, text=model.tokenizer.decode(tokens, skip_special=False)
        )

    def make_player(
        self, model: ModelFiles, engine: Engine, *, scorer: Scorer | None, temperature: float
    ) -> Player:
        """What rollouts share, sampling at the given temperature."""
        return Player(
            engine=engine,
            scorer=scorer,
            tokenizer=model.tokenizer,
            style=self.style,
            settings=dataclasses.replace(self.rollout, temperature=temperature),
        )

    def make_evaluator(self, name: str, model: ModelFiles, engine: Engine) -> Evaluator:
        """An evaluator, on the eval panel, of the model that the engine runs."""
        directory = self.workdir / "evaluations"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "conditions.txt").write_text(self.conditions + "\n", encoding="utf-8")
        return Evaluator(
            name=name,
            tasks=self.env.load_panel("eval").tasks,
            make_env=self.make_env,
            player=self.make_player(
                model, engine, scorer=None, temperature=self.evaluation.temperature
            ),
            settings=self.evaluation,
            directory=directory,
        )


def open_stage(settings: TrainSettings | SftSettings, workdir: Path) -> Stage:
    """Loads the environment's data and the prompt style."""
    return set_stage(open_environment(settings.env), settings, workdir)


def set_stage(
    opened: OpenEnvironment, settings: TrainSettings | SftSettings, workdir: Path
) -> Stage:
    """The stage around an open environment."""
    return Stage(
        env=opened,
        style=load_style(settings.prompt),
        rollout=settings.rollout,
        evaluation=settings.evaluation,
        conditions=describe_conditions(opened, settings),
        workdir=workdir,
    )


def describe_conditions(opened: OpenEnvironment, settings: TrainSettings | SftSettings) -> str:
    """What must agree before two success rates are compared."""
    panel, evaluation = opened.load_panel("eval"), settings.evaluation
    prompt, temperature = settings.prompt, evaluation.temperature
    told = [
        f"panel: the first {evaluation.episodes} of {len(panel.tasks)} tasks of {panel.name}, "
        f"sha256 {panel.sha256[:16]}",
        f"environment: {settings.env}",
        f"prompts: {prompt.template_file or prompt.style}",
        f"horizon: {settings.rollout.horizon} turns; temperature: {temperature:g}",
        f"success: {opened.success_rule}",
    ]
    if isinstance(settings.env, Tau2Settings):
        told.append(f"customer: {_describe_customer(settings)}")
    return "success rates below compare only with those of the same\n  " + "\n  ".join(told)


def _describe_customer(settings: TrainSettings | SftSettings) -> str:
    if not isinstance(settings, TrainSettings) or settings.customer is None:
        return "follows a script"
    customer, whose = settings.customer, ""
    source = settings.teacher if customer.is_teacher else customer.model
    if customer.is_teacher:
        whose = "the teacher, "
    return (
        f"{whose}{source.checkpoint or 'a model from scratch'}; temperature: "
        f"{customer.temperature:g}; messages: at most {customer.max_message_tokens} tokens"
    )


def open_model(settings: ModelSettings, stage: Stage, *, name: str) -> ModelFiles:
    """Finds a model, or makes one from scratch, and reads all of it but the weights.

    Args:
      settings: where it comes from.
      stage: gives the words of a model from scratch, and the directory to make it in.
      name: of that directory.
    """
    scratch_directory = stage.workdir / "scratch" / name
    if settings.scratch is not None and not scratch_directory.exists():
        make_scratch_model(settings.scratch, stage.words(), scratch_directory)
    directory = checkpoint_directory(settings, scratch_directory)
    return ModelFiles(
        directory=directory,
        config=load_config(directory),
        tokenizer=Tokenizer.load(directory),
    )


def to_engine(config: DecoderConfig, mesh: Mesh, dtype: str) -> Callable[[Params], Params]:
    """Copies the learner's params to the engine's devices and type; see `parallel.reshard`."""
    shardings = param_shardings(abstract_params(config), mesh)
    return lambda params: reshard(params, shardings, jnp.dtype(dtype))


def start_engine(
    model: ModelFiles, snapshot: WeightSnapshot, settings: JetStreamSettings, mesh: Mesh
) -> Engine:
    """Starts the student's engine; ids past the tokenizer's are never sampled."""
    real = dataclasses.replace(settings, real_vocab_size=len(model.tokenizer.token_ids))
    return make_engine(real, model.config, snapshot, mesh=mesh)


def start_student(
    model: ModelFiles, state: LearnerState, settings: JetStreamSettings, mesh: Mesh
) -> tuple[WeightStore, Engine]:
    """Starts the student's engine at the learner's weights, and the store that it follows."""
    move = to_engine(model.config, mesh, settings.compute_dtype)
    snapshot = WeightSnapshot(params=move(state.params), version=int(state.update_index))
    engine = start_engine(model, snapshot, settings, mesh)
    return WeightStore(snapshot, to_engine=move, subscribers=(engine.publish,)), engine


def start_scorer(
    teacher: ModelFiles,
    params: Params,
    student: ModelFiles,
    settings: ScorerSettings,
    mesh: Mesh,
) -> Scorer:
    """Starts the frozen teacher; ids that it does not share with the student are masked."""
    vocabulary = check_compatible(student.tokenizer, teacher.tokenizer)
    return make_scorer(settings, teacher.config, params, known_ids=vocabulary.known_ids, mesh=mesh)
