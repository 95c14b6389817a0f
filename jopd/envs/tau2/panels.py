"""The package's own splits: 74 tasks for training and its 40 test tasks for evaluation."""

from jopd.envs.tau2.settings import Domain
from jopd.envs.tau2.world import split_ids
from jopd.panels import Task, TaskPanel, make_known_panel

_PACKAGE_SPLIT = {"train": "train", "eval": "test"}
SHA256 = {
    ("retail", "train"): "226ffabc802a64ac1a88f7a168a6bdcfdc94f6de884c7b9aa21c5938ec98e334",
    ("retail", "eval"): "4abc9be831a19c18f679f6a2341ea93fa31cb86026293c72d14dd42f29c44528",
    ("telecom", "train"): "3635621f2a55f5db2a6247beeafbdec2f3d9f086af7aca7156c76fee01f7da73",
    ("telecom", "eval"): "c589ac67b607d502e5e248b29c8ae47b684a12bf03c497f09d1861ba8ab56a2d",
}


def load_panel(domain: Domain, split: str) -> TaskPanel:
    """The panel of a split, "train" or "eval", in the order of the package's file.

    Raises:
      ValueError: there is no such split, or its tasks are not those of the recorded hash.
    """
    if split not in _PACKAGE_SPLIT:
        raise ValueError(f"tau2 has the splits {', '.join(_PACKAGE_SPLIT)}, not {split!r}")
    ids = split_ids(domain, _PACKAGE_SPLIT[split])
    tasks = [
        Task(task_id=f"{domain}/{name}", domain=domain, index=index, seed=0)
        for index, name in enumerate(ids)
    ]
    return make_known_panel(f"tau2_{domain}_{split}", tasks, sha256=SHA256[domain, split])
