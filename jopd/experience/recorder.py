"""Writes everything that a run produced to files from which batches can be composed again.

`turns-00000.jsonl`, `turns-00001.jsonl`, ... hold one turn a line, `rollouts.jsonl` one finished
rollout a line. Any thread may record. A line torn by a crash can only be the last of its file:
readers leave it out, and the next recorder cuts it.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from jopd.experience.records import Record, turn_from_record, turn_to_record
from jopd.experience.validity import make_candidate, total_tokens
from jopd.types import Candidate, Rollout, Turn

_ROLLOUTS = "rollouts.jsonl"
_BUFFER_BYTES = 1 << 20
_SHORT = {"index": "turn", "policy_version": "version"}  # names of Turn, and in the files


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTurn:
    """A turn read back.

    Attributes:
      candidate: the turn, its validity and its score, first seen when it was enqueued.
      enqueue_update: updates that had been applied when it entered the queue.
    """

    candidate: Candidate
    enqueue_update: int


class Recorder:
    """Appends finished rollouts to the files of one directory.

    Attributes:
      directory: where; made if missing, continued if there.
      turns_per_file: lines after which the next file of turns begins.
    """

    def __init__(self, directory: Path, *, turns_per_file: int = 2_000):
        self.directory = directory
        self.turns_per_file = turns_per_file
        self._lock = threading.Lock()
        directory.mkdir(parents=True, exist_ok=True)
        self._open()

    def record(self, rollout: Rollout, turns: Sequence[Turn], *, enqueue_update: int) -> None:
        """Appends a rollout.

        Args:
          rollout: how it ended.
          turns: its turns as `ExperienceQueue.put` returned them, with arrival numbers.
          enqueue_update: updates applied when they were put.

        Raises:
          OSError: the disk is full or fails; the message names the file.
        """
        records = [_turn_record(turn, enqueue_update) for turn in turns]
        with self._lock:
            for record in records:
                if self._turns.lines >= self.turns_per_file:
                    self._begin_next_file()
                self._turns.append(record)
                self._next_arrival = max(self._next_arrival, record["arrival"] + 1)
            arrival = turns[-1].arrival if turns else self._next_arrival
            self._rollouts.append(_rollout_record(rollout, len(turns), arrival, enqueue_update))

    def flush(self) -> None:
        """Writes out what is buffered; call it before a checkpoint, which may rely on it.

        Raises:
          OSError: the disk is full or fails; the message names the file.
        """
        with self._lock:
            self._turns.flush()
            self._rollouts.flush()

    def close(self) -> None:
        """Flushes and closes the files; they are closed even if that fails.

        Raises:
          OSError: the disk is full or fails; the message names the file.
        """
        with self._lock:
            try:
                self._turns.close()
            finally:
                self._rollouts.close()

    def truncate_to(self, arrival: int) -> None:
        """Cuts what was recorded after a restored point, so that nothing is recorded twice.

        Args:
          arrival: the next arrival number of the restored queue. Turns with this or a higher
            number are cut, and rollouts that ended with or after one; a rollout without turns
            counts as ended with the turn that was recorded next.
        """
        self.close()
        with self._lock:
            for path in (*_turn_files(self.directory), self.directory / _ROLLOUTS):
                _keep(path, below_arrival=arrival)
            self._open()
            self._next_arrival = arrival

    def _open(self) -> None:
        self._next_arrival = 0
        self._file_number = max(0, len(_turn_files(self.directory)) - 1)
        self._turns = _LineWriter(self._turn_file())
        self._rollouts = _LineWriter(self.directory / _ROLLOUTS)

    def _begin_next_file(self) -> None:
        self._turns.close()
        self._file_number += 1
        self._turns = _LineWriter(self._turn_file())

    def _turn_file(self) -> Path:
        return self.directory / f"turns-{self._file_number:05d}.jsonl"


def read_turns(directory: Path) -> Iterator[RecordedTurn]:
    """Reads recorded turns, nearly in order of arrival (threads may record out of turn).

    Raises:
      ValueError: a line that is not the last of its file is damaged.
    """
    for path in _turn_files(directory):
        for record in _records(path):
            yield RecordedTurn(
                candidate=Candidate(
                    turn=turn_from_record(record | {n: record[s] for n, s in _SHORT.items()}),
                    valid=record["valid"],
                    first_seen=record["enqueue_update"],
                    disagreement=record["score"],
                    effective_tokens=record["tokens"],
                ),
                enqueue_update=record["enqueue_update"],
            )


def read_rollouts(directory: Path) -> Iterator[Record]:
    """Reads how the recorded rollouts ended, in order of their end.

    Raises:
      ValueError: a line that is not the last of its file is damaged.
    """
    return _records(directory / _ROLLOUTS)


def _turn_record(turn: Turn, enqueue_update: int) -> Record:
    candidate = make_candidate(turn, first_seen=enqueue_update)
    values = turn_to_record(turn)
    return {
        "rollout_id": turn.rollout_id,
        **{short: values.pop(name) for name, short in _SHORT.items()},
        "enqueue_update": enqueue_update,
        "score": candidate.disagreement,
        "valid": candidate.valid,
        "tokens": candidate.effective_tokens,
        "total_tokens": total_tokens(turn),
        **values,
    }


def _rollout_record(rollout: Rollout, turns: int, arrival: int, enqueue_update: int) -> Record:
    return {
        "rollout_id": rollout.rollout_id,
        "task_id": rollout.task_id,
        "domain": rollout.domain,
        "turns": turns,
        "prefix_turns": rollout.prefix_turns,
        "stop_reason": rollout.stop_reason.value,
        "success": rollout.success,
        "env_done": rollout.env_done,
        "reward": rollout.env_reward,
        "error": rollout.error,
        "arrival": arrival,
        "enqueue_update": enqueue_update,
    }


class _LineWriter:
    """Appends JSON lines to a file; a torn last line of an earlier writer is cut.

    Attributes:
      path: the file.
      lines: how many lines it holds, buffered ones included.
    """

    def __init__(self, path: Path):
        self.path = path
        self.lines = _cut_torn_line(path) if path.exists() else 0
        self._buffer = bytearray()
        self._file = path.open("ab", buffering=0)

    def append(self, record: Record) -> None:
        self._buffer += json.dumps(record).encode() + b"\n"
        self.lines += 1
        if len(self._buffer) >= _BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        with _naming(self.path):
            while self._buffer:
                del self._buffer[: self._file.write(self._buffer)]

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._file.close()


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Makes an OSError say which file could not be written."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot write {path}: {error.strerror}; what was written before is kept: make room, "
            "then continue the run with --resume=auto",
        ) from error


def _turn_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("turns-*.jsonl"))


def _cut_torn_line(path: Path) -> int:
    """Cuts what follows the last whole line; returns how many lines are left."""
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        with path.open("r+b") as file:
            file.truncate(len(whole))
    return whole.count(b"\n")


def _keep(path: Path, *, below_arrival: int) -> None:
    """Rewrites a file with the lines of lower arrival numbers, or leaves it if that is all."""
    lines = path.read_bytes().splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["arrival"] < below_arrival]
    if len(kept) < len(lines):
        rewritten = path.with_suffix(".rewritten")
        with _naming(rewritten):
            rewritten.write_bytes(b"".join(kept))
            rewritten.replace(path)


def _records(path: Path) -> Iterator[Record]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}, is damaged: {error}") from error
