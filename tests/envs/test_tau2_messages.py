import pytest

from jopd.envs.tau2.messages import Call, read_message, write_call


def test_a_written_call_is_read_back():
    arguments = {"order_id": "#W1", "item_ids": ["1", "2"], "amount": 2.5}
    message = read_message(write_call("return_items", arguments))
    assert message.calls == (Call(name="return_items", arguments=arguments),)
    assert (message.text, message.fault) == ("", "")


def test_words_are_no_call():
    message = read_message("  Your order is on its way.\n")
    assert (message.text, message.calls, message.fault) == ("Your order is on its way.", (), "")


def test_several_calls_and_words_between_them_are_all_read():
    text = f"I look.\n{write_call('a', {})}\n{write_call('b', {'x': 1})} Wait."
    message = read_message(text)
    assert [call.name for call in message.calls] == ["a", "b"]
    assert message.text.split() == ["I", "look.", "Wait."]


def test_an_argument_may_hold_the_tags_of_a_call():
    nested = write_call("steal", {})
    message = read_message(write_call("find", {"name": nested}))
    assert message.calls == (Call(name="find", arguments={"name": nested}),)


def test_an_argument_of_100_kilobytes_is_read():
    assert read_message(write_call("find", {"name": "x" * 100_000})).calls[0].name == "find"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "empty"),
        ("   \n", "empty"),
        ("<tool_call></tool_call>", "cannot be read"),
        ("<tool_call>{'name': 'a', 'arguments': {}}</tool_call>", "cannot be read"),
        ('<tool_call>{"name": "a", "arguments": {}}', "must follow"),
        ('<tool_call>{"name": "a", "arguments": {}} and more</tool_call>', "must follow"),
        ('<tool_call><tool_call>{"name": "a", "arguments": {}}</tool_call>', "cannot be read"),
        ('{"name": "a", "arguments": {}}</tool_call>', "must begin"),
        ('<tool_call>{"name": "a"}</tool_call>', "only"),
        ('<tool_call>{"name": "a", "arguments": {}, "x": 1}</tool_call>', "only"),
        ('<tool_call>{"name": 1, "arguments": {}}</tool_call>', "string"),
        ('<tool_call>{"name": "a", "arguments": "{}"}</tool_call>', "an object"),
        ('<tool_call>["a"]</tool_call>', "only"),
        ('<tool_call>{"name": "a", "arguments": {"x": NaN}}</tool_call>', "NaN"),
        ('<tool_call>{"name": "a", "arguments": {"x": "\\ud800"}}</tool_call>', "cannot be read"),
        ("<tool_call>" + "[" * 100_000 + "</tool_call>", "cannot be read"),
        ('<tool_call>{"name": "a", "arguments": {"x": ' + "9" * 5000 + "}}</tool_call>", "digits"),
    ],
)
def test_what_only_looks_like_a_call_is_a_fault_and_never_an_error(text, fault):
    message = read_message(text)
    assert message.calls == ()
    assert fault in message.fault
