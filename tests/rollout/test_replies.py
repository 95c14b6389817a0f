from dataclasses import replace

import pytest

from jopd.rollout.prompt_style import STYLES, PromptSettings, load_style
from jopd.rollout.replies import format_reply, parse_reply


def style(name: str):
    return load_style(PromptSettings(style=name, template_file=""))


PLAIN = style("webshop_plain")


def read(kind: str, reply: str) -> tuple[str, bool]:
    parsed = parse_reply(replace(PLAIN, reply=kind, reply_tail=5), reply)
    return parsed.action, parsed.well_formed


@pytest.mark.parametrize(
    ("reply", "action", "well_formed"),
    [
        ("<think>x</think><action> click[B1] </action>", "click[B1]", True),
        ("<action>click[b1]</action>", "click[b1]", False),
        ("<think>x</think>click[b1]", "", False),
        ("<think>x</think><action></action>", "", False),
        ("<think>x</think><action>a</action><action>b</action>", "a", True),
        ("<think>x</think><action>two\nlines</action>", "two\nlines", True),
        ("<think>x</think></action>a<action>", "", False),
        ("<think>x</think><action>a", "", False),
        ("<ACTION>a</ACTION>", "", False),
        ("", "", False),
    ],
)
def test_tagged_replies(reply, action, well_formed):
    assert read("tags", reply) == (action, well_formed)


@pytest.mark.parametrize(
    ("reply", "action", "well_formed"),
    [
        ("<think>x</think><action> Go To B1 </action>", "go to b1", True),
        ("<THINK>x</THINK><ACTION>look</ACTION>", "look", True),
        ("<action>look</action>", "look", False),  # done, but invalid
        ("<think>x<action>look</action>", "look", False),
        ("I would LOOK", " look", False),  # the last five characters
        ("<think>\u770b</think><action>look</action>", "look", False),
        ("<think>caf\u00e9 \u2011</think><action>look</action>", "look", True),
        ("ab", "ab", False),
        ("", "", False),
    ],
)
def test_replies_of_the_verl_agent_protocol(reply, action, well_formed):
    assert read("verl_tags", reply) == (action, well_formed)


@pytest.mark.parametrize(
    ("reply", "action", "well_formed"),
    [
        ("Thought: I see.\nAction: open door", "open door", True),
        ("Action:open door\nAction: close door", "open door", True),
        ("Action: open door\nObservation: made up", "open door", True),
        ("Thought: I see.", "", False),
        ("Action:\nopen door", "", False),
        ("action: open door", "", False),
    ],
)
def test_replies_of_thought_and_action_lines(reply, action, well_formed):
    assert read("thought_action", reply) == (action, well_formed)


@pytest.mark.parametrize(
    ("reply", "action", "well_formed"),
    [
        ("<think>hm</think>\nHello.", "Hello.", True),
        ("Hello <think>hm</think> you", "Hello  you", True),
        ('<tool_call>{"name": "x"}</tool_call>', '<tool_call>{"name": "x"}</tool_call>', True),
        ("<think>never finished", "", False),
        ("<think>a</think> b <think>c", "", False),
        ("<think>a</think>", "", False),
        ("", "", False),
    ],
)
def test_replies_of_a_chat(reply, action, well_formed):
    assert read("chat", reply) == (action, well_formed)


@pytest.mark.parametrize("name", sorted(path.stem for path in STYLES.glob("*.toml")))
def test_the_shortest_reply_is_read_as_its_action(name):
    parsed = parse_reply(style(name), format_reply(style(name), "click[< prev]"))
    assert (parsed.action, parsed.well_formed) == ("click[< prev]", True)


def test_braces_in_an_action_stay_as_they_are():
    assert format_reply(PLAIN, "{action} {x}") == "{action} {x}"
