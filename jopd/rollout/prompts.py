"""What the student is shown before a turn: the chat that a style makes of an unfinished rollout."""

from collections.abc import Sequence
from dataclasses import dataclass

from jopd.envs.base import StepResult
from jopd.rollout.prompt_style import FIELD, PromptStyle

Message = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PastTurn:
    """What a prompt may show of an earlier turn: what was seen, the whole reply, its action."""

    seen: StepResult
    reply: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """What is rendered by a chat template.

    Attributes:
      messages: each with "role" and "content".
      tools: JSON schemas of the tools that may be called.
    """

    messages: tuple[Message, ...]
    tools: tuple[str, ...] = ()


def make_chat(
    style: PromptStyle, past: Sequence[PastTurn], current: StepResult, *, skip_oldest: int = 0
) -> Chat:
    """The chat that is shown before the next turn.

    Args:
      style: how it is shown.
      past: the earlier turns of the rollout.
      current: what the environment shows now.
      skip_oldest: how many of the earliest turns are left out of the chat and of the history.
    """
    system = _fill(style.system, instruction=current.instruction)
    messages = [{"role": "system", "content": system}] if system else []
    if style.accumulate:
        for number in range(skip_oldest, len(past)):
            seen = past[number].seen
            messages.append(_shown(style, past[skip_oldest:number], seen, number))
            messages.append({"role": "assistant", "content": past[number].reply})
    messages.append(_shown(style, past[skip_oldest:], current, len(past)))
    return Chat(messages=tuple(messages), tools=current.tools if style.tools else ())


def _shown(
    style: PromptStyle, past: Sequence[PastTurn], current: StepResult, turns_taken: int
) -> Message:
    """The message that shows one observation."""
    role = current.role if style.later_role == "environment" or not turns_taken else "tool"
    nothing_to_tell = style.history_turns > 0 and not past  # all of it was dropped
    first = turns_taken < style.first_turns or nothing_to_tell
    text = _user_text(style, past, current, turns_taken, first=first)
    if style.next_max_chars and len(text) > style.next_max_chars:
        text = _user_text(style, past, current, turns_taken, first=True)
    return {"role": role, "content": text}


def _user_text(
    style: PromptStyle,
    past: Sequence[PastTurn],
    current: StepResult,
    turns_taken: int,
    *,
    first: bool,
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
        style.first if first else style.next,
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
    return FIELD.sub(lambda match: values.get(match[1], match[0]), template)
