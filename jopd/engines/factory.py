"""Makes engines and scorers; who makes none of a kind does not import what it is built on."""

import numpy as np
from jax.sharding import Mesh
from jaxtyping import Bool

from jopd.engines.base import Engine, Scorer
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.engines.teacher_scorer import ScorerSettings, TeacherScorer
from jopd.models.architectures import DecoderConfig
from jopd.types import Params, WeightSnapshot


def make_engine(
    settings: JetStreamSettings,
    config: DecoderConfig,
    snapshot: WeightSnapshot,
    *,
    mesh: Mesh | None = None,
) -> Engine:
    """Starts the student's engine.

    Args:
      settings: sizes and types.
      config: the student's architecture.
      snapshot: the first weights.
      mesh: with axes "fsdp" and "tensor"; None: the device where the weights lie.
    """
    from jopd.engines.jetstream_driver import JetStreamDriver

    return JetStreamDriver(config, snapshot, settings, mesh=mesh)


def make_scorer(
    settings: ScorerSettings,
    config: DecoderConfig,
    params: Params,
    *,
    known_ids: Bool[np.ndarray, " student_vocab"] | None = None,
    mesh: Mesh | None = None,
) -> Scorer:
    """Starts the frozen teacher's scorer.

    Args:
      settings: sizes and types.
      config: the teacher's architecture.
      params: its parameters; nobody may donate them.
      known_ids: True where the teacher knows the student's id; None: everywhere.
      mesh: with axes "fsdp" and "tensor"; None: the device where the parameters lie.
    """
    return TeacherScorer(params, config, settings, known_ids=known_ids, mesh=mesh)
