"""Which goals are for training, for evaluation and for the test."""

from jopd.envs.webshop.embedded import DATA_FOLDER, PANELS, recorded_sha256
from jopd.envs.webshop.world import WebShop
from jopd.panels import TaskPanel, make_panel, read_panel

SPLITS = tuple(PANELS)


def load_panel(shop: WebShop, split: str) -> TaskPanel:
    """The panel of a split: "train", "eval" or "test".

    The embedded shop's panels are files. Its eval panel asks for known products with choices of
    options that training never asked for; its test panel for products that no training goal has.
    Panels of other shops are ranges of goal numbers: the test goals first, then the eval goals,
    then all others for training.

    Raises:
      ValueError: there is no such split, its panel's file has changed or does not fit the shop, or
        the shop has too few goals.
    """
    if split not in SPLITS:
        raise ValueError(f"WebShop has the splits {', '.join(SPLITS)}, not {split!r}")
    if shop.settings.items_file:
        return _panel_of_range(shop, split)
    panel = read_panel(DATA_FOLDER / PANELS[split], sha256=recorded_sha256(PANELS[split]))
    for task in panel.tasks:
        if task.index >= len(shop.goals) or shop.task(task.index) != task:
            raise ValueError(
                f"panel {panel.name}: task {task.task_id} is not goal {task.index} of this shop; "
                "data files and panels must be made together"
            )
    return panel


def _panel_of_range(shop: WebShop, split: str) -> TaskPanel:
    settings, total = shop.settings, len(shop.goals)
    tested = min(settings.test_goals, total)
    evaluated = min(tested + settings.eval_goals, total)
    numbers = {
        "test": range(tested),
        "eval": range(tested, evaluated),
        "train": range(evaluated, total),
    }[split]
    if not numbers:
        raise ValueError(
            f"no goal is left for the split {split!r}: the shop has {total}, test_goals is "
            f"{settings.test_goals} and eval_goals is {settings.eval_goals}"
        )
    return make_panel(f"webshop_{split}", [shop.task(number) for number in numbers])
