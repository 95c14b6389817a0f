"""What the optimizer changes, and how it is set up."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Int

from jopd.types import Params


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizerSettings:
    """AdamW with a constant rate after a linear warm-up, gradients clipped by their global norm.

    Attributes:
      learning_rate: constant rate.
      warmup_updates: updates of linear warm-up from 0; 0 for none.
      beta1: decay of the first moment.
      beta2: decay of the second moment.
      epsilon: added to the root of the second moment.
      weight_decay: decoupled.
      max_grad_norm: global norm to which gradients are clipped.
    """

    learning_rate: float
    warmup_updates: int
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
    rate = settings.learning_rate
    if settings.warmup_updates:
        rate = optax.linear_schedule(0.0, rate, settings.warmup_updates)
    return optax.chain(
        optax.clip_by_global_norm(settings.max_grad_norm),
        optax.adamw(
            rate,
            b1=settings.beta1,
            b2=settings.beta2,
            eps=settings.epsilon,
            weight_decay=settings.weight_decay,
        ),
    )


def init_state(params: Params, optimizer: optax.GradientTransformation) -> LearnerState:
    """State before the first update; takes `params` over, as float32."""
    master = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params)
    opt_state = jax.jit(optimizer.init)(master)
    return LearnerState(params=master, opt_state=opt_state, update_index=jnp.zeros((), jnp.int32))
