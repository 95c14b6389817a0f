"""Prompts as data: a style file says how a turn is shown and how the reply is read."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

from jopd.envs.base import StepResult

STYLES = Path(__file__).parent / "styles"
Reply = Literal["plain", "tags"]
Message = dict[str, str]

_FIELD = re.compile(r"\{(\w+)\}")
_TURN_FIELDS = frozenset({"instruction", "observation", "actions", "objects"})
_NEXT_FIELDS = _TURN_FIELDS | {"history", "history_length", "steps_taken", "current_step"}
_ALLOWED_FIELDS = {
    "history_item": frozenset({"number", "observation", "action"}),
    "action_item": frozenset({"action"}),
    "object_item": frozenset({"object"}),
    "observation_starts_after": frozenset({"instruction"}),
    "first": _TURN_FIELDS,
    "next": _NEXT_FIELDS,
}
_ACTION_TAGS = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_THINK_TAGS = re.compile(r"<think>.*?</think>", re.DOTALL)


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
      reply: "plain" (the reply is the action) or "tags" (the action stands in <action> tags).
      accumulate: earlier turns stay in the chat as messages of their own.
      history_turns: how many earlier turns `{history}` shows.
      history_item: one earlier turn.
      history_separator: what stands between them.
      action_item: one allowed action.
      action_separator: what stands between them.
      object_item: one object that may stand in an action template.
      object_separator: what stands between them.
      observation_starts_after: the observation is shown from the end of this text on; "" for all.
      observation_replacements: (text, what is shown for it) pairs, applied to observations.
      first: the user message of the first turn.
      next: the user message of later turns.
    """

    system: str
    reply: Reply
    accumulate: bool
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
    next: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTurn:
    """What a prompt may show of an earlier turn: what was seen, the whole reply, its action."""

    seen: StepResult
    reply: str
    action: str


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
    _check_style(data, path)
    data |= {name: data[name].strip("\n") for name in ("first", "next")}
    data["observation_replacements"] = tuple(map(tuple, data["observation_replacements"]))
    return PromptStyle(**data)


def _check_style(data: dict[str, object], path: Path) -> None:
    names = {field.name for field in fields(PromptStyle)}
    if data.keys() != names:
        missing, unknown = sorted(names - data.keys()), sorted(data.keys() - names)
        raise ValueError(
            f"prompt style file {path}: missing keys {missing}, unknown keys {unknown}"
        )
    if data["reply"] not in ("plain", "tags"):
        raise ValueError(
            f"prompt style file {path}: reply must be plain or tags, not {data['reply']!r}"
        )
    for name, allowed in _ALLOWED_FIELDS.items():
        unknown = set(_FIELD.findall(str(data[name]))) - allowed
        if unknown:
            raise ValueError(
                f"prompt style file {path}: {name} uses {sorted(unknown)}; "
                f"it may use {sorted(allowed)}"
            )


def render_messages(
    style: PromptStyle, past: Sequence[PastTurn], current: StepResult, *, skip_oldest: int = 0
) -> list[Message]:
    """The chat that is shown before the next turn.

    Args:
      style: how it is shown.
      past: the earlier turns of the rollout.
      current: what the environment shows now.
      skip_oldest: how many of the earliest turns are left out of the chat and of the history.
    """
    messages = [{"role": "system", "content": style.system}] if style.system else []
    if style.accumulate:
        for number in range(skip_oldest, len(past)):
            shown = _user_text(style, past[skip_oldest:number], past[number].seen, number)
            messages.append({"role": "user", "content": shown})
            messages.append({"role": "assistant", "content": past[number].reply})
    text = _user_text(style, past[skip_oldest:], current, len(past))
    return [*messages, {"role": "user", "content": text}]


def _user_text(
    style: PromptStyle, past: Sequence[PastTurn], current: StepResult, turns_taken: int
) -> str:
    shown = past[max(0, len(past) - style.history_turns) :]
    history = style.history_separator.join(
        _fill(
            style.history_item,
            number=str(turns_taken - len(shown) + 1 + i),
            observation=_visible(style, turn.seen),
            action=turn.action,
        )
        for i, turn in enumerate(shown)
    )
    actions = (_fill(style.action_item, action=action) for action in current.allowed_actions)
    objects = (_fill(style.object_item, object=name) for name in current.objects)
    return _fill(
        style.next if shown else style.first,
        instruction=current.instruction,
        observation=_visible(style, current),
        actions=style.action_separator.join(actions),
        objects=style.object_separator.join(objects),
        history=history,
        history_length=str(len(shown)),
        steps_taken=str(turns_taken),
        current_step=str(turns_taken + 1),
    )


def _visible(style: PromptStyle, seen: StepResult) -> str:
    marker = _fill(style.observation_starts_after, instruction=seen.instruction)
    _, found, rest = seen.observation.partition(marker) if marker else ("", "", "")
    text = rest if found else seen.observation
    for old, new in style.observation_replacements:
        text = text.replace(old, new)
    return text


def _fill(template: str, **values: str) -> str:
    return _FIELD.sub(lambda match: values.get(match[1], match[0]), template)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """The action in a reply, and whether the reply had the form that the style asks for."""

    action: str
    well_formed: bool


def parse_reply(style: PromptStyle, reply: str) -> ParsedReply:
    """Finds the action in a reply; without tags where tags are asked for, the action is empty."""
    if style.reply == "plain":
        return ParsedReply(action=reply.strip(), well_formed=bool(reply.strip()))
    found = _ACTION_TAGS.search(reply)
    action = found[1].strip() if found else ""
    return ParsedReply(action=action, well_formed=bool(action) and bool(_THINK_TAGS.search(reply)))


def format_reply(style: PromptStyle, action: str) -> str:
    """The shortest reply that `parse_reply` reads as this action."""
    if style.reply == "plain":
        return action
    return f"<think></think><action>{action}</action>"
