"""Opens environments; nobody pays at import for one that is not played."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jopd.envs.base import Simulator
from jopd.envs.webshop.settings import WebShopSettings
from jopd.tasks import TaskPanel

EnvSettings = WebShopSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEnvironment:
    """An environment whose data is loaded once, for all simulators of this process.

    Attributes:
      make_simulator: builds one more simulator over the shared data.
      load_panel: the panel of a split: "train", "eval" or "test".
    """

    make_simulator: Callable[[], Simulator]
    load_panel: Callable[[str], TaskPanel]


def open_environment(settings: EnvSettings) -> OpenEnvironment:
    """Loads the environment that `settings` are for.

    Raises:
      ValueError: its data is missing or wrong.
    """
    from jopd.envs.webshop.panels import load_panel
    from jopd.envs.webshop.simulator import WebShopSimulator
    from jopd.envs.webshop.world import open_shop

    shop = open_shop(settings)
    return OpenEnvironment(
        make_simulator=partial(WebShopSimulator, shop), load_panel=partial(load_panel, shop)
    )


def make_simulator(settings: EnvSettings) -> Simulator:
    """One simulator with data of its own; for several, see `open_environment`."""
    return open_environment(settings).make_simulator()


def load_panel(settings: EnvSettings, split: str) -> TaskPanel:
    """The panel of a split of the environment that `settings` are for."""
    return open_environment(settings).load_panel(split)
