"""Writes anew what every shipped prompt style shows: tests/rollout/golden/STYLE.txt.

python scripts/write_golden_prompts.py

Run it after a style was changed on purpose, and read the difference before it is committed. Each
file holds the chats before the first and the third turn of the expert's play of the first eval
task: every message with its role, then the tools, as they are before the chat template.
"""

import functools
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from jopd.envs.alfworld.settings import AlfworldSettings
from jopd.envs.base import StepResult, closing_simulator
from jopd.envs.factory import EnvSettings, open_environment
from jopd.envs.maths.settings import MathSettings
from jopd.envs.scienceworld.settings import ScienceWorldSettings
from jopd.envs.tau2.settings import Tau2Settings
from jopd.envs.webshop.settings import WebShopSettings
from jopd.rollout.prompt_style import STYLES, PromptSettings, load_style
from jopd.rollout.prompts import Chat, PastTurn, make_chat
from jopd.rollout.replies import format_reply

GOLDEN = Path(__file__).parents[1] / "tests" / "rollout" / "golden"
_ALFWORLD = AlfworldSettings()
_MATH = MathSettings()
_RETAIL = Tau2Settings(domain="retail")
_WEBSHOP = WebShopSettings()
_SCIENCEWORLD = ScienceWorldSettings(task_types=("find-animal",))
PLAYED_IN: dict[str, EnvSettings] = {  # one line for each shipped style
    "alfworld_accumulate": _ALFWORLD,
    "alfworld_gigpo": _ALFWORLD,
    "alfworld_plain": _ALFWORLD,
    "math_chat": _MATH,
    "math_plain": _MATH,
    "scienceworld_accumulate": _SCIENCEWORLD,
    "scienceworld_plain": _SCIENCEWORLD,
    "scienceworld_thought_action": _SCIENCEWORLD,
    "tau2_chat": _RETAIL,
    "tau2_plain": _RETAIL,
    "webshop_accumulate": _WEBSHOP,
    "webshop_gigpo": _WEBSHOP,
    "webshop_plain": _WEBSHOP,
}
_SHOWN = {"first": 0, "third": 2}  # turns taken before the prompt


def shipped_styles() -> list[str]:
    """Names of all style files, sorted."""
    return sorted(path.stem for path in STYLES.glob("*.toml"))


@functools.cache
def play(settings: EnvSettings) -> tuple[tuple[StepResult, str], ...]:
    """What the expert saw in the first eval task, and did; as many turns as are shown.

    Raises:
      ValueError: the environment's package, data or Java is missing.
    """
    opened = open_environment(settings)
    turns: list[tuple[StepResult, str]] = []
    with closing_simulator(opened.make_simulator()) as simulator:
        seen = simulator.reset(opened.load_panel("eval").tasks[0])
        while not seen.done and len(turns) <= max(_SHOWN.values()):
            action = simulator.expert_action()
            turns.append((seen, action))
            seen = simulator.step(action)
    return tuple(turns)


def render(name: str) -> str:
    """The golden text of a style.

    Raises:
      ValueError: its environment cannot be opened here.
    """
    style = load_style(PromptSettings(style=name, template_file=""))
    turns = play(PLAYED_IN[name])
    past = [
        PastTurn(seen=seen, reply=format_reply(style, action), action=action)
        for seen, action in turns
    ]
    return "\n".join(
        line
        for which, taken in _SHOWN.items()
        if taken < len(turns)
        for line in (
            f"===== {which} prompt =====",
            *_lines(make_chat(style, past[:taken], turns[taken][0])),
        )
    )


def _lines(chat: Chat) -> Sequence[str]:
    lines = [f"--- {message['role']} ---\n{message['content']}" for message in chat.messages]
    tools = [json.dumps(json.loads(tool), indent=1) for tool in chat.tools]
    return [*lines, *(["--- tools ---", *tools] if tools else []), ""]


def golden_path(name: str) -> Path:
    """Where the golden text of a style lies."""
    return GOLDEN / f"{name}.txt"


def main() -> None:
    """Writes all files that can be written here; exits with 1 if some cannot."""
    missing = 0
    for name in shipped_styles():
        try:
            text = render(name)
        except ValueError as problem:
            missing += 1
            print(f"{name}: not written: {problem}")
            continue
        GOLDEN.mkdir(exist_ok=True)
        golden_path(name).write_bytes(text.encode())
        print(f"{name}: {len(text):,} characters")
    if missing:
        sys.exit(f"{missing} style(s) were not written")


if __name__ == "__main__":
    main()
