"""Opens environments; nobody pays at import for one that is not played."""

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jopd.envs.base import Env, LocalEnv, Simulator
from jopd.envs.maths.settings import MathSettings
from jopd.envs.process import Deadlines, ProcessEnv
from jopd.envs.scienceworld.settings import ScienceWorldSettings
from jopd.envs.webshop.settings import WebShopSettings
from jopd.tasks import TaskPanel

EnvSettings = WebShopSettings | ScienceWorldSettings | MathSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEnvironment:
    """An environment whose data is loaded once, for all that play it from this process.

    Attributes:
      make_simulator: builds one more simulator in this process.
      make_env: builds one more environment for rollouts; fragile ones live in processes.
      load_panel: the panel of a split: "train", "eval" or, where there is one, "test".
      vocabulary_tasks: so many training tasks show a small model its words; None for all.
      vocabulary_walks: so many of them are played to their end for it.
    """

    make_simulator: Callable[[], Simulator]
    make_env: Callable[[], Env]
    load_panel: Callable[[str], TaskPanel]
    vocabulary_tasks: int | None
    vocabulary_walks: int


def open_environment(settings: EnvSettings) -> OpenEnvironment:
    """Loads the environment that `settings` are for.

    Raises:
      ValueError: its data or its package is missing or wrong.
    """
    match settings:
        case WebShopSettings():
            return _open_webshop(settings)
        case ScienceWorldSettings():
            return _open_scienceworld(settings)
        case MathSettings():
            return _open_math(settings)


def make_simulator(settings: EnvSettings) -> Simulator:
    """One simulator with data of its own, for a process of its own."""
    return open_environment(settings).make_simulator()


def _open_webshop(settings: WebShopSettings) -> OpenEnvironment:
    from jopd.envs.webshop.panels import load_panel
    from jopd.envs.webshop.simulator import WebShopSimulator
    from jopd.envs.webshop.world import open_shop

    shop = open_shop(settings)
    return OpenEnvironment(
        make_simulator=partial(WebShopSimulator, shop),
        make_env=lambda: LocalEnv(WebShopSimulator(shop)),
        load_panel=partial(load_panel, shop),
        vocabulary_tasks=None,
        vocabulary_walks=500,
    )


def _open_scienceworld(settings: ScienceWorldSettings) -> OpenEnvironment:
    if importlib.util.find_spec("scienceworld") is None:
        raise ValueError("ScienceWorld is not installed; run pip install 'jopd[scienceworld]'")
    if shutil.which("java") is None:
        raise ValueError("ScienceWorld needs Java 11 or newer, and there is no java on the PATH")
    from jopd.envs.scienceworld.panels import load_panel
    from jopd.envs.scienceworld.simulator import ScienceWorldSimulator

    answer_s = settings.answer_s
    deadlines = Deadlines(reset_s=3 * answer_s, step_s=2 * answer_s)  # a reset loads, then looks
    return OpenEnvironment(
        make_simulator=partial(ScienceWorldSimulator, settings),
        make_env=lambda: ProcessEnv(partial(make_simulator, settings), deadlines),
        load_panel=load_panel,
        vocabulary_tasks=40,
        vocabulary_walks=0,
    )


def _open_math(settings: MathSettings) -> OpenEnvironment:
    from jopd.envs.maths.panels import load_panel, open_book
    from jopd.envs.maths.simulator import MathSimulator

    book = open_book(settings)
    return OpenEnvironment(
        make_simulator=partial(MathSimulator, book),
        make_env=lambda: LocalEnv(MathSimulator(book)),
        load_panel=partial(load_panel, book),
        vocabulary_tasks=200,
        vocabulary_walks=200,
    )
