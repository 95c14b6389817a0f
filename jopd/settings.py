"""From a ConfigDict to frozen settings, in one place; unknown and missing keys are errors."""

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ml_collections import ConfigDict

from jopd.algorithms.distillation import DistillationSettings
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.engines.teacher_scorer import ScorerSettings
from jopd.envs.factory import EnvSettings
from jopd.envs.tau2.settings import Tau2Settings
from jopd.evaluation.evaluator import EvaluationSettings
from jopd.experience.queue import QueueSettings
from jopd.experience.reader import ComposerSettings
from jopd.learner.checkpoint import CheckpointSettings
from jopd.learner.state import OptimizerSettings
from jopd.learner.update import UpdateSettings
from jopd.models.source import ModelSettings
from jopd.reporting import ReportingSettings
from jopd.rollout.demonstrations import DemonstrationSettings
from jopd.rollout.prompt_style import PromptSettings
from jopd.rollout.runner import RolloutSettings
from jopd.runtime.explorer import ExplorerSettings

S = TypeVar("S")
_TEACHER = "teacher"


class SettingsError(ValueError):
    """A config does not say what the settings need; lists everything that is wrong."""


def build(settings_type: type[S], config: ConfigDict | Mapping[str, Any]) -> S:
    """Builds frozen settings from a config.

    Args:
      settings_type: a dataclass; fields may be dataclasses, optional dataclasses, tuples, literals
        and plain values. Fields whose metadata says "derived" are filled in by code.
      config: must have exactly the dataclass's other fields, all the way down.

    Raises:
      SettingsError: keys are unknown, missing or of another type; all are listed at once.
    """
    problems: list[str] = []
    values = _values(settings_type, _as_mapping(config), "config", problems)
    if problems:
        raise SettingsError("the config is not usable:\n  " + "\n  ".join(problems))
    return values


def _values(settings_type: Any, config: Mapping[str, Any], path: str, problems: list[str]) -> Any:
    hints = typing.get_type_hints(settings_type)
    names = {f.name for f in dataclasses.fields(settings_type) if "derived" not in f.metadata}
    before = len(problems)
    for name in sorted(config.keys() - names):
        problems.append(f"{path}.{name} is unknown; {path} has {', '.join(sorted(names))}")
    for name in sorted(names - config.keys()):
        problems.append(f"{path}.{name} is missing (a {_type_name(hints[name])})")
    values = {
        name: _value(hints[name], config[name], f"{path}.{name}", problems)
        for name in names & config.keys()
    }
    if len(problems) > before:
        return None
    try:
        return settings_type(**values)
    except ValueError as error:
        problems.append(f"{path}: {error}")
        return None


def _value(hint: Any, value: Any, path: str, problems: list[str]) -> Any:
    origin = typing.get_origin(hint)
    if dataclasses.is_dataclass(hint):
        if isinstance(value, Mapping):
            return _values(hint, value, path, problems)
    elif origin in (typing.Union, types.UnionType):
        return _union(hint, value, path, problems)
    elif origin is typing.Literal:
        if value in typing.get_args(hint):
            return value
    elif origin is tuple:
        if isinstance(value, (list, tuple)):
            item = typing.get_args(hint)[0]
            return tuple(_value(item, x, f"{path}[{i}]", problems) for i, x in enumerate(value))
    elif hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    elif type(value) is hint:
        return value
    problems.append(f"{path} is {value!r}; it must be a {_type_name(hint)}")
    return None


def _union(hint: Any, value: Any, path: str, problems: list[str]) -> Any:
    options = typing.get_args(hint)
    if value is None and type(None) in options:
        return None
    records = [option for option in options if dataclasses.is_dataclass(option)]
    if isinstance(value, Mapping) and records:
        return _values(_record_of(records, value), value, path, problems)
    for option in options:
        if option is not type(None) and not dataclasses.is_dataclass(option):
            return _value(option, value, path, problems)
    problems.append(f"{path} is {value!r}; it must be a {_type_name(hint)}")
    return None


