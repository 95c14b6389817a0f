"""Tasks, and the panels they are played in: files with hashes, always in the same order.

Light to import: the processes of environments read nothing else of jopd's data.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_HEADER = "task_id\tdomain\tindex\tseed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One episode to play.

    Attributes:
      task_id: unique inside its panel, and stable across runs.
      domain: which environment, and so which teacher, the task belongs to.
      index: where the environment finds it: goal number, variation, game.
      seed: environment seed of this task.
    """

    task_id: str
    domain: str
    index: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPanel:
    """A fixed list of tasks; evaluation plays it in this order.

    Attributes:
      name: of the panel.
      tasks: the tasks, with distinct ids.
      sha256: hash of the panel's file, or of the file that it would make.
    """

    name: str
    tasks: tuple[Task, ...]
    sha256: str


def make_panel(name: str, tasks: Iterable[Task]) -> TaskPanel:
    """A panel of tasks that come from elsewhere than a file.

    Raises:
      ValueError: there is no task, or two have one id.
    """
    tasks = tuple(tasks)
    if not tasks:
        raise ValueError(f"panel {name} has no tasks")
    if len({task.task_id for task in tasks}) < len(tasks):
        raise ValueError(f"panel {name} has a task twice")
    return TaskPanel(name=name, tasks=tasks, sha256=_sha256(panel_text(tasks)))


def make_known_panel(name: str, tasks: Iterable[Task], *, sha256: str) -> TaskPanel:
    """`make_panel` for tasks that must be those of a recorded hash.

    Raises:
      ValueError: there is no task, two have one id, or they are not those of the hash `sha256`.
    """
    panel = make_panel(name, tasks)
    if panel.sha256 != sha256:
        raise ValueError(
            f"panel {name} has the sha256 {panel.sha256}, expected {sha256}: another version of "
            "its package or of jopd made it, and results on it would not compare with earlier ones"
        )
    return panel


def panel_text(tasks: Iterable[Task]) -> str:
    """The content of a panel's file: a header, then one task on each line, fields split by tabs."""
    lines = [f"{task.task_id}\t{task.domain}\t{task.index}\t{task.seed}" for task in tasks]
    return "\n".join([_HEADER, *lines, ""])


def read_panel(path: Path, *, sha256: str) -> TaskPanel:
    """Reads a panel's file, named after it.

    Raises:
      ValueError: the file is missing, is not the one with the hash `sha256`, or is no panel.
    """
    try:
        text = path.read_text()
    except OSError as error:
        raise ValueError(f"panel {path} cannot be read: {error}") from error
    if _sha256(text) != sha256:
        raise ValueError(
            f"panel {path} has changed: its sha256 is {_sha256(text)}, expected {sha256}; results "
            "on it would not compare with earlier ones"
        )
    header, *lines = text.splitlines()
    if header != _HEADER:
        raise ValueError(f"panel {path} must begin with the line {_HEADER!r}")
    return make_panel(
        path.stem, [_parse(line, f"panel {path}, line {n}") for n, line in enumerate(lines, 2)]
    )


def _parse(line: str, where: str) -> Task:
    try:
        task_id, domain, index, seed = line.split("\t")
        return Task(task_id=task_id, domain=domain, index=int(index), seed=int(seed))
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
