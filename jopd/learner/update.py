"""One optimizer update: one forward and one backward pass over the packed turns, then Optax.

Micro-batches are a loop with a dynamic trip count over one fixed shape, so a run compiles one
update, however full its batches are. Weights in the batch already carry 1/(N |V|): the gradient is
a plain sum, and packing, micro-batching and device count cannot change it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Int

from jopd.learner.state import LearnerState
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import hidden_states, output_head
from jopd.models.logprobs import token_logprobs
from jopd.types import Params, TurnBatch

LossFunction = Callable[
    [Float[Array, "*s"], Float[Array, "*s"], Float[Array, "*s"]], Float[Array, ""]
]
"""(learner log-probs, teacher log-probs, loss weights) -> summed loss."""

_Changed = tuple[Params, Any, Int[Array, ""]]  # params, optimizer state, update index


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateSettings:
    """How an update is computed; none of it changes what is computed.

    Attributes:
      rows_per_micro_batch: packed rows per forward/backward pass.
      row_length: tokens per packed row.
      compute_dtype: of activations and matrix products; weights and moments stay float32.
      remat: recompute layers in the backward pass.
      head_chunk: tokens per chunk of the output head.
    """

    rows_per_micro_batch: int
    row_length: int
    compute_dtype: Literal["float32", "bfloat16"]
    remat: bool
    head_chunk: int


@jax.tree_util.register_dataclass
@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateResult:
    """What an update measured.

    Attributes:
      loss: value of the loss.
      grad_norm: global norm of the gradient before clipping.
      changed_share: share of parameters whose float32 value changed.
      learner_logprobs: [rows, L] log-probs of the batch's tokens at the weights being updated; 0
        where the loss weight is 0.
    """

    loss: Float[Array, ""]
    grad_norm: Float[Array, ""]
    changed_share: Float[Array, ""]
    learner_logprobs: Float[Array, "rows L"]


class NonFiniteError(FloatingPointError):
    """The loss or the gradient of an update is not a finite number."""


class Updater:
    """A compiled update for one model, loss and shape.

    Attributes:
      config: the decoder.
      optimizer: from `make_optimizer`.
      loss: the loss as a function of log-probs.
      settings: shapes and precision.
      mesh: devices of the learner; rows are split over its "fsdp" axis. None for one device.
    """

    def __init__(
        self,
        config: DecoderConfig,
        optimizer: optax.GradientTransformation,
        loss: LossFunction,
        settings: UpdateSettings,
        *,
        mesh: Mesh | None = None,
    ):
        self._config = config
        self._optimizer = optimizer
        self._loss = loss
        self._settings = settings
        self._mesh = mesh
        self._update: Any = None

    @property
    def compilations(self) -> int:
        """How many shapes have been compiled."""
        return 0 if self._update is None else self._update._cache_size()

    def __call__(
        self, state: LearnerState, batch: TurnBatch, used_micro_batches: int
    ) -> tuple[LearnerState, UpdateResult]:
        """Applies one update; `state` is donated.

        Args:
          state: what is updated.
          batch: packed turns, [micro-batches * rows_per_micro_batch, row_length].
          used_micro_batches: how many leading micro-batches hold anything.
        """
        columns = self._on_device(_columns(batch))
        changed = (state.params, state.opt_state, state.update_index)
        if self._update is None:
            self._update = self._make_update(changed)
        changed, result = self._update(changed, columns, jnp.int32(used_micro_batches))
        params, opt_state, update_index = changed
        new_state = LearnerState(params=params, opt_state=opt_state, update_index=update_index)
        return new_state, result

    def gradient(
        self, params: Params, batch: TurnBatch, used_micro_batches: int
    ) -> tuple[Float[Array, ""], Params]:
        """Loss and gradient of a batch, without an update (for tests and audits)."""
        columns = self._on_device(_columns(batch))
        loss, gradient, _ = jax.jit(self._accumulate)(
            params, columns, jnp.int32(used_micro_batches)
        )
        return loss, gradient

    def _on_device(self, columns: dict[str, np.ndarray]) -> dict[str, Array]:
        rows = self._settings.rows_per_micro_batch
        shaped = {name: value.reshape(-1, rows, value.shape[-1]) for name, value in columns.items()}
        if self._mesh is None:
            return jax.device_put(shaped)
        return jax.device_put(shaped, NamedSharding(self._mesh, PartitionSpec(None, "fsdp", None)))

    def _make_update(self, changed: _Changed) -> Any:
        """The compiled update; on a mesh it leaves every array where it was, or the next update
        would be compiled anew."""
        if self._mesh is None:
            return jax.jit(self._apply, donate_argnums=0)
        places = jax.tree.map(lambda leaf: leaf.sharding, changed)
        return jax.jit(self._apply, donate_argnums=0, out_shardings=(places, None))

    def _apply(
        self, changed: _Changed, columns: dict[str, Array], used: Int[Array, ""]
    ) -> tuple[_Changed, UpdateResult]:
        params, opt_state, update_index = changed
        loss, gradient, logprobs = self._accumulate(params, columns, used)
        changes, opt_state = self._optimizer.update(gradient, opt_state, params)
        new_params = optax.apply_updates(params, changes)
        result = UpdateResult(
            loss=loss,
            grad_norm=optax.tree.norm(gradient),
            changed_share=_changed_share(params, new_params),
            learner_logprobs=logprobs.reshape(-1, logprobs.shape[-1]),
        )
        return (new_params, opt_state, update_index + 1), result

    def _accumulate(
        self, params: Params, columns: dict[str, Array], used: Int[Array, ""]
    ) -> tuple[Float[Array, ""], Params, Float[Array, "micro rows L"]]:
        value_and_grad = jax.value_and_grad(self._micro_loss, has_aux=True)

        def add_micro_batch(index, carry):
            loss, gradient, logprobs = carry
            micro = {name: value[index] for name, value in columns.items()}
            (micro_loss, micro_logprobs), micro_gradient = value_and_grad(params, micro)
            gradient = jax.tree.map(jnp.add, gradient, micro_gradient)
            return loss + micro_loss, gradient, logprobs.at[index].set(micro_logprobs)

        start = (
            jnp.zeros((), jnp.float32),
            jax.tree.map(jnp.zeros_like, params),
            jnp.zeros(columns["loss_weight"].shape, jnp.float32),
        )
        return jax.lax.fori_loop(0, used, add_micro_batch, start)

    def _micro_loss(
        self, params: Params, micro: dict[str, Array]
    ) -> tuple[Float[Array, ""], Float[Array, "rows L"]]:
        hidden = hidden_states(
            params,
            self._config,
            micro["tokens"],
            micro["positions"],
            micro["segment_ids"],
            compute_dtype=jnp.dtype(self._settings.compute_dtype),
            remat=self._settings.remat,
        )
        trained = micro["loss_weight"] != 0
        logprobs = token_logprobs(  # the state at place i predicts the token at i + 1
            hidden[:, :-1],
            output_head(params, self._config),
            micro["tokens"][:, 1:],
            trained[:, 1:],
            chunk_size=self._settings.head_chunk,
        )
        logprobs = jnp.pad(logprobs, ((0, 0), (1, 0)))
        loss = self._loss(logprobs, micro["teacher_logprobs"], micro["loss_weight"])
        return loss, jax.lax.stop_gradient(logprobs)


def check_finite(result: UpdateResult, *, update_index: int, rollout_ids: list[int]) -> None:
    """Raises NonFiniteError that names the update and its rollouts.

    Args:
      result: what the update measured.
      update_index: the update.
      rollout_ids: rollouts whose turns it trained.
    """
    loss, grad_norm = float(result.loss), float(result.grad_norm)
    if not (np.isfinite(loss) and np.isfinite(grad_norm)):
        raise NonFiniteError(
            f"update {update_index} has loss {loss} and gradient norm {grad_norm}; it trained "
            f"turns of rollouts {sorted(set(rollout_ids))}. The last checkpoint holds the weights "
            "before it. Look at these rollouts in the recorded turns, and lower the learning rate "
            "if they look sound."
        )


def _columns(batch: TurnBatch) -> dict[str, np.ndarray]:
    return {
        "tokens": np.asarray(batch.tokens),
        "positions": np.asarray(batch.positions),
        "segment_ids": np.asarray(batch.segment_ids),
        "loss_weight": np.asarray(batch.loss_weight),
        "teacher_logprobs": np.asarray(batch.teacher_logprobs),
    }


def _changed_share(before: Params, after: Params) -> Float[Array, ""]:
    changed = jax.tree.map(lambda a, b: jnp.sum(a != b, dtype=jnp.float32), before, after)
    total = sum(leaf.size for leaf in jax.tree.leaves(before))
    return jax.tree.reduce(jnp.add, changed) / total
