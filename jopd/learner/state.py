"""What the optimizer changes, and how it is set up."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from jopd.types import Params


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSettings:
    """AdamW, gradients clipped by their global norm; the rate is constant but for both ends.

    Attributes:
      learning_rate: the rate.
      warmup_updates: updates of linear warm-up from 0; 0 for none.
      decay_updates: updates, after the warm-up, of linear decay to 0; 0 for a constant rate.
      beta1: decay of the first moment.
      beta2: decay of the second moment.
      epsilon: added to the root of the second moment.
      weight_decay: decoupled.
      max_grad_norm: global norm to which gradients are clipped.
    """

    learning_rate: float
    warmup_updates: int
    decay_updates: int
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    max_grad_norm: float


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerState:
    """Everything that an update changes.

    Attributes:
      params: float32 master weights.
      opt_state: state of the optimizer, float32 moments.
      update_index: updates applied so far, which is also the version of `params`.
    """

    params: Params
    opt_state: Any
    update_index: Int[Array, ""]


def make_optimizer(settings: OptimizerSettings) -> optax.GradientTransformation:
    """The optimizer of Table 4 of DivOPD: clipping by global norm, then AdamW."""
    return optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm),
        optax.adamw(
            _rate(settings),
            b1=settings.beta1,
            b2=settings.beta2,
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
        ),
    )


def _rate(settings: OptimizerSettings) -> optax.ScalarOrSchedule:
    peak = settings.learning_rate
    if not (settings.warmup_updates or settings.decay_updates):
        return peak
    warmup = optax.linear_schedule(0.0, peak, settings.warmup_updates)
    rest = optax.constant_schedule(peak)
    if settings.decay_updates:
        rest = optax.linear_schedule(peak, 0.0, settings.decay_updates)
    return optax.join_schedules([warmup, rest], [settings.warmup_updates])


def init_state(params: Params, optimizer: optax.GradientTransformation) -> LearnerState:
    """State before the first update; takes `params` over, as float32.

    Moments lie on the devices where their parameters lie, and scalars on all of a mesh's devices,
    so that the first update and the later ones are one program.
    """
    master = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
    index = jnp.zeros((), jnp.int32)
    first = jax.tree.leaves(master)[0].sharding
    if not isinstance(first, NamedSharding):
        return LearnerState(params=master, opt_state=optimizer.init(master), update_index=index)
    everywhere = NamedSharding(first.mesh, PartitionSpec())
    shardings = optax.tree.map_params(
        optimizer,
        lambda _, param: param.sharding,
        jax.eval_shape(optimizer.init, master),
        master,
        transform_non_params=lambda _: everywhere,
    )
    return LearnerState(
        params=master,
        opt_state=jax.jit(optimizer.init, out_shardings=shardings)(master),
        update_index=jax.device_put(index, everywhere),
    )
