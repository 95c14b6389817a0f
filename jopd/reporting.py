"""Where numbers of a run go: `log.jsonl`, TensorBoard, W&B when asked for, and the terminal.

Every metric name is listed in `METRICS`; writing another one is an error. Called by the learner's
thread only.
"""

import importlib
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO, runtime_checkable

from tensorboardX import SummaryWriter

METRICS = {
    "eval/success_rate": "share of the panel's episodes that met the task's own criterion",
    "eval/success_low": "lower end of its 95 % Wilson interval",
    "eval/success_high": "upper end of its 95 % Wilson interval",
    "eval/pass_at_k": "share of the tasks of which one of the k samples succeeded",
    "eval/mean_reward": "mean environment reward",
    "eval/mean_turns": "turns per episode",
    "eval/done_rate": "share of episodes that the environment declared over",
    "eval/seconds": "wall time of the evaluation",
    "loss/opd": "value of the loss",
    "loss/supervised": "cross-entropy of demonstrated replies, nats",
    "loss/grad_norm": "global gradient norm before clipping",
    "loss/changed_share": "share of float32 weights that the update changed",
    "kl/per_token": "mean of learner minus teacher log-prob over trained tokens, nats",
    "kl/row_mean": "mean over turns of the summed gap, nats",
    "kl/row_std": "its standard deviation over turns",
    "kl/rollout_std": "population standard deviation over rollouts of the summed gap",
    "kl/rollout_std_ema": "its moving average, new value weighted 0.12",
    "batch/turns": "turns trained",
    "batch/trained_tokens": "prompt and response tokens trained",
    "batch/effective_tokens": "tokens with teacher supervision",
    "batch/effective_rollouts": "1 / sum of squared token shares of rollouts, effective tokens",
    "batch/effective_rollouts_total": "the same over prompt and response tokens",
    "batch/top1_share": "largest rollout's share of effective tokens",
    "batch/top1_share_total": "the same over prompt and response tokens",
    "batch/turns_per_rollout": "turns per distinct rollout",
    "batch/dead_share": "share of turns without a supervised token",
    "batch/packing_fill": "share of packed places that hold a token",
    "lag/mean": "updates between the generation of a turn and its training, mean",
    "lag/max": "the same, largest",
    "lag/behaviour_gap": "mean absolute difference of token probabilities, behaviour and learner",
    "queue/turns": "turns waiting in the experience queue",
    "queue/pending_turns": "turns waiting in the pending pool",
    "queue/produced_turns": "turns that entered the queue since the start",
    "queue/stale_turns": "turns removed by the version gate since the start",
    "queue/aged_turns": "turns that waited too long, since the start",
    "queue/invalid_turns": "turns that failed the validity gate since the start",
    "queue/discarded_turns": "turns discarded otherwise since the start",
    "queue/trained_turns": "turns trained since the start",
    "explore/rollouts": "rollouts delivered since the start",
    "explore/success_rate": "success rate of the rollouts delivered since the last update",
    "explore/env_errors": "rollouts that ended with an environment error since the start",
    "explore/generated_tokens": "response tokens generated since the start",
    "explore/reused_share": "share of prompt tokens whose KV was reused",
    "explore/customer_tokens": "tokens that a model generated as the customer since the start, "
    "evaluations included",
    "teacher/scored_tokens": "response tokens scored since the start",
    "teacher/masked_tokens": "response tokens without a usable score since the start",
    "time/update_s": "seconds in the optimizer update",
    "time/read_s": "seconds waiting for and composing the batch",
    "time/publish_s": "seconds publishing weights",
    "time/wall_s": "seconds since this process began the run",
    "time/trained_tokens_per_s": "trained tokens per second of wall time in the last update",
}