def _record_of(records: list[Any], value: Mapping[str, Any]) -> Any:
    """The record whose literal `domain` the config names; the only one where there is one."""
    for record in records:
        domain = typing.get_type_hints(record).get("domain")
        if domain is not None and value.get("domain") in typing.get_args(domain):
            return record
    return records[0]


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def _as_mapping(config: ConfigDict | Mapping[str, Any]) -> Mapping[str, Any]:
    return config.to_dict() if isinstance(config, ConfigDict) else config


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings:
    """Which devices of a host do what; counts of 0 share: the engine the learner's, the teacher the
    engine's.

    Attributes:
      learner: devices of the learner; 0 for all that are left.
      engine: devices of the student's engine.
      teacher: devices of the teacher's scorer.
      learner_tensor: tensor-parallel devices inside the learner's mesh.
      engine_tensor: the same for the engine's.
      teacher_tensor: the same for the teacher's.
    """

    learner: int
    engine: int
    teacher: int
    learner_tensor: int
    engine_tensor: int
    teacher_tensor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomerSettings:
    """The frozen model that plays tau2-bench's customer, on the teacher's devices.

    Attributes:
      model: where it comes from; the checkpoint "teacher" is the run's own teacher, whose weights
        it shares.
      engine: sizes and types of its engine; `max_prompt` is the longest chat that it can read.
      temperature: of its sampling, in training and in evaluations; 0 is greedy.
      max_message_tokens: its longest message, thoughts and the stop id included.
    """

    model: ModelSettings
    engine: JetStreamSettings
    temperature: float
    max_message_tokens: int

    def __post_init__(self):
        if not self.temperature >= 0:
            raise ValueError(f"temperature must be at least 0, got {self.temperature}")
        room = self.engine.max_context - self.engine.max_prompt
        if not 1 <= self.max_message_tokens <= room:
            raise ValueError(
                f"max_message_tokens must be 1 to {room}, engine.max_context less "
                f"engine.max_prompt, got {self.max_message_tokens}"
            )

    @property
    def is_teacher(self) -> bool:
        """Whether the teacher plays the customer."""
        return self.model.checkpoint == _TEACHER


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeSettings:
    """How a run proceeds.

    Attributes:
      mode: "threads" (explorers and learner at the same time) or "inline" (lock-step, in one
        thread, reproducible to the bit).
      num_updates: optimizer updates in all.
      sync_interval: updates between two publications of weights.
      seed: of tasks, sampling and composition.
    """

    mode: Literal["threads", "inline"]
    num_updates: int
    sync_interval: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SftRuntimeSettings:
    """How long supervised learning takes.

    Attributes:
      num_updates: optimizer updates in all.
      seed: of the demonstrations.
    """

    num_updates: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainSettings:
    """Everything that `jopd.train` and `jopd.evaluate` read, each described where it acts."""

    env: EnvSettings
    prompt: PromptSettings
    student: ModelSettings
    teacher: ModelSettings
    customer: CustomerSettings | None
    rollout: RolloutSettings
    explorer: ExplorerSettings
    engine: JetStreamSettings
    scorer: ScorerSettings
    queue: QueueSettings
    composer: ComposerSettings
    loss: DistillationSettings
    learner: UpdateSettings
    optimizer: OptimizerSettings
    evaluation: EvaluationSettings
    checkpoint: CheckpointSettings
    devices: DeviceSettings
    runtime: RuntimeSettings
    reporting: ReportingSettings

    def __post_init__(self):
        """Refuses a model customer that is wanted and not named, or named and not wanted."""
        wanted = _wants_model_customer(self.env)
        if wanted and self.customer is None:
            raise ValueError(
                "env.user is 'model', but no model is named: add a customer section, as "
                "configs/tau2_retail_4b.py:model_customer has it, or set env.user to 'scripted'"
            )
        if self.customer is not None and not isinstance(self.env, Tau2Settings):
            raise ValueError(
                f"there is a customer section, but {self.env.domain} has no customer: set "
                "customer to None"
            )
        if self.customer is not None and not wanted:
            raise ValueError(
                "there is a customer section, but env.user is 'scripted': set env.user to "
                "'model', or customer to None"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SftSettings:
    """Everything that `jopd.sft` reads, each described where it acts."""

    env: EnvSettings
    prompt: PromptSettings
    student: ModelSettings
    rollout: RolloutSettings
    engine: JetStreamSettings
    demonstrations: DemonstrationSettings
    learner: UpdateSettings
    optimizer: OptimizerSettings
    evaluation: EvaluationSettings
    devices: DeviceSettings
    runtime: SftRuntimeSettings
    reporting: ReportingSettings

    def __post_init__(self):
        """Refuses a model customer: the demonstrations come from the scripted one."""
        if _wants_model_customer(self.env):
            raise ValueError(
                "jopd.sft shows and plays conversations with the scripted customer only: set "
                "env.user to 'scripted'; jopd.evaluate then evaluates with a model as the customer"
            )


def _wants_model_customer(env: EnvSettings) -> bool:
    return isinstance(env, Tau2Settings) and env.user == "model"
