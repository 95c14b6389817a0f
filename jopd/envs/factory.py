"""Opens environments; nobody pays at import for one that is not played."""

import importlib.util
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from jopd.envs.alfworld.settings import AlfworldSettings
from jopd.envs.base import Env, LocalEnv, Simulator
from jopd.envs.maths.settings import MathSettings
from jopd.envs.process import Deadlines, ProcessEnv
from jopd.envs.scienceworld.settings import ScienceWorldSettings
from jopd.envs.tau2.conversation import ConversationEnv, Speak
from jopd.envs.tau2.settings import Tau2Settings
from jopd.envs.webshop.settings import WebShopSettings
from jopd.panels import TaskPanel

_ALFWORLD_PACKAGES = ("alfworld", "textworld", "fast_downward")

EnvSettings = (
    WebShopSettings | ScienceWorldSettings | AlfworldSettings | Tau2Settings | MathSettings
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenEnvironment:
    """An environment whose data is loaded once, for all that play it from this process.

    Attributes:
      make_simulator: builds one more simulator in this process.
      make_env: builds one more environment for rollouts; fragile ones live in processes.
      load_panel: the panel of a split: "train", "eval" or, where there is one, "test".
      success_rule: when a rollout has succeeded, in words.
      vocabulary_tasks: so many training tasks show a small model its words; None for all.
      vocabulary_walks: so many of them are played to their end for it.
    """

    make_simulator: Callable[[], Simulator]
    make_env: Callable[[], Env]
    load_panel: Callable[[str], TaskPanel]
    success_rule: str
    vocabulary_tasks: int | None
    vocabulary_walks: int


def open_environment(settings: EnvSettings, speak: Speak | None = None) -> OpenEnvironment:
    """Loads the environment that `settings` are for.

    Args:
      settings: of one environment.
      speak: plays the customer where the settings want a model for that.

    Raises:
      ValueError: its data or its package is missing or wrong, or a model is wanted and not given.
    """
    match settings:
        case WebShopSettings():
            return _open_webshop(settings)
        case ScienceWorldSettings():
            return _open_scienceworld(settings)
        case AlfworldSettings():
            return _open_alfworld(settings)
        case Tau2Settings():
            return _open_tau2(settings, speak)
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
        success_rule="the reward of the purchase is 1",
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
    # A start waits for Java among many others; a reset loads, then looks.
    deadlines = Deadlines(start_s=6 * answer_s, reset_s=3 * answer_s, step_s=2 * answer_s)
    return OpenEnvironment(
        make_simulator=partial(ScienceWorldSimulator, settings),
        make_env=lambda: ProcessEnv(partial(make_simulator, settings), deadlines),
        load_panel=partial(load_panel, settings.task_types),
        success_rule="the score is 100",
        vocabulary_tasks=40,
        vocabulary_walks=40 if settings.task_types else 0,
    )


def _open_alfworld(settings: AlfworldSettings) -> OpenEnvironment:
    missing = [name for name in _ALFWORLD_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"ALFWorld needs {', '.join(missing)}; run pip install 'jopd[alfworld]' (it compiles "
            "for some minutes and needs g++, cmake and make)"
        )
    from jopd.envs.alfworld.panels import load_panel
    from jopd.envs.alfworld.simulator import AlfworldSimulator

    return OpenEnvironment(
        make_simulator=partial(AlfworldSimulator, settings),
        make_env=lambda: ProcessEnv(partial(make_simulator, settings), Deadlines()),
        load_panel=partial(load_panel, settings),
        vocabulary_tasks=60,
        vocabulary_walks=60,
        success_rule="the game's own goal holds",
    )


def _open_tau2(settings: Tau2Settings, speak: Speak | None) -> OpenEnvironment:
    _prepare_tau2()
    from jopd.envs.tau2.panels import load_panel
    from jopd.envs.tau2.simulator import Tau2Simulator

    deadlines = Deadlines(reset_s=settings.answer_s, step_s=settings.answer_s)

    def make_env() -> Env:
        if settings.user == "scripted":
            return ProcessEnv(partial(make_simulator, settings), deadlines)
        if speak is None:
            raise ValueError("env.user is 'model', but no model plays the customer")
        return ConversationEnv(ProcessEnv(partial(_make_dialogue, settings), deadlines), speak)

    return OpenEnvironment(
        make_simulator=partial(Tau2Simulator, settings),
        make_env=make_env,
        load_panel=partial(load_panel, settings.domain),
        success_rule="the package's own evaluation gives reward 1; a failed call does no action",
        vocabulary_tasks=None,
        vocabulary_walks=5,
    )


def _make_dialogue(settings: Tau2Settings) -> Simulator:
    _prepare_tau2()
    from jopd.envs.tau2.dialogue import Dialogue

    return Dialogue(settings)


def _prepare_tau2() -> None:
    if importlib.util.find_spec("tau2") is None:
        raise ValueError(
            "tau2-bench is not installed; run scripts/install_tau2.sh, or pip install 'jopd[tau2]' "
            "for the package with all that it could use"
        )
    from loguru import logger

    logger.disable("tau2")  # it warns at import, and of every failed call


def _open_math(settings: MathSettings) -> OpenEnvironment:
    from jopd.envs.maths.panels import load_panel, open_book
    from jopd.envs.maths.simulator import MathSimulator

    book = open_book(settings)
    return OpenEnvironment(
        make_simulator=partial(MathSimulator, book),
        make_env=lambda: LocalEnv(MathSimulator(book)),
        load_panel=partial(load_panel, book),
        success_rule="the last boxed answer is right",
        vocabulary_tasks=200,
        vocabulary_walks=200,
    )
