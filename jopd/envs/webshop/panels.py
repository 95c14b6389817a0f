"""Which goals are for training, for evaluation and for the test."""

import numpy as np

from jopd.envs.webshop.embedded import DATA_FOLDER, PANELS, recorded_sha256
from jopd.envs.webshop.world import WebShop
from jopd.panels import TaskPanel, make_panel, read_panel

SPLITS = tuple(PANELS)
_GIGPO_GOALS, _GIGPO_SEED = 500, 1000  # verl-agent: goals of its evaluation, added to its seed


def load_panel(shop: WebShop, split: str) -> TaskPanel:
    """The panel of a split: "train", "eval" or "test".

    The embedded shop's panels are files. Its eval panel asks for known products with choices of
    options that training never asked for; its test panel for products that no training goal has.
    Panels of other shops are ranges of goal numbers: the test goals first, then the eval goals,
    then all others for training; or those of the GiGPO protocol, see `WebShopSettings`.

    Raises:
      ValueError: there is no such split, its panel's file has changed or does not fit the shop, or
        the shop has too few goals.
    """
    if split not in SPLITS:
        raise ValueError(f"WebShop has the splits {', '.join(SPLITS)}, not {split!r}")
    if shop.settings.items_file:
        numbers = _split(shop)[split]
        if not numbers:
            raise ValueError(_no_goal(shop, split))
        return make_panel(f"webshop_{split}", [shop.task(number) for number in numbers])
    panel = read_panel(DATA_FOLDER / PANELS[split], sha256=recorded_sha256(PANELS[split]))
    for task in panel.tasks:
        if task.index >= len(shop.goals) or shop.task(task.index) != task:
            raise ValueError(
                f"panel {panel.name}: task {task.task_id} is not goal {task.index} of this shop; "
                "data files and panels must be made together"
            )
    return panel


def _split(shop: WebShop) -> dict[str, list[int]]:
    """Goal numbers of each split, in the order in which they are played."""
    settings, total = shop.settings, len(shop.goals)
    if settings.protocol == "gigpo":
        # One draw of n goals without replacement begins as this permutation does.
        first = min(_GIGPO_GOALS, total)
        order = np.random.RandomState(settings.goals_seed + _GIGPO_SEED).permutation(first)
        return {"test": [], "eval": order.tolist(), "train": list(range(first, total))}
    tested = min(settings.test_goals, total)
    evaluated = min(tested + settings.eval_goals, total)
    return {
        "test": list(range(tested)),
        "eval": list(range(tested, evaluated)),
        "train": list(range(evaluated, total)),
    }


def _no_goal(shop: WebShop, split: str) -> str:
    settings, total = shop.settings, len(shop.goals)
    if settings.protocol == "gigpo":
        return (
            f"no goal is left for the split {split!r}: protocol gigpo has no test split and "
            f"trains on what is left after {_GIGPO_GOALS} goals; the shop has {total}"
        )
    return (
        f"no goal is left for the split {split!r}: the shop has {total}, test_goals is "
        f"{settings.test_goals} and eval_goals is {settings.eval_goals}"
    )