class UnknownMetricError(ValueError):
    """A metric name that `METRICS` does not list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportingSettings:
    """Where numbers go besides `log.jsonl` and the terminal.

    Attributes:
      tensorboard: write TensorBoard events.
      wandb_project: W&B project; "" for none.
      progress_interval_s: seconds between two lines of progress where output is not a terminal.
    """

    tensorboard: bool
    wandb_project: str
    progress_interval_s: float


@runtime_checkable
class Sink(Protocol):
    """Something that takes numbers."""

    def write(self, update_index: int, metrics: Mapping[str, float]) -> None:
        """Takes the metrics of one update."""
        ...

    def close(self) -> None:
        """Flushes and ends."""
        ...


class JsonLines:
    """`log.jsonl`: one object per update, flushed at once.

    Attributes:
      path: the file; lines of updates after `resume_at` are cut from it.
    """

    def __init__(self, path: Path, *, resume_at: int):
        kept = _lines_up_to(path, resume_at) if path.exists() else []
        self._file = path.open("w", encoding="utf-8")
        self._file.writelines(kept)
        self._file.flush()

    def write(self, update_index: int, metrics: Mapping[str, float]) -> None:
        """Appends one line."""
        line = {"update": update_index, **{name: float(x) for name, x in metrics.items()}}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _lines_up_to(path: Path, update_index: int) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    whole = (line for line in lines if line.endswith("}\n"))
    return [line for line in whole if json.loads(line)["update"] <= update_index]


class TensorBoard:
    """TensorBoard events in `directory`."""

    def __init__(self, directory: Path):
        self._writer = SummaryWriter(str(directory))

    def write(self, update_index: int, metrics: Mapping[str, float]) -> None:
        """Writes scalars."""
        for name, value in metrics.items():
            self._writer.add_scalar(name, float(value), update_index)

    def close(self) -> None:
        """Flushes and closes the event file."""
        self._writer.close()


class WeightsAndBiases:
    """A W&B run named after the run directory; resumed runs get a new id, never an old one."""

    def __init__(self, project: str, workdir: Path):
        try:
            wandb = importlib.import_module("wandb")
        except ModuleNotFoundError as error:
            raise ValueError(
                f"reporting.wandb_project is {project!r} but wandb is not installed; "
                "pip install jopd[wandb], or leave the setting empty"
            ) from error
        self._run = wandb.init(project=project, name=workdir.name, dir=str(workdir))

    def write(self, update_index: int, metrics: Mapping[str, float]) -> None:
        """Logs scalars."""
        self._run.log({name: float(x) for name, x in metrics.items()}, step=update_index)

    def close(self) -> None:
        """Finishes the W&B run."""
        self._run.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressLine:
    """What the terminal shows.

    Attributes:
      phase: what the run is doing.
      update_index: updates applied.
      num_updates: updates in all.
      success_rate: of the last evaluation, or None before the first.
      details: short "name value" pairs.
    """

    phase: str
    update_index: int
    num_updates: int
    success_rate: float | None
    details: tuple[str, ...]


class Terminal:
    """Progress on the terminal: one rewritten line, or a line now and then in a log file.

    Attributes:
      interval_s: seconds between two lines where the output is no terminal.
      out: where to.
    """

    def __init__(self, *, interval_s: float, out: TextIO = sys.stderr):
        self._interval_s = interval_s
        self._out = out
        self._started = time.monotonic()
        self._first_update: int | None = None
        self._next_line = 0.0

    def show(self, line: ProgressLine, *, keep: bool = False) -> None:
        """Shows how a run stands; `keep` leaves the line on the screen."""
        self.show_text(self._text(line, time.monotonic()), keep=keep)

    def show_text(self, text: str, *, keep: bool = False) -> None:
        """Shows a line, which the next one replaces; in a log file, one line now and then."""
        now = time.monotonic()
        rewrite = self._out.isatty() and not keep
        if not (rewrite or keep) and now < self._next_line:
            return
        self._next_line = now + self._interval_s
        if rewrite:
            self._out.write(f"\r\x1b[2K{text}")
            self._out.flush()
        else:
            self.say(text)

    def say(self, text: str) -> None:
        """Shows a line that stays."""
        self._out.write(f"\r\x1b[2K{text}\n" if self._out.isatty() else f"{text}\n")
        self._out.flush()

    def _text(self, line: ProgressLine, now: float) -> str:
        if self._first_update is None:
            self._first_update = line.update_index
        done = line.update_index - self._first_update
        left = line.num_updates - line.update_index
        eta = _clock((now - self._started) / done * left) if done else "--:--"
        success = "-" if line.success_rate is None else f"{100 * line.success_rate:.1f} %"
        parts = (
            f"[{_clock(now - self._started)}] {line.phase}",
            f"update {line.update_index}/{line.num_updates}",
            f"success {success}",
            *line.details,
            f"ETA {eta}",
        )
        return "  ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes:02d}:{rest:02d}"


class Reporter:
    """Sends the numbers of each update to every sink.

    Attributes:
      workdir: the run directory.
      settings: which sinks.
      resume_at: update that the run continues from; later lines of an earlier try are cut.
    """

    def __init__(self, workdir: Path, settings: ReportingSettings, *, resume_at: int = 0):
        self._sinks: list[Sink] = [JsonLines(workdir / "log.jsonl", resume_at=resume_at)]
        if settings.tensorboard:
            self._sinks.append(TensorBoard(workdir / "tensorboard"))
        if settings.wandb_project:
            self._sinks.append(WeightsAndBiases(settings.wandb_project, workdir))
        self.terminal = Terminal(interval_s=settings.progress_interval_s)

    def close(self) -> None:
        """Closes every sink."""
        for sink in self._sinks:
            sink.close()

    def write(self, update_index: int, metrics: Mapping[str, float]) -> None:
        """Writes the metrics of one update.

        Raises:
          UnknownMetricError: a name is not listed in METRICS.
        """
        unknown = sorted(metrics.keys() - METRICS.keys())
        if unknown:
            raise UnknownMetricError(f"metrics {unknown} are not listed in jopd.reporting.METRICS")
        for sink in self._sinks:
            sink.write(update_index, metrics)
