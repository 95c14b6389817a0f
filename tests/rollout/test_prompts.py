import pytest

from jopd.envs.base import StepResult
from jopd.rollout.prompts import (
    STYLES,
    PastTurn,
    PromptSettings,
    format_reply,
    load_style,
    parse_reply,
    render_messages,
)


def style(name: str):
    return load_style(PromptSettings(style=name, template_file=""))


def page(text: str, *actions: str) -> StepResult:
    return StepResult(
        observation=f"Instruction: [SEP] a red hat [SEP] {text}",
        instruction="a red hat",
        allowed_actions=actions,
        done=False,
        reward=0.0,
        success=False,
    )


PAST = [
    PastTurn(
        seen=page("home", "search[x]"),
        reply="<think>a</think><action>search[hat]</action>",
        action="search[hat]",
    ),
    PastTurn(
        seen=page("results", "click[b1]"),
        reply="<think>b</think><action>click[b1]</action>",
        action="click[b1]",
    ),
    PastTurn(
        seen=page("item", "click[red]"),
        reply="<think>c</think><action>click[red]</action>",
        action="click[red]",
    ),
]


def test_the_first_turn_has_no_history():
    (message,) = render_messages(style("webshop_plain"), [], page("home"))
    assert message == {"role": "user", "content": "a red hat | | home"}


def test_a_fresh_message_shows_the_last_turns_with_their_numbers():
    (message,) = render_messages(style("webshop_gigpo"), PAST, page("item", "click[buy now]"))
    text = message["content"]
    assert "[Observation 2: 'results', Action 2: 'click[b1]']\n[Observation 3: 'item'" in text
    assert "Observation 1" not in text
    assert "taken 3 step(s). The last 2" in text
    assert "at step 4 and the page shows: item." in text
    assert "'click[buy now]'," in text


def test_an_accumulating_chat_repeats_every_earlier_message_as_it_was_shown():
    chat = style("webshop_accumulate")
    messages = render_messages(chat, PAST, page("item", "click[buy now]"))
    assert [m["role"] for m in messages] == ["user", "assistant"] * 3 + ["user"]
    for number in range(3):
        shown_then = render_messages(chat, PAST[:number], PAST[number].seen)
        assert messages[: 2 * number + 1] == shown_then
        assert messages[2 * number + 1]["content"] == PAST[number].reply


def test_a_window_drops_the_oldest_turns_and_keeps_their_numbers():
    messages = render_messages(style("webshop_accumulate"), PAST, page("item"), skip_oldest=2)
    assert len(messages) == 3
    assert "Observation 3" in messages[-1]["content"]
    assert "Observation 2" not in messages[-1]["content"]


@pytest.mark.parametrize(
    ("reply", "action", "well_formed"),
    [
        ("<think>x</think><action> click[b1] </action>", "click[b1]", True),
        ("<action>click[b1]</action>", "click[b1]", False),
        ("<think>x</think>click[b1]", "", False),
        ("<think>x</think><action></action>", "", False),
        ("<think>x</think><action>a</action><action>b</action>", "a", True),
        ("<think>x</think><action>two\nlines</action>", "two\nlines", True),
        ("", "", False),
    ],
)
def test_tagged_replies(reply, action, well_formed):
    parsed = parse_reply(style("webshop_gigpo"), reply)
    assert (parsed.action, parsed.well_formed) == (action, well_formed)


@pytest.mark.parametrize("name", ["webshop_plain", "webshop_gigpo", "webshop_accumulate"])
def test_the_shortest_reply_is_read_as_its_action(name):
    parsed = parse_reply(style(name), format_reply(style(name), "click[< prev]"))
    assert (parsed.action, parsed.well_formed) == ("click[< prev]", True)


def test_braces_in_observations_stay_as_they_are():
    (message,) = render_messages(style("webshop_plain"), [], page("{actions} {x}"))
    assert message["content"].endswith("{actions} {x}")


def test_an_unknown_style_names_the_shipped_ones():
    with pytest.raises(ValueError, match="webshop_gigpo"):
        style("nonsense")


def test_a_style_file_with_wrong_keys_or_fields_is_refused(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('reply = "plain"\nsurprise = 1\n')
    with pytest.raises(ValueError, match=r"missing keys .*'first'.*unknown keys \['surprise'\]"):
        load_style(PromptSettings(style="", template_file=str(file)))
    shipped = tmp_path / "other.toml"
    text = (STYLES / "webshop_plain.toml").read_text()
    shipped.write_text(text.replace("{observation}", "{nothing}"))
    with pytest.raises(ValueError, match=r"first uses \['nothing'\]"):
        load_style(PromptSettings(style="", template_file=str(shipped)))
