"""Draws success rate and batch diagnostics of a run over its updates, into the run directory.

python scripts/plot_run.py runs/quickstart
"""

import argparse
import json
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from jopd.evaluation.summary import RunSummary, read_summary, wilson_interval

PANELS = (
    ("batch/effective_rollouts", "effective rollouts per batch"),
    ("kl/per_token", "student - teacher gap, nats per token"),
    ("lag/mean", "lag of trained turns, updates"),
)


def read_log(path: Path) -> list[dict[str, float]]:
    """Every whole line of a `log.jsonl`."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]


def series(log: list[dict[str, float]], name: str) -> tuple[list[float], list[float]]:
    """Updates and values of one metric."""
    points = [(row["update"], row[name]) for row in log if name in row]
    return [x for x, _ in points], [y for _, y in points]


def draw_success(axes: plt.Axes, summary: RunSummary) -> None:
    """Success rate of the student with its 95 % interval, and the teacher's level."""
    updates, episodes = summary.evaluated_updates, summary.eval_episodes
    intervals = [
        wilson_interval(round(rate * episodes), episodes) for rate in summary.success_rates
    ]
    low, high = zip(*intervals, strict=True)
    axes.plot(updates, summary.success_rates, marker="o", color="tab:blue", label="student")
    axes.fill_between(updates, low, high, color="tab:blue", alpha=0.2, label="95 % interval")
    teacher = summary.teacher_success_rate
    if teacher is not None:
        axes.axhline(teacher, color="tab:green", linestyle="--", label=f"teacher {teacher:.2f}")
    axes.set(xlabel="update", ylabel="success rate", ylim=(0, 1))
    axes.set_title(f"{summary.composer}, {episodes} held-out goals")
    axes.legend(loc="lower right")


def main() -> None:
    """Reads the run and writes `success.png`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workdir", type=Path)
    workdir = parser.parse_args().workdir
    log = read_log(workdir / "log.jsonl")
    summary = read_summary(workdir / "summary.json")
    if summary is None:
        sys.exit(f"{workdir} has no summary.json: the run has not finished")
    figure, axes = plt.subplots(2, 2, figsize=(11, 7), layout="constrained")
    draw_success(axes[0, 0], summary)
    for place, (name, label) in zip((axes[0, 1], axes[1, 0], axes[1, 1]), PANELS, strict=True):
        updates, values = series(log, name)
        place.plot(updates, values, color="tab:orange")
        place.set(xlabel="update", ylabel=label)
    path = workdir / "success.png"
    figure.savefig(path, dpi=120)
    print(f"{path} shows success over {summary.updates} updates")


if __name__ == "__main__":
    main()
