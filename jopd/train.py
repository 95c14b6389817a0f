"""`python -m jopd.train --config=configs/x.py[:variant] --workdir=DIR`: one run, new or resumed.

The learner is the main thread; explorers run on the crew's threads or, in lock-step mode, in this
one. The run's parts are wired in `jopd.training`.
"""

import json
import time
from contextlib import closing
from pathlib import Path

import numpy as np

from jopd.algorithms.distillation import describe_loss
from jopd.command import Invocation, run_command
from jopd.evaluation.summary import RunSummary, read_summary, write_summary
from jopd.experience.batch_metrics import composition_metrics, gap_metrics
from jopd.experience.batching import pack
from jopd.learner.update import check_finite
from jopd.runtime.crew import Crew
from jopd.runtime.run_directory import claim
from jopd.settings import TrainSettings
from jopd.training import TrainingParts, assemble_training
from jopd.types import Composition


def main(settings: TrainSettings, invocation: Invocation) -> None:
    """Prints what will run, then runs it."""
    print(json.dumps(invocation.config, indent=2))
    print(describe_loss(settings.loss))
    if invocation.dry_run:
        return
    directory = claim(
        invocation.workdir, invocation.config, command="train", resume=invocation.resume
    )
    with closing(directory):
        summary = train(settings, invocation.workdir)
    print(summary.headline())


def train(settings: TrainSettings, workdir: Path) -> RunSummary:
    """Trains until `num_updates`, from the newest checkpoint in `workdir` if there is one."""
    finished = read_summary(workdir / "summary.json")
    if finished is not None and finished.updates >= settings.runtime.num_updates:
        return finished
    with closing(assemble_training(settings, workdir)) as parts:
        explorers = [parts.explorer.explore] if settings.runtime.mode == "threads" else []
        with Crew(explorers, parts.closables):
            while parts.update_index < settings.runtime.num_updates:
                run_update(parts)
            evaluate(parts)
        parts.save()
        summary = parts.summary()
    write_summary(summary, workdir / "summary.json")
    return summary


def run_update(parts: TrainingParts) -> None:
    """One update: evaluate if due, compose, train, publish, report, save if due."""
    runtime, q = parts.settings.runtime, parts.update_index
    evaluation = evaluate(parts) if q % parts.settings.evaluation.interval == 0 else {}
    started = time.monotonic()
    composition = compose(parts)
    composed = time.monotonic()
    metrics = learn(parts, composition)
    learned = time.monotonic()
    if (q + 1) % runtime.sync_interval == 0:
        parts.weights.publish(parts.state.params, version=q + 1)
    times = {
        "time/read_s": composed - started,
        "time/update_s": learned - composed,
        "time/publish_s": time.monotonic() - learned,
        "time/wall_s": parts.progress.wall_s,
        "time/trained_tokens_per_s": metrics["batch/trained_tokens"] / (learned - started),
    }
    parts.report(q + 1, {**evaluation, **metrics, **parts.counts(), **times})
    if (q + 1) % parts.settings.checkpoint.interval == 0:
        parts.save()


def evaluate(parts: TrainingParts) -> dict[str, float]:
    """Evaluates the student at the present version, unless that was done already."""
    q = parts.update_index
    if parts.progress.points and parts.progress.points[-1].update_index == q:
        return {}
    evaluation = parts.evaluator.run(
        policy_version=q, on_progress=lambda done, of: parts.show(f"evaluate {done}/{of}")
    )
    parts.progress.add_evaluation(evaluation)
    parts.show("evaluated", keep=True)
    return evaluation.metrics()


def compose(parts: TrainingParts) -> Composition:
    """The turns of the next update; in lock-step mode, plays the rollouts that are missing."""
    reader, q = parts.stream.reader, parts.update_index
    if parts.settings.runtime.mode == "inline":
        while reader.missing_turns(update_index=q):
            parts.explorer.play_one()
    return reader.next(update_index=q)


def learn(parts: TrainingParts, composition: Composition) -> dict[str, float]:
    """One optimizer update on the composed turns; returns what it measured."""
    turns = [candidate.turn for candidate in composition.selected]
    settings, q = parts.settings, parts.update_index
    num_rows = settings.loss.num_rows(len(turns), batch_size=settings.composer.batch_size)
    packed = pack(turns, parts.layout, reduction=settings.loss.reduction, num_rows=num_rows)
    parts.state, result = parts.updater(parts.state, packed.batch, packed.used_micro_batches)
    check_finite(result, update_index=q, rollout_ids=[turn.rollout_id for turn in turns])
    parts.applied_update()
    metrics = composition_metrics(composition) | gap_metrics(
        composition, packed, np.asarray(result.learner_logprobs)
    )
    metrics["kl/rollout_std_ema"] = parts.progress.average_gap(metrics["kl/rollout_std"])
    metrics["loss/opd"] = float(result.loss)
    metrics["loss/grad_norm"] = float(result.grad_norm)
    metrics["loss/changed_share"] = float(result.changed_share)
    parts.progress.trained_tokens += int(metrics["batch/trained_tokens"])
    return metrics


if __name__ == "__main__":
    run_command(TrainSettings, main)
