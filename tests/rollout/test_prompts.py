import dataclasses

import pytest

from jopd.envs.base import StepResult
from jopd.rollout.prompt_style import STYLES, PromptSettings, load_style
from jopd.rollout.prompts import PastTurn, make_chat


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
    (message,) = make_chat(style("webshop_plain"), [], page("home")).messages
    assert message == {"role": "user", "content": "a red hat | | home"}


def test_a_fresh_message_shows_the_last_turns_with_their_numbers():
    (message,) = make_chat(style("webshop_gigpo"), PAST, page("item", "click[buy now]")).messages
    text = message["content"]
    assert "[Observation 2: 'results', Action 2: 'click[b1]']\n[Observation 3: 'item'" in text
    assert "Observation 1" not in text
    assert "taken 3 step(s). The last 2" in text
    assert "at step 4 and the page shows: item." in text
    assert "'click[buy now]'," in text


def test_an_accumulating_chat_repeats_every_earlier_message_as_it_was_shown():
    chat = style("webshop_accumulate")
    messages = make_chat(chat, PAST, page("item", "click[buy now]")).messages
    assert [m["role"] for m in messages] == ["user", "assistant"] * 3 + ["user"]
    for number in range(3):
        shown_then = make_chat(chat, PAST[:number], PAST[number].seen).messages
        assert messages[: 2 * number + 1] == shown_then
        assert messages[2 * number + 1]["content"] == PAST[number].reply


def test_a_window_drops_the_oldest_turns_and_keeps_their_numbers():
    messages = make_chat(style("webshop_accumulate"), PAST, page("item"), skip_oldest=2).messages
    assert len(messages) == 3
    assert "Observation 3" in messages[-1]["content"]
    assert "Observation 2" not in messages[-1]["content"]


def test_braces_in_observations_stay_as_they_are():
    (message,) = make_chat(style("webshop_plain"), [], page("{actions} {x}")).messages
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


def test_two_first_turns_show_no_history_in_the_accumulating_chat():
    chat = style("webshop_accumulate")
    second = make_chat(chat, PAST[:1], page("item")).messages[-1]["content"]
    third = make_chat(chat, PAST[:2], page("item")).messages[-1]["content"]
    assert "Observation 1" not in second
    assert "Observation 1" in third and "Observation 2" in third


def test_an_over_long_message_falls_back_to_the_one_without_history():
    short = make_chat(style("webshop_gigpo"), PAST, page("x" * 12_000)).messages[0]["content"]
    long = make_chat(style("webshop_gigpo"), PAST, page("x" * 13_000)).messages[0]["content"]
    assert "Observation 3" in short
    assert "Observation 3" not in long


def test_the_environment_says_who_speaks_and_which_tools_there_are():
    spoken = dataclasses.replace(page("result"), role="tool", tools=('{"name": "find"}',))
    heard = make_chat(style("webshop_plain"), [], spoken)
    assert heard.messages[0]["role"] == "tool"
    assert heard.tools == ()
    told = make_chat(dataclasses.replace(style("webshop_plain"), tools=True), [], spoken)
    assert told.tools == ('{"name": "find"}',)


def test_a_style_may_have_a_tool_speak_all_later_observations():
    chat = dataclasses.replace(style("webshop_accumulate"), later_role="tool", system="S")
    roles = [message["role"] for message in make_chat(chat, PAST[:2], page("item")).messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool"]
