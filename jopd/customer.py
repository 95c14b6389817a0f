"""The model that plays tau2-bench's customer in the rollouts and evaluations of a run.

It is frozen, works on the teacher's devices, and supervises nobody. Its engine answers on the event
loop of whoever plays; a failure of the engine ends the run as the student's engine does.
"""

import dataclasses
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

import jax.numpy as jnp
from jax.sharding import Mesh

from jopd import assembly
from jopd.engines.base import Engine, Sampling
from jopd.envs.factory import EnvSettings, open_environment
from jopd.rollout.speaker import ModelSpeaker
from jopd.settings import CustomerSettings, TrainSettings
from jopd.types import Params, WeightSnapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    """A model that can play the customer.

    Attributes:
      settings: how it plays.
      env: settings of the environment that has the customer.
      model: its files.
    """

    settings: CustomerSettings
    env: EnvSettings
    model: assembly.ModelFiles

    def load(self, mesh: Mesh) -> Params:
        """Reads the weights in the type that its engine computes with."""
        return self.model.load(mesh, jnp.dtype(self.settings.engine.compute_dtype))

    def start(self, params: Params, mesh: Mesh) -> Engine:
        """Starts its engine; nobody may donate the weights."""
        snapshot = WeightSnapshot(params=params, version=0)
        return assembly.start_engine(self.model, snapshot, self.settings.engine, mesh)

    def join(self, stage: assembly.Stage, engine: Engine) -> assembly.Stage:
        """The same stage, in whose environments the engine speaks as the customer."""
        speaker = ModelSpeaker(
            engine=engine,
            tokenizer=self.model.tokenizer,
            sampling=Sampling(
                temperature=self.settings.temperature,
                max_tokens=self.settings.max_message_tokens,
                stop_ids=self.model.tokenizer.stop_ids,
            ),
            max_prompt_tokens=self.settings.engine.max_prompt,
        )
        return dataclasses.replace(stage, env=open_environment(self.env, speaker))


def open_customer(settings: TrainSettings, stage: assembly.Stage) -> Customer | None:
    """Finds the model that plays the customer; None where no model does.

    Raises:
      CheckpointError: the model is missing, damaged or of an unknown architecture.
    """
    customer = settings.customer
    if customer is None:
        return None
    if customer.is_teacher:
        model = assembly.open_model(settings.teacher, stage, name="teacher")
    else:
        model = assembly.open_model(customer.model, stage, name="customer")
    return Customer(settings=customer, env=settings.env, model=model)


@contextmanager
def customer_at_work(
    customer: Customer | None, stage: assembly.Stage, mesh: Mesh
) -> Iterator[assembly.Stage]:
    """The stage, with the model customer at work if there is one; it ends with the block."""
    if customer is None:
        yield stage
        return
    with closing(customer.start(customer.load(mesh), mesh)) as engine:
        yield customer.join(stage, engine)
