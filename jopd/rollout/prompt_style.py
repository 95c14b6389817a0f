"""Prompt styles as data: how a turn is shown to the student, and how its reply is read."""

import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

STYLES = Path(__file__).parent / "styles"
Reply = Literal["plain", "tags", "verl_tags", "thought_action", "chat"]
LaterRole = Literal["environment", "tool"]
FIELD = re.compile(r"\{(\w+)\}")

_TURN_FIELDS = frozenset({"instruction", "observation", "actions", "objects"})
_NEXT_FIELDS = _TURN_FIELDS | {"history", "history_length", "steps_taken", "current_step"}
_ALLOWED_FIELDS = {
    "system": frozenset({"instruction"}),
    "history_item": frozenset({"number", "observation", "action"}),
    "action_item": frozenset({"action"}),
    "object_item": frozenset({"object"}),
    "observation_starts_after": frozenset({"instruction"}),
    "first": _TURN_FIELDS,
    "next": _NEXT_FIELDS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSettings:
    """Which style a run uses.

    Attributes:
      style: name of a file in `jopd/rollout/styles`, without its ending.
      template_file: path of a style file of your own, which then replaces `style`; "" for none.
    """

    style: str
    template_file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStyle:
    """How a turn is shown to the student and how its reply is read.

    Attributes:
      system: system message; "" for none.
      tools: the environment's tools are given to the chat template.
      reply: how the action is read; see `replies`.
      reply_tail: characters from the end of a reply without tags that are its action ("verl_tags").
      accumulate: earlier turns stay in the chat as messages of their own.
      later_role: who speaks the observations after the first: "tool", or whom the environment says.
      history_turns: how many earlier turns `{history}` shows.
      history_item: one earlier turn.
      history_separator: what stands between them.
      action_item: one allowed action.
      action_separator: what stands between them.
      object_item: one object that may stand in an action template.
      object_separator: what stands between them.
      observation_starts_after: the observation is shown from the end of this text on; "" for all.
      observation_replacements: (text, what is shown for it) pairs, applied to observations.
      first: the user message of the first turns.
      first_turns: how many turns show `first`.
      next: the user message of later turns.
      next_max_chars: a longer `next` message is replaced by `first`; 0 for no limit.
    """

    system: str
    tools: bool
    reply: Reply
    reply_tail: int
    accumulate: bool
    later_role: LaterRole
    history_turns: int
    history_item: str
    history_separator: str
    action_item: str
    action_separator: str
    object_item: str
    object_separator: str
    observation_starts_after: str
    observation_replacements: tuple[tuple[str, str], ...]
    first: str
    first_turns: int
    next: str
    next_max_chars: int


def load_style(settings: PromptSettings) -> PromptStyle:
    """Reads the style that the settings name.

    Raises:
      ValueError: the file is missing, lacks a key, or uses a field that does not exist.
    """
    path = Path(settings.template_file or STYLES / f"{settings.style}.toml")
    if not path.is_file():
        known = ", ".join(sorted(p.stem for p in STYLES.glob("*.toml")))
        raise ValueError(f"prompt style file {path} does not exist; shipped styles: {known}")
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"prompt style file {path} is not valid TOML: {error}") from error
    _check_keys(data, path)
    _check_choices(data, path)
    _check_fields(data, path)
    data |= {name: data[name].strip("\n") for name in ("system", "first", "next")}
    data["observation_replacements"] = tuple(map(tuple, data["observation_replacements"]))
    return PromptStyle(**data)


def _check_keys(data: dict[str, Any], path: Path) -> None:
    names = {field.name for field in fields(PromptStyle)}
    if data.keys() != names:
        missing, unknown = sorted(names - data.keys()), sorted(data.keys() - names)
        raise ValueError(
            f"prompt style file {path}: missing keys {missing}, unknown keys {unknown}"
        )


def _check_choices(data: dict[str, Any], path: Path) -> None:
    for name, choices in (("reply", get_args(Reply)), ("later_role", get_args(LaterRole))):
        if data[name] not in choices:
            raise ValueError(
                f"prompt style file {path}: {name} must be one of {', '.join(choices)}, not "
                f"{data[name]!r}"
            )


def _check_fields(data: dict[str, Any], path: Path) -> None:
    for name, allowed in _ALLOWED_FIELDS.items():
        unknown = set(FIELD.findall(str(data[name]))) - allowed
        if unknown:
            raise ValueError(
                f"prompt style file {path}: {name} uses {sorted(unknown)}; "
                f"it may use {sorted(allowed)}"
            )
