"""Numbers of one update's batch: who is in it, how old it is, how far from the teacher."""

import numpy as np
from jaxtyping import Float

from jopd.algorithms.diagnostics import (
    dead_share,
    effective_rollouts,
    kl_statistics,
    mean_age,
    top1_share,
    turns_per_rollout,
)
from jopd.experience.batching import PackedBatch
from jopd.experience.validity import total_tokens
from jopd.types import Composition


def composition_metrics(composition: Composition) -> dict[str, float]:
    """Diagnostics of the selected turns (DivOPD, Table 9 and Figure 2)."""
    turns = [candidate.turn for candidate in composition.selected]
    rollout_ids = np.array([turn.rollout_id for turn in turns])
    versions = np.array([turn.policy_version for turn in turns])
    effective = np.array([candidate.effective_tokens for candidate in composition.selected])
    total = np.array([total_tokens(turn) for turn in turns])
    return {
        "batch/turns": len(turns),
        "batch/trained_tokens": int(total.sum()),
        "batch/effective_tokens": int(effective.sum()),
        "batch/effective_rollouts": effective_rollouts(rollout_ids, effective),
        "batch/effective_rollouts_total": effective_rollouts(rollout_ids, total),
        "batch/top1_share": top1_share(rollout_ids, effective),
        "batch/top1_share_total": top1_share(rollout_ids, total),
        "batch/turns_per_rollout": turns_per_rollout(rollout_ids),
        "batch/dead_share": dead_share(effective),
        "lag/mean": mean_age(versions, update_index=composition.update_index),
        "lag/max": float(composition.update_index - versions.min()),
        "queue/pending_turns": len(composition.pending),
    }


def gap_metrics(
    composition: Composition,
    packed: PackedBatch,
    learner_logprobs: Float[np.ndarray, "rows L"],
) -> dict[str, float]:
    """Student-teacher gap by the learner's own log-probs, and behaviour against learner.

    Args:
      composition: the update's turns.
      packed: the same turns in rows.
      learner_logprobs: [rows, L] at the weights that were updated; see `learner.update`.
    """
    batch = packed.batch
    trained = np.asarray(batch.loss_weight) != 0
    gap = np.where(trained, learner_logprobs - np.asarray(batch.teacher_logprobs), 0.0)
    behaviour = np.asarray(batch.behaviour_logprobs)
    drift = np.abs(np.exp(learner_logprobs) - np.exp(behaviour))[trained]
    statistics = kl_statistics(
        _sum_by_turn(gap, packed),
        np.array([candidate.effective_tokens for candidate in composition.selected]),
        np.array([candidate.turn.rollout_id for candidate in composition.selected]),
    )
    return {
        "kl/per_token": statistics.per_token,
        "kl/row_mean": statistics.row_mean,
        "kl/row_std": statistics.row_std,
        "kl/rollout_std": statistics.rollout_std,
        "batch/packing_fill": packed.fill,
        "lag/behaviour_gap": float(drift.mean()) if drift.size else 0.0,
    }


def _sum_by_turn(
    values: Float[np.ndarray, "rows L"], packed: PackedBatch
) -> Float[np.ndarray, " turns"]:
    """Sum of the values of each turn's tokens; 0 for a dead turn."""
    segments = np.asarray(packed.batch.segment_ids)
    sums = np.zeros((segments.shape[0], int(segments.max(initial=0)) + 1))
    np.add.at(sums, (np.arange(segments.shape[0])[:, None], segments), values)
    rows, segment = packed.places.T
    return np.where(rows >= 0, sums[rows, np.maximum(segment, 0)], 0.0)
