import asyncio
import dataclasses

import pytest

from jopd.envs.factory import open_environment
from jopd.envs.maths.settings import MathSettings
from jopd.models.word_tokenizer import build_word_tokenizer
from jopd.rollout.demonstrations import shown_texts
from jopd.rollout.prompt_style import PromptSettings, load_style
from jopd.rollout.prompts import make_chat
from jopd.rollout.replies import format_reply, parse_reply

MATHS = open_environment(MathSettings())
TASKS = MATHS.load_panel("eval").tasks[:50]


def style(name: str):
    return load_style(PromptSettings(style=name, template_file=""))


@pytest.mark.parametrize("name", ["math_chat", "math_plain"])
def test_the_expert_is_always_right_in_one_turn(name):
    simulator = MATHS.make_simulator()
    for task in TASKS:
        assert not simulator.reset(task).done
        reply = format_reply(style(name), simulator.expert_action())
        seen = simulator.step(parse_reply(style(name), reply).action)
        assert (seen.done, seen.success, seen.reward) == (True, True, 1.0)


@pytest.mark.parametrize("reply", ["", "I do not know.", "1426", r"\boxed{100000}", r"\boxed{"])
def test_wrong_replies_and_replies_without_a_box_end_the_rollout_without_success(reply):
    simulator = MATHS.make_simulator()
    for task in TASKS:
        simulator.reset(task)
        seen = simulator.step(reply)
        assert (seen.done, seen.success, seen.reward) == (True, False, 0.0)


def test_a_second_reply_changes_nothing():
    simulator = MATHS.make_simulator()
    simulator.reset(TASKS[0])
    right = simulator.expert_action()
    wrong = simulator.step("no")
    assert simulator.is_allowed(right) is False
    assert simulator.step(right) == wrong


def test_a_reply_is_allowed_once_and_only_if_there_is_one():
    simulator = MATHS.make_simulator()
    simulator.reset(TASKS[0])
    assert simulator.is_allowed("anything")
    assert not simulator.is_allowed("")


def test_the_env_of_rollouts_plays_the_same():
    async def play():
        env = MATHS.make_env()
        seen = await env.reset(TASKS[0])
        return seen, await env.step(r"It is \boxed{1426}.")

    seen, after = asyncio.run(play())
    assert seen.observation == seen.instruction == "What is 26 + 50 * 28?"
    assert after.done and after.success


def test_a_task_of_other_problems_is_refused():
    simulator = MATHS.make_simulator()
    for change in ({"task_id": "math/4000/other"}, {"index": 4200}, {"index": -1}):
        with pytest.raises(ValueError, match="must belong together"):
            simulator.reset(dataclasses.replace(TASKS[0], **change))


def test_what_the_styles_show():
    seen = MATHS.make_simulator().reset(TASKS[0])
    (plain,) = make_chat(style("math_plain"), [], seen).messages
    assert plain == {"role": "user", "content": "What is 26 + 50 * 28?"}
    (chat,) = make_chat(style("math_chat"), [], seen).messages
    assert chat["content"] == (
        "What is 26 + 50 * 28?\n\n"
        r"Think step by step, then write your final answer inside \boxed{}."
    )


def test_a_box_among_thoughts_is_no_answer_in_a_chat():
    reply = r"<think>\boxed{1426}</think> I cannot say."
    assert parse_reply(style("math_chat"), reply).action == "I cannot say."


def test_a_small_model_can_write_every_right_answer():
    simulator, plain = MATHS.make_simulator(), style("math_plain")
    training = MATHS.load_panel("train").tasks[: MATHS.vocabulary_tasks]
    walks = MATHS.vocabulary_walks
    tokenizer = build_word_tokenizer(shown_texts(training, simulator, plain, walks=walks))
    for task in TASKS:
        question = simulator.reset(task).observation
        right = simulator.expert_action()
        for text in (question, right):
            ids = tokenizer.encode(text, add_special_tokens=False)
            assert tokenizer.unk_token_id not in ids
            assert tokenizer.decode(ids) == text
