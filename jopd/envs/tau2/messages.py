"""What an agent or a customer sends: words, or tool calls in the form of Qwen's chat template.

A call is `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`. Whatever else looks like a
call is a fault that the sender is told in words; nothing here raises.
"""

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call: the tool's name and its arguments by name."""

    name: str
    arguments: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SentMessage:
    """A message as it was understood.

    Attributes:
      text: its words, without calls.
      calls: its tool calls, in order; none if there is a fault.
      fault: what is wrong with it; "" if nothing is.
    """

    text: str
    calls: tuple[Call, ...] = ()
    fault: str = ""


def read_message(message: str) -> SentMessage:
    """Finds words and tool calls; an argument may hold the tags of a call."""
    text, calls, rest = "", [], message
    while _OPEN in rest:
        before, _, rest = rest.partition(_OPEN)
        text += before
        try:
            call, rest = _read_call(rest)
        except (ValueError, RecursionError) as error:
            return SentMessage(text="", fault=f"this tool call cannot be read: {error}")
        calls.append(call)
    text = (text + rest).strip()
    if _CLOSE in text:
        return SentMessage(text="", fault=f"a tool call must begin with {_OPEN}")
    if not text and not calls:
        return SentMessage(text="", fault="the message is empty")
    return SentMessage(text=text, calls=tuple(calls))


def write_call(name: str, arguments: dict[str, Any]) -> str:
    """The message that makes one call."""
    return f"{_OPEN}{json.dumps({'name': name, 'arguments': arguments})}{_CLOSE}"


def _read_call(text: str) -> tuple[Call, str]:
    start = _after_space(text, 0)
    value, end = _DECODER.raw_decode(text, start)
    end = _after_space(text, end)
    if not text.startswith(_CLOSE, end):
        raise ValueError(f"{_CLOSE} must follow its JSON object")
    if not isinstance(value, dict) or value.keys() != {"name", "arguments"}:
        raise ValueError('it must be an object with "name" and "arguments" only')
    if not isinstance(value["name"], str) or not isinstance(value["arguments"], dict):
        raise ValueError('"name" must be a string and "arguments" an object')
    json.dumps(value, ensure_ascii=False).encode()  # halves of surrogate pairs are no text
    return Call(name=value["name"], arguments=value["arguments"]), text[end + len(_CLOSE) :]


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    assert match is not None  # the pattern also matches nothing
    return match.end()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
