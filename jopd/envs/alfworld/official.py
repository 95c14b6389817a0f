"""The official games, as `alfworld-download` lays them out; they are read, never written.

A task's seed holds the first bits of its game file's hash: a panel's hash therefore covers what
the games contain, and a game that has changed since the panel was made is not played.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jopd.envs.alfworld.games import Game, dialect_of
from jopd.envs.alfworld.settings import TASK_TYPES, AlfworldSettings, Dialect
from jopd.envs.base import EnvError
from jopd.panels import Task

SPLITS = {"train": "train", "eval": "valid_seen", "test": "valid_unseen"}
GAME_FILE = "game.tw-pddl"
_RELEASE = "json_2.1.1"
_UNSUPPORTED = ("movable", "Sliced")  # in the folder's name; the package leaves them out too
_WHAT_TO_DO: dict[Dialect, str] = {
    "move": "download the data again with alfworld-download of alfworld 0.4 or newer, or, for a "
    'teacher of the old games, set env.dialect to "put"',
    "put": 'set env.dialect to "move", or give the data of a release before 0.4',
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    task: Task
    dialect: Dialect


def read_tasks(settings: AlfworldSettings, split: str) -> list[Task]:
    """The tasks of a split, sorted by their folders' names.

    Raises:
      ValueError: there is no such data, a file is broken, or games are not of the dialect that the
        settings ask for.
    """
    root = Path(settings.data_dir) / _RELEASE
    folder = root / SPLITS[split]
    if not folder.is_dir():
        raise ValueError(
            f"there are no official games in {folder}; run alfworld-download, and set env.data_dir "
            f"to the folder that contains {_RELEASE}"
        )
    paths = sorted(folder.rglob("traj_data.json"), key=lambda path: path.relative_to(root).parts)
    found = list(_games(root, paths, settings))
    if not found:
        raise ValueError(f"none of the {len(paths)} folders in {folder} holds a game to play")
    counts = Counter(game.dialect for game in found)
    if counts.keys() != {settings.dialect}:
        told = ", ".join(f'{n} of the dialect "{dialect}"' for dialect, n in sorted(counts.items()))
        raise ValueError(
            f'{folder} has games {told}; env.dialect asks for "{settings.dialect}": '
            f"{_WHAT_TO_DO[settings.dialect]}"
        )
    return [game.task for game in found]


def _games(root: Path, paths: list[Path], settings: AlfworldSettings) -> Iterator[_Found]:
    """Solvable games of the six task types among the folders, as the package chooses them."""
    wanted = settings.task_types or TASK_TYPES
    number = 0
    for path in paths:
        folder = path.parent.relative_to(root).as_posix()
        game_path = path.parent / GAME_FILE
        if any(word in folder for word in _UNSUPPORTED) or not game_path.is_file():
            continue
        content = game_path.read_bytes()
        data = _parsed(content, game_path)
        kind = _parsed(path.read_bytes(), path)["task_type"]
        if not data.get("solvable") or kind not in wanted:
            continue
        task = Task(
            task_id=f"alfworld/{folder}", domain="alfworld", index=number, seed=_mark(content)
        )
        yield _Found(task=task, dialect=dialect_of(data["grammar"]))
        number += 1


def read_game(settings: AlfworldSettings, task: Task) -> Game:
    """The game of a task.

    Raises:
      EnvError: its file is missing, or has changed since the panel was made.
    """
    path = Path(settings.data_dir) / _RELEASE / task.task_id.partition("/")[2] / GAME_FILE
    try:
        content = path.read_bytes()
    except OSError as error:
        raise EnvError(f"the game of {task.task_id} cannot be read: {error}") from error
    if _mark(content) != task.seed:
        raise EnvError(f"{path} has changed since the panel was made; results would not compare")
    data = json.loads(content)
    return Game(
        domain=data["pddl_domain"],
        grammar=data["grammar"],
        problem=data["pddl_problem"],
        walkthrough=tuple(data.get("walkthrough") or ()),
    )


def _parsed(content: bytes, path: Path) -> dict[str, Any]:
    try:
        return json.loads(content)
    except ValueError as error:
        raise ValueError(f"{path} is not valid JSON: {error}") from error


def _mark(content: bytes) -> int:
    """The first 31 bits of the content's hash."""
    return int(hashlib.sha256(content).hexdigest()[:8], 16) >> 1
