"""What a run comes to: success rates over its evaluations, tokens, time."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jopd.algorithms.diagnostics import final_five, normalised_auc

_Z_95 = 1.959963984540054


def wilson_interval(successes: int, episodes: int) -> tuple[float, float]:
    """95 % Wilson score interval of a success rate, as fractions.

    Args:
      successes: episodes that succeeded.
      episodes: episodes in all, at least 1.
    """
    rate, z2 = successes / episodes, _Z_95**2
    centre = (rate + z2 / (2 * episodes)) / (1 + z2 / episodes)
    spread = _Z_95 * math.sqrt(rate * (1 - rate) / episodes + z2 / (4 * episodes**2))
    half = spread / (1 + z2 / episodes)
    return max(0.0, centre - half), min(1.0, centre + half)


def pass_at_k(successes: int, samples: int, k: int) -> float:
    """Chance that at least one of `k` samples succeeds, estimated without bias from one task.

    With `k == samples` it is 1 where any sample succeeded and else 0.

    Args:
      successes: samples of the task that succeeded.
      samples: samples of the task in all.
      k: how many are drawn, without replacement.

    Raises:
      ValueError: not 0 <= successes <= samples, or not 1 <= k <= samples.
    """
    if not (0 <= successes <= samples and 1 <= k <= samples):
        raise ValueError(f"pass@{k} cannot come from {successes} successes in {samples} samples")
    return 1 - math.comb(samples - successes, k) / math.comb(samples, k)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """`summary.json`; rates are fractions.

    Attributes:
      teacher_success_rate: of the teacher, through the student's own pipeline.
      initial_success_rate: of the student before the first update.
      peak_success_rate: the best evaluation.
      final_success_rate: the last evaluation.
      final_five_success_rate: mean of the last five evaluations.
      final_five_std: their sample standard deviation; 0 for one evaluation.
      success_nauc: area under success over updates, divided by the updates.
      eval_episodes: episodes per evaluation.
      evaluated_updates: update index of each evaluation.
      success_rates: success rate of each evaluation.
      updates: updates applied.
      trained_tokens: prompt and response tokens of all trained turns.
      wall_s: seconds from start to end, over all restarts.
      composer: which composer made the batches.
      seed: of the run.
    """

    teacher_success_rate: float | None
    initial_success_rate: float
    peak_success_rate: float
    final_success_rate: float
    final_five_success_rate: float
    final_five_std: float
    success_nauc: float
    eval_episodes: int
    evaluated_updates: tuple[int, ...]
    success_rates: tuple[float, ...]
    updates: int
    trained_tokens: int
    wall_s: float
    composer: str
    seed: int

    def headline(self) -> str:
        """One line for the end of a run."""
        teacher = (
            "not evaluated"
            if self.teacher_success_rate is None
            else f"{100 * self.teacher_success_rate:.1f} %"
        )
        return (
            f"success rate on {self.eval_episodes} held-out tasks: teacher {teacher}, student "
            f"{100 * self.initial_success_rate:.1f} % -> {100 * self.final_success_rate:.1f} % "
            f"(peak {100 * self.peak_success_rate:.1f} %) after {self.updates} updates, "
            f"{self.trained_tokens:,} trained tokens, {self.wall_s / 60:.1f} minutes"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPoint:
    """Success rate of the student after a number of updates."""

    update_index: int
    success_rate: float


def summarise(
    points: Sequence[EvaluationPoint],
    *,
    teacher_success_rate: float | None,
    eval_episodes: int,
    updates: int,
    trained_tokens: int,
    wall_s: float,
    composer: str,
    seed: int,
) -> RunSummary:
    """Sums up a run; the first point is the evaluation before the first update."""
    rates = [point.success_rate for point in points]
    at = [point.update_index for point in points]
    mean, std = final_five(rates)
    return RunSummary(
        teacher_success_rate=teacher_success_rate,
        initial_success_rate=rates[0],
        peak_success_rate=max(rates),
        final_success_rate=rates[-1],
        final_five_success_rate=mean,
        final_five_std=std,
        success_nauc=normalised_auc(at, rates, at[-1]) if at[-1] > 0 else rates[0],
        eval_episodes=eval_episodes,
        evaluated_updates=tuple(at),
        success_rates=tuple(rates),
        updates=updates,
        trained_tokens=trained_tokens,
        wall_s=wall_s,
        composer=composer,
        seed=seed,
    )


def read_summary(path: Path) -> RunSummary | None:
    """The summary of a finished run, or None where there is none."""
    if not path.exists():
        return None
    data = json.loads(path.read_text(encoding="utf-8"))
    for name in ("evaluated_updates", "success_rates"):
        data[name] = tuple(data[name])
    return RunSummary(**data)


def write_summary(summary: RunSummary, path: Path) -> None:
    """Writes `summary.json`."""
    path.write_text(json.dumps(asdict(summary), indent=2) + "\n", encoding="utf-8")
