"""DivOPD's split of ScienceWorld: 17 task types for training, 13 others held out (Table 6).

Of each type the first half of its variations is taken. The order of training is that of the
released script (Python's shuffle with seed 42). The script's held-out order depends on the hash
seed of its process; ours shuffles the types in the order of the paper's table, with the same
generator, after the training order.
"""

import random
from collections.abc import Sequence

from jopd.panels import Task, TaskPanel, make_known_panel, make_panel

TRAIN_VARIATIONS = {
    "boil": 30,
    "melt": 30,
    "change-the-state-of-matter-of": 30,
    "use-thermometer": 540,
    "measure-melting-point-known-substance": 436,
    "power-component": 20,
    "test-conductivity": 900,
    "find-living-thing": 300,
    "find-plant": 300,
    "grow-plant": 126,
    "chemistry-mix": 32,
    "chemistry-mix-paint-secondary-color": 36,
    "lifespan-shortest-lived": 125,
    "identify-life-stages-2": 10,
    "inclined-plane-determine-angle": 168,
    "inclined-plane-friction-named-surfaces": 1386,
    "mendelian-genetics-known-plant": 120,
}
HELD_OUT_VARIATIONS = {
    "freeze": 30,
    "measure-melting-point-unknown-substance": 300,
    "power-component-renewable-vs-nonrenewable-energy": 20,
    "test-conductivity-of-unknown-substances": 600,
    "find-non-living-thing": 300,
    "find-animal": 300,
    "grow-fruit": 126,
    "chemistry-mix-paint-tertiary-color": 36,
    "lifespan-longest-lived": 125,
    "lifespan-longest-lived-then-shortest-lived": 125,
    "identify-life-stages-1": 14,
    "inclined-plane-friction-unnamed-surfaces": 162,
    "mendelian-genetics-unknown-plant": 480,
}
SHA256 = {
    "train": "addb73e7f69dc7bf8888669b82fcf7da88a7e4f48e7caf269bc881b2cbf51f15",
    "eval": "4640db76513ae152d5d46e74f21c1a848104a39aaf69968e1a82c1fe0d9ac2c0",
}
_SEED = 42


def load_panel(task_types: Sequence[str], split: str) -> TaskPanel:
    """The panel of a split: "train" (2,294 tasks) or "eval" (1,308 tasks of other types).

    Args:
      task_types: if any, their first halves are for training and their second halves are held out.
      split: "train" or "eval".

    Raises:
      ValueError: there is no such split or type, or the tasks are not those of the recorded hash.
    """
    if split not in SHA256:
        raise ValueError(f"ScienceWorld has the splits {', '.join(SHA256)}, not {split!r}")
    return _panel_of_types(task_types, split) if task_types else _papers_panel(split)


def _panel_of_types(task_types: Sequence[str], split: str) -> TaskPanel:
    counts = TRAIN_VARIATIONS | HELD_OUT_VARIATIONS
    unknown = [kind for kind in task_types if kind not in counts]
    if unknown:
        raise ValueError(
            f"ScienceWorld has no task types {', '.join(unknown)}; there are "
            f"{', '.join(sorted(counts))}"
        )
    halves = {
        "train": {kind: range(counts[kind] // 2) for kind in task_types},
        "eval": {kind: range(counts[kind] // 2, counts[kind]) for kind in task_types},
    }
    tasks = [_task(kind, number) for kind, numbers in halves[split].items() for number in numbers]
    random.Random(_SEED).shuffle(tasks)
    return make_panel(f"scienceworld_{split}", tasks)


def _papers_panel(split: str) -> TaskPanel:
    generator = random.Random(_SEED)
    panels = {}
    for name, variations in (("train", TRAIN_VARIATIONS), ("eval", HELD_OUT_VARIATIONS)):
        tasks = [_task(kind, i) for kind, count in variations.items() for i in range(count // 2)]
        generator.shuffle(tasks)
        panels[name] = tasks
    return make_known_panel(f"scienceworld_{split}", panels[split], sha256=SHA256[split])


def kind_of(task: Task) -> str:
    """The task type, as the package names it."""
    return task.task_id.split("/")[1]


def _task(kind: str, variation: int) -> Task:
    return Task(
        task_id=f"scienceworld/{kind}/{variation}", domain="scienceworld", index=variation, seed=0
    )
