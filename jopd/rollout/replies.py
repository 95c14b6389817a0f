"""The action in a reply, read as the public protocols read it.

"plain": the reply is the action. "tags": it stands between the first <action> tags, else it is
empty (TCOD). "verl_tags": the same, lower-cased; without tags the reply's tail is done and the turn
is invalid, as it is without <think> tags or with Chinese characters (verl-agent). "thought_action":
the rest of the line after the first "Action:" (Embodied-Planner-R1). "chat": the whole message
without its thoughts, which may be a tool call.
"""

import re
from dataclasses import dataclass

from jopd.rollout.prompt_style import PromptStyle

_ACTION_LINE = re.compile(r"Action:(.*)")
_CHINESE = re.compile("[\u4e00-\u9fff]")
_SHORTEST = {
    "plain": "{action}",
    "tags": "<think></think><action>{action}</action>",
    "verl_tags": "<think></think><action>{action}</action>",
    "thought_action": "Thought:\nAction: {action}",
    "chat": "{action}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedReply:
    """The action in a reply, and whether the reply had the form that the style asks for."""

    action: str
    well_formed: bool


def parse_reply(style: PromptStyle, reply: str) -> ParsedReply:
    """Finds the action in a reply; "" if there is none."""
    match style.reply:
        case "plain":
            return _present(reply.strip())
        case "tags":
            action = (_between(reply, "action") or "").strip()
            thought = _between(reply, "think") is not None
            return ParsedReply(action=action, well_formed=bool(action) and thought)
        case "verl_tags":
            return _parse_verl_tags(reply.lower(), tail=style.reply_tail)
        case "thought_action":
            line = _ACTION_LINE.search(reply)
            return _present(line[1].strip() if line else "")
        case "chat":
            return _present(without_thoughts(reply))


def format_reply(style: PromptStyle, action: str) -> str:
    """The shortest reply that `parse_reply` reads as this action."""
    return _SHORTEST[style.reply].replace("{action}", action)


def without_thoughts(reply: str) -> str:
    """What a reply says beside its thoughts; "" if they do not end.

    Linear in the reply's length, whatever tags it is made of.
    """
    said, place = [], 0
    while (opened := reply.find("<think>", place)) >= 0:
        said.append(reply[place:opened])
        closed = reply.find("</think>", opened)
        if closed < 0:
            return ""
        place = closed + len("</think>")
    return "".join([*said, reply[place:]]).strip()


def _present(action: str) -> ParsedReply:
    return ParsedReply(action=action, well_formed=bool(action))


def _between(reply: str, tag: str) -> str | None:
    """What stands between the first opening tag and the next closing one."""
    _, opened, rest = reply.partition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return inside if opened and closed else None


def _parse_verl_tags(reply: str, *, tail: int) -> ParsedReply:
    action = _between(reply, "action")
    well_formed = (
        action is not None
        and "<think>" in reply
        and "</think>" in reply
        and not _CHINESE.search(reply)
    )
    return ParsedReply(
        action=reply[-tail:] if action is None else action.strip(), well_formed=well_formed
    )
