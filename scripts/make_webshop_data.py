"""Rebuilds the embedded WebShop data: catalogue, panels and their hashes.

    python scripts/make_webshop_data.py

The same files come out every time. Panels change when anything about goals does; results on old and
new panels do not compare.
"""

import gzip
import hashlib
import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from absl import app, flags

from jopd.envs.webshop.catalogue import read_products
from jopd.envs.webshop.embedded import (
    ATTRIBUTES_FILE,
    DATA_FOLDER,
    HASHES_FILE,
    ITEMS_FILE,
    PANELS,
)
from jopd.envs.webshop.generate import SEED, make_catalogue
from jopd.envs.webshop.goals import Goal, make_goals
from jopd.envs.webshop.world import goal_task
from jopd.panels import panel_text

EVAL_GOALS = 256
TEST_PRODUCTS = 50

_FOLDER = flags.DEFINE_string("folder", str(DATA_FOLDER), "where to write the files")


def write_data(folder: Path) -> None:
    """Writes all files to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    items, about = make_catalogue()
    _write_json(folder / ITEMS_FILE, items)
    _write_json(folder / ATTRIBUTES_FILE, about)
    goals = make_goals(
        read_products(folder / ITEMS_FILE, folder / ATTRIBUTES_FILE), human=False, seed=233
    )
    for split, numbers in _split(goals).items():
        tasks = [goal_task(number, goals[number]) for number in numbers]
        (folder / PANELS[split]).write_text(panel_text(tasks))
    names = [ITEMS_FILE, ATTRIBUTES_FILE, *PANELS.values()]
    (folder / HASHES_FILE).write_text("".join(_hash_line(folder / name) for name in names))


def _split(goals: tuple[Goal, ...]) -> dict[str, Iterable[int]]:
    """Goal numbers: test goals of products kept apart, eval goals at random, the rest for training.

    No more than one eval goal is made of a product, so that training knows its other goals.
    """
    rng = random.Random(SEED)
    apart = set(rng.sample(sorted({goal.asin for goal in goals}), TEST_PRODUCTS))
    shuffled = rng.sample(range(len(goals)), len(goals))
    by_product = {goals[number].asin: number for number in shuffled}
    known = [number for asin, number in by_product.items() if asin not in apart]
    evaluated = rng.sample(known, EVAL_GOALS)
    trained = set(range(len(goals))) - set(evaluated)
    return {
        "train": [number for number in sorted(trained) if goals[number].asin not in apart],
        "eval": evaluated,
        "test": [number for number in shuffled if goals[number].asin in apart],
    }


def _write_json(path: Path, content: Any) -> None:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def _hash_line(path: Path) -> str:
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"


def _main(argv: list[str]) -> None:
    if len(argv) > 1:
        raise app.UsageError(f"unexpected arguments: {argv[1:]}")
    write_data(Path(_FOLDER.value))


if __name__ == "__main__":
    app.run(_main)
