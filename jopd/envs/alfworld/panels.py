"""Which games are for training, evaluation and the test.

Made games are as many of each task type as the official ones: 3,553 for training, 140 to evaluate
in floor plans that training knows (as valid_seen), 134 to test in floor plans that it does not
know (as valid_unseen: the first six of each kind of room).
"""

import random

from jopd.envs.alfworld.games import Game, dialect_of
from jopd.envs.alfworld.generate import choices, make_game
from jopd.envs.alfworld.official import SPLITS, read_tasks
from jopd.envs.alfworld.package import GRAMMAR, ROOM_NUMBERS, ROOMS_OF_KIND, UNSEEN_NUMBERS
from jopd.envs.alfworld.rooms import read_room
from jopd.envs.alfworld.settings import TASK_TYPES, AlfworldSettings, TaskType
from jopd.panels import Task, TaskPanel, make_known_panel, make_panel

COUNTS = {
    "train": (790, 308, 650, 459, 533, 813),
    "eval": (35, 13, 27, 16, 25, 24),
    "test": (24, 18, 31, 23, 21, 17),
}
SHA256 = {
    "train": "a879abd173c0ad4d0507c4b15571f483c16acc3058b555d13aa9bf3e7c6bd074",
    "eval": "5dbc8e15d41bdec8bde537ac62da0bd0d2cec17923b2099f887948db7d4f6866",
    "test": "f2ade3d0b69d82e74b52d4de901047b620bca74ec68838bdd904173c7d97e437",
}


def load_panel(settings: AlfworldSettings, split: str) -> TaskPanel:
    """The panel of a split: "train", "eval" or "test".

    Raises:
      ValueError: there is no such split, its games are not there or of another dialect, or made
        games are not those of the recorded hash.
    """
    if split not in SPLITS:
        raise ValueError(f"ALFWorld has the splits {', '.join(SPLITS)}, not {split!r}")
    if settings.data_dir:
        return make_panel(f"alfworld_{SPLITS[split]}", read_tasks(settings, split))
    panel = _made_panel(split)
    if not settings.task_types:
        return panel
    tasks = [task for task in panel.tasks if kind_of(task) in settings.task_types]
    return make_panel("_".join((panel.name, *settings.task_types)), tasks)


def game_of(task: Task) -> Game:
    """The made game of a task."""
    return make_game(kind_of(task), task.index, task.seed)


def kind_of(task: Task) -> TaskType:
    """The task type of a made game, as the package names it."""
    return next(kind for kind in TASK_TYPES if kind == task.task_id.split("/")[2])


def _made_panel(split: str) -> TaskPanel:
    if dialect_of(GRAMMAR) != "move":
        raise ValueError(
            "the installed alfworld package speaks the old dialect; run pip install "
            "'alfworld>=0.4.2'"
        )
    rng = random.Random(f"alfworld {split}")
    tasks = []
    for kind, count in zip(TASK_TYPES, COUNTS[split], strict=True):
        rooms = _rooms_for(kind, unseen=split == "test")
        tasks += [
            Task(
                task_id=f"alfworld/{split}/{kind}/{number}",
                domain="alfworld",
                index=rng.choice(rooms),
                seed=rng.getrandbits(31),
            )
            for number in range(count)
        ]
    rng.shuffle(tasks)
    return make_known_panel(f"alfworld_{split}", tasks, sha256=SHA256[split])


def _rooms_for(kind: TaskType, *, unseen: bool) -> list[int]:
    """Numbers of the floor plans that can have a game of this type."""
    numbers = sorted(n for room in ROOMS_OF_KIND[kind] for n in ROOM_NUMBERS[room])
    return [n for n in numbers if (n in UNSEEN_NUMBERS) == unseen and choices(kind, read_room(n))]
