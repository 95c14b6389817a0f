"""What is measured of batches, rollouts and evaluations; NumPy on the host, no state.

Definitions where the papers are silent: a share of nothing is 0; "effective" tokens are those with
teacher supervision, "total" tokens are prompt and response; the standard deviation over rollouts is
the population one, the one over evaluations the sample one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

EMA_WEIGHT = 0.12  # of the new value in the moving average of the rollout-level KL deviation

Ints = Int[np.ndarray, " turns"]
Floats = Float[np.ndarray, " turns"]


def rollout_shares(rollout_ids: Ints, tokens: Ints) -> Float[np.ndarray, " rollouts"]:
    """Share p_r of each rollout in the tokens of a batch, by ascending rollout id.

    Args:
      rollout_ids: rollout of each turn of the batch.
      tokens: tokens of each turn, effective or total.

    Returns:
      Shares that sum to 1, or zeros if the batch has no token.
    """
    rollouts, place = np.unique(rollout_ids, return_inverse=True)
    per_rollout = np.bincount(place, weights=tokens, minlength=len(rollouts))
    return per_rollout / max(per_rollout.sum(), 1)


def effective_rollouts(rollout_ids: Ints, tokens: Ints) -> float:
    """1 / sum of p_r^2: how many equally large rollouts would be as spread; 0 without tokens."""
    concentration = float(np.square(rollout_shares(rollout_ids, tokens)).sum())
    return 1 / concentration if concentration else 0.0


def top1_share(rollout_ids: Ints, tokens: Ints) -> float:
    """Largest rollout's share of the tokens of a batch."""
    return float(rollout_shares(rollout_ids, tokens).max(initial=0.0))


def turns_per_rollout(rollout_ids: Ints) -> float:
    """Turns of a batch, dead ones included, per distinct rollout."""
    return len(rollout_ids) / max(len(np.unique(rollout_ids)), 1)


def dead_share(effective_tokens: Ints) -> float:
    """Share of the turns of a batch without a supervised token."""
    return float(np.mean(effective_tokens == 0)) if len(effective_tokens) else 0.0


def mean_age(policy_versions: Ints, *, update_index: int) -> float:
    """Mean of q - v(u) over the turns of a batch, dead ones included, in updates."""
    return float(update_index - policy_versions.mean()) if len(policy_versions) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KLStatistics:
    """Sampled-token reverse KL of a batch; signed estimates, in nats.

    Attributes:
      per_token: sum of the gap over all valid tokens, per valid token.
      row_mean: mean over turns of the turn's sum.
      row_std: its population standard deviation over turns.
      rollout_std: population standard deviation over rollouts of the rollout's sum; 0 for one.
    """

    per_token: float
    row_mean: float
    row_std: float
    rollout_std: float


def kl_statistics(row_kl: Floats, effective_tokens: Ints, rollout_ids: Ints) -> KLStatistics:
    """Sums up the student-teacher gap of a batch.

    Args:
      row_kl: Eq. 2 of DivOPD for each trained turn, with the learner's own log-probs.
      effective_tokens: valid tokens of each turn.
      rollout_ids: rollout of each turn.
    """
    _, place = np.unique(rollout_ids, return_inverse=True)
    return KLStatistics(
        per_token=float(row_kl.sum() / max(effective_tokens.sum(), 1)),
        row_mean=float(row_kl.mean()),
        row_std=float(row_kl.std()),
        rollout_std=float(np.bincount(place, weights=row_kl).std()),
    )


def moving_average(previous: float | None, value: float, *, weight: float = EMA_WEIGHT) -> float:
    """Exponential moving average: `weight` on the new value; it starts at the first value."""
    return value if previous is None else weight * value + (1 - weight) * previous


def never_selected_share(selected_turns: Int[np.ndarray, " rollouts"]) -> float:
    """Share of rollouts without a trained turn.

    Args:
      selected_turns: trained turns of every rollout with at least one valid turn in the window;
        leave out rollouts that are still eligible for the stricter reading.
    """
    return float(np.mean(selected_turns == 0)) if len(selected_turns) else 0.0


def gini(selected_turns: Int[np.ndarray, " rollouts"]) -> float:
    """Gini coefficient sum_ij |x_i - x_j| / (2 n^2 mean) of trained turns per valid rollout.

    Rollouts without a trained turn count as 0. Evaluated on the sorted values, in n log n.
    """
    ordered = np.sort(selected_turns).astype(np.float64)
    count, total = len(ordered), ordered.sum()
    if not total:
        return 0.0
    return float((2 * np.arange(1, count + 1) - count - 1) @ ordered / (count * total))


def peak(success_rates: Sequence[float]) -> float:
    """The best evaluation, unsmoothed."""
    return max(success_rates)


def final_five(success_rates: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation of the last five evaluations; deviation 0 for one."""
    last = np.asarray(success_rates[-5:], np.float64)
    return float(last.mean()), float(last.std(ddof=1)) if len(last) > 1 else 0.0


def normalised_auc(
    update_indices: Sequence[int], success_rates: Sequence[float], until: int
) -> float:
    """Area under success over updates from 0 to `until`, divided by `until`.

    Linear between evaluations; of several evaluations of one version the last counts.

    Args:
      update_indices: version of each evaluation, not descending; the first must be 0.
      success_rates: in any unit; the result is in the same.
      until: U; at most the last version. To compare methods, the smallest of their last versions.

    Raises:
      ValueError: the evaluations do not cover 0 to `until`.
    """
    rate_of = dict(zip(update_indices, success_rates, strict=True))
    versions, rates = np.array(list(rate_of), np.float64), np.array(list(rate_of.values()))
    if not (0 < until <= versions[-1] and versions[0] == 0 and np.all(np.diff(versions) > 0)):
        raise ValueError(
            f"evaluations at {list(rate_of)} do not cover updates 0 to {until} in ascending order"
        )
    inside = versions < until
    at = np.append(versions[inside], until)
    return float(np.trapezoid(np.interp(at, versions, rates), at) / until)


def cost_to_target(
    success_rates: Sequence[float], cumulative_cost: Sequence[int | float], *, target: float
) -> int | float | None:
    """Cost through the first evaluation that reaches the target: C(tau); None if none does.

    Args:
      success_rates: of each evaluation, in order of learner version.
      cumulative_cost: tokens, device hours or seconds spent up to each evaluation.
      target: tau, in the unit of the rates.
    """
    reached = (
        cost for rate, cost in zip(success_rates, cumulative_cost, strict=True) if rate >= target
    )
    return next(reached, None)
