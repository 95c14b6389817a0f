"""The on-policy distillation loss, the weights of its tokens, and the disagreement score.

Every function takes arrays, never a model. A dead row (a turn without a valid token) adds nothing
to the loss and counts in its denominator; a padding row is nowhere counted.
"""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from jopd.types import AnyArray

Reduction = Literal["seq-mean-token-mean", "token-mean"]
Denominator = Literal["rows", "batch_size"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DistillationSettings:
    """The loss of a run.

    Attributes:
      reduction: "seq-mean-token-mean" (DivOPD) or "token-mean" (STRIDE); see `row_weights`.
      denominator: what N is in a short batch: the "rows" it has, dead ones included, or the
        configured "batch_size". Not read by "token-mean".
      distill_coef: beta of Eq. 1; must be positive, or the teacher would not be heard.
    """

    reduction: Reduction
    denominator: Denominator
    distill_coef: float

    def __post_init__(self):
        if not self.distill_coef > 0:
            raise ValueError(f"distill_coef must be positive, got {self.distill_coef}")

    def num_rows(self, turns: int, *, batch_size: int) -> int:
        """N of Eq. 3 for a batch of so many turns, dead ones included."""
        return turns if self.denominator == "rows" else batch_size


def opd_loss(
    learner_logprobs: Float[AnyArray, "B L"],
    teacher_logprobs: Float[AnyArray, "B L"],
    valid_mask: Bool[AnyArray, "B L"],
    *,
    num_rows: int,
    distill_coef: float = 1.0,
) -> Float[Array, ""]:
    """On-policy distillation loss: token mean within a turn, then mean over turns.

    Eq. 3 of DivOPD (arXiv:2609.34838), with the advantage of Eq. 1,

        A[t,i] = distill_coef * stop_gradient(teacher[t,i] - learner[t,i]).

    It is evaluated as -A * exp(learner - stop_gradient(learner)): value Eq. 3, gradient Eq. 4, one
    forward pass. A turn without a valid token adds zero but is counted in `num_rows`.

    Args:
      learner_logprobs: log-probs of the sampled tokens at the weights being updated, in nats.
      teacher_logprobs: the frozen teacher's log-probs of the same tokens, in nats.
      valid_mask: True where a token is the student's own and the teacher scored it.
      num_rows: N of Eq. 3: real turns in the batch, padding rows excluded.
      distill_coef: beta.

    Returns:
      The scalar loss: its value is beta times the mean per-token disagreement.
    """
    weight = loss_weights(valid_mask, reduction="seq-mean-token-mean", num_rows=num_rows)
    return weighted_opd_loss(learner_logprobs, teacher_logprobs, weight, distill_coef=distill_coef)


def weighted_opd_loss(
    learner_logprobs: Float[AnyArray, "*shape"],
    teacher_logprobs: Float[AnyArray, "*shape"],
    loss_weight: Float[AnyArray, "*shape"],
    *,
    distill_coef: float = 1.0,
) -> Float[Array, ""]:
    """Eq. 3 of DivOPD with the reduction written into the weights, for arrays of any layout.

    The loss is a plain weighted sum over tokens, so neither packing nor a split into micro-batches
    or devices can change it. Gradients: Eq. 4. Log-probs where the weight is 0 may be anything,
    infinities and NaN included.

    Args:
      learner_logprobs: log-probs of the sampled tokens at the weights being updated, in nats.
      teacher_logprobs: the frozen teacher's log-probs of the same tokens, in nats.
      loss_weight: weight of each token, from `loss_weights` or `row_weights`; 0 where masked.
      distill_coef: beta.

    Returns:
      The scalar loss of these tokens; losses of parts of a batch add up to the batch's.
    """
    is_trained = loss_weight != 0
    learner = jnp.where(is_trained, learner_logprobs, 0.0)  # before any arithmetic: 0 * inf is NaN
    teacher = jnp.where(is_trained, teacher_logprobs, 0.0)
    advantage = distill_coef * jax.lax.stop_gradient(teacher - learner)
    ratio = jnp.exp(learner - jax.lax.stop_gradient(learner))
    return -jnp.sum(loss_weight * advantage * ratio)


def supervised_loss(
    learner_logprobs: Float[AnyArray, "*shape"],
    teacher_logprobs: Float[AnyArray, "*shape"],
    loss_weight: Float[AnyArray, "*shape"],
) -> Float[Array, ""]:
    """Cross-entropy of demonstrated tokens with the reduction written into the weights.

    Args:
      learner_logprobs: log-probs of the demonstrated tokens, in nats.
      teacher_logprobs: not used; there so that every loss is called alike.
      loss_weight: weight of each token; see `row_weights`.
    """
    del teacher_logprobs
    return -jnp.sum(loss_weight * learner_logprobs)


def loss_weights(
    valid_mask: Bool[AnyArray, "B L"], *, reduction: Reduction, num_rows: int
) -> Float[Array, "B L"]:
    """Weight of every token of a batch, 0 where `valid_mask` is False; see `row_weights`."""
    weights = row_weights(jnp.sum(valid_mask, axis=-1), reduction=reduction, num_rows=num_rows)
    return jnp.where(valid_mask, jnp.asarray(weights)[:, None], 0.0)


def row_weights(
    valid_tokens: Int[AnyArray, " rows"], *, reduction: Reduction, num_rows: int
) -> Float[AnyArray, " rows"]:
    """Weight of each valid token of a row.

    "seq-mean-token-mean" is Eq. 3 of DivOPD, 1 / (N |V_t|); "token-mean" is STRIDE's loss, one over
    all valid tokens of the batch.

    Args:
      valid_tokens: |V_t| of every row of the whole update, dead rows included as 0.
      reduction: which of the two.
      num_rows: N: real turns of the whole update, dead rows included; not read by "token-mean".

    Returns:
      The weight per row, 0 for a dead row; NumPy stays NumPy.

    Raises:
      ValueError: `reduction` is neither of the two.
    """
    is_live = valid_tokens > 0
    match reduction:
        case "seq-mean-token-mean":
            return is_live / (num_rows * (valid_tokens + ~is_live))
        case "token-mean":
            total = valid_tokens.sum()
            return is_live / (total + (total == 0))
        case _:
            raise ValueError(
                f"reduction must be 'seq-mean-token-mean' or 'token-mean', got {reduction!r}"
            )


def disagreement(
    student_logprobs: Float[AnyArray, "*rows L"],
    teacher_logprobs: Float[AnyArray, "*rows L"],
    valid_mask: Bool[AnyArray, "*rows L"],
) -> Float[AnyArray, "*rows"]:
    """Signed sum of the student-teacher gap over valid tokens: s(u), Eq. 2 of DivOPD.

    With behaviour log-probs it is the composer's score; with learner log-probs it is the row's KL
    estimate of the diagnostics. Its expectation under a complete mask is the reverse KL
    KL(student || teacher). A dead row has 0; negative values are legal.

    Args:
      student_logprobs: the student's log-probs of the sampled tokens, in nats.
      teacher_logprobs: the teacher's log-probs of the same tokens, in nats.
      valid_mask: True where a token is the student's own and the teacher scored it.

    Returns:
      One sum per row, in nats; NumPy stays NumPy.
    """
    xp = valid_mask.__array_namespace__()
    student = xp.where(valid_mask, student_logprobs, 0)  # before any arithmetic: inf - inf is NaN
    teacher = xp.where(valid_mask, teacher_logprobs, 0)
    return xp.asarray(xp.sum(student - teacher, axis=-1))


def describe_loss(settings: DistillationSettings) -> str:
    """Says in words which loss the settings mean, for the head of a run's log."""
    rows = {
        "rows": "all real turns of the batch, turns without a valid token included",
        "batch_size": "the configured batch size, even when the batch is short",
    }
    means = {
        "seq-mean-token-mean": (
            "mean over the valid tokens of each turn, then sum over turns divided by "
            + rows[settings.denominator]
        ),
        "token-mean": "mean over all valid tokens of the batch; long turns weigh more",
    }
    return (
        "on-policy distillation: sampled-token reverse KL(student || teacher), minimised by the "
        f"policy gradient of {settings.distill_coef:g} * (teacher - student log-prob) with the "
        "student's log-probs of the same forward pass; no importance weights, no clipping of the "
        f"ratio; {settings.reduction}: {means[settings.reduction]}"
    )
