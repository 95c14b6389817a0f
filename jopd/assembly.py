"""Builds the parts of a run from its settings: models, engine, scorer, environments, players."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
from jax.sharding import Mesh

from jopd.engines.base import Engine, Scorer
from jopd.engines.factory import make_engine, make_scorer
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.engines.teacher_scorer import ScorerSettings
from jopd.models.architectures import DecoderConfig
from jopd.models.checkpoints import load_config, load_params
from jopd.models.decoder import abstract_params
from jopd.models.source import ModelSettings, checkpoint_directory
from jopd.models.tokenizer import Tokenizer, check_compatible
from jopd.parallel import DeviceSplit, make_mesh, param_shardings, reshard, split_devices
from jopd.rollout.prompts import PromptSettings, load_style
from jopd.rollout.runner import Player, RolloutSettings
from jopd.settings import DeviceSettings
from jopd.types import Params, WeightSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Meshes:
    """The devices of the three programs of a run."""

    learner: Mesh
    engine: Mesh
    teacher: Mesh


def make_meshes(settings: DeviceSettings) -> Meshes:
    """Splits this host's devices; see `DeviceSettings`."""
    split: DeviceSplit = split_devices(
        jax.local_devices(),
        learner=settings.learner,
        engine=settings.engine,
        teacher=settings.teacher,
    )
    return Meshes(
        learner=_mesh(split.learner, settings.learner_tensor, "learner"),
        engine=_mesh(split.engine, settings.engine_tensor, "engine"),
        teacher=_mesh(split.teacher, settings.teacher_tensor, "teacher"),
    )


def _mesh(devices: Sequence[jax.Device], tensor: int, name: str) -> Mesh:
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


def open_model(settings: ModelSettings, scratch_directory: Path) -> ModelFiles:
    """Finds a model and reads all of it but the weights."""
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


def start_scorer(
    teacher: ModelFiles, student: ModelFiles, settings: ScorerSettings, mesh: Mesh
) -> Scorer:
    """Starts the frozen teacher; ids that it does not share with the student are masked."""
    vocabulary = check_compatible(student.tokenizer, teacher.tokenizer)
    params = teacher.load(mesh, jnp.dtype(settings.compute_dtype))
    return make_scorer(settings, teacher.config, params, known_ids=vocabulary.known_ids, mesh=mesh)


def make_player(
    engine: Engine,
    scorer: Scorer | None,
    tokenizer: Tokenizer,
    *,
    prompt: PromptSettings,
    rollout: RolloutSettings,
    temperature: float,
) -> Player:
    """What rollouts share, sampling at the given temperature."""
    return Player(
        engine=engine,
        scorer=scorer,
        tokenizer=tokenizer,
        style=load_style(prompt),
        settings=dataclasses.replace(rollout, temperature=temperature),
    )
