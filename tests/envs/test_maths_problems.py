"""Embedded problems are right and fixed; files are read, or refused with the place of the fault."""

import json
import re
from math import gcd

import pytest

from jopd.envs.maths.embedded import embedded_problems
from jopd.envs.maths.panels import SHA256, load_panel, open_book
from jopd.envs.maths.problems import Problem, read_problems
from jopd.envs.maths.settings import MathSettings

TRAIN, EVAL = embedded_problems()


def solved(question: str) -> int:
    """The answer by counting and trying, whatever the kind."""
    numbers = [int(word) for word in re.findall(r"(?<!\w)-?\d+", question)]
    if question.startswith("Solve"):
        factor, added, total = numbers
        return next(x for x in range(-50, 51) if factor * x + added == total)
    if "remainder" in question:
        return numbers[0] % numbers[1]
    if "divisor" in question:
        return gcd(*numbers)
    if "multiples" in question:
        step, first, last = numbers
        return sum(number % step == 0 for number in range(first, last + 1))
    return numbers[0] + numbers[1] * numbers[2]


def test_the_embedded_answers_are_right():
    for problem in TRAIN + EVAL:
        assert problem.answer == str(solved(problem.question)), problem.question


def test_every_equation_of_an_embedded_working_holds():
    for problem in TRAIN[:500]:
        for left, right in re.findall(r"(-?\d+ [*-] -?\d+) = (-?\d+)", problem.working):
            a, operator, b = left.split()
            value = int(a) * int(b) if operator == "*" else int(a) - int(b)
            assert value == int(right), problem.working


def test_no_embedded_question_comes_twice():
    assert (len(TRAIN), len(EVAL)) == (4000, 200)
    assert len({problem.question for problem in TRAIN + EVAL}) == 4200


def test_the_embedded_panels_are_those_of_the_recorded_hashes():
    book = open_book(MathSettings())
    for split, size in (("train", 4000), ("eval", 200)):
        panel = load_panel(book, split)
        assert (len(panel.tasks), panel.sha256) == (size, SHA256[split])
    assert not set(load_panel(book, "train").tasks) & set(load_panel(book, "eval").tasks)
    with pytest.raises(ValueError, match="math has the splits train, eval, not 'test'"):
        load_panel(book, "test")


DAPO = {
    "prompt": [
        {
            "role": "user",
            "content": "Solve it. The last line has the form Answer: $Answer (without quotes)."
            '\n\nWhat is $1+1$?\n\nIs it even?\n\nRemember to put your answer on a line "Answer:".',
        }
    ],
    "reward_model": {"ground_truth": "2", "style": "rule"},
}


@pytest.mark.parametrize(
    ("record", "question", "answer"),
    [
        ({"problem": "What is $1+1$?", "answer": 2, "id": 60}, "What is $1+1$?", "2"),
        ({"question": " What? ", "answer": "(1,2)"}, "What?", "(1,2)"),
        ({"prompt": "What?\n\nWhy?", "answer": "0.5"}, "What?\n\nWhy?", "0.5"),
        (DAPO, "What is $1+1$?\n\nIs it even?", "2"),
    ],
)
@pytest.mark.parametrize("lines", [True, False])
def test_records_of_every_kind_are_read(tmp_path, record, question, answer, lines):
    path = tmp_path / "problems.json"
    text = json.dumps(record)
    path.write_text(f"{text}\n\n{text}\n" if lines else f"[{text},\n{text}]")
    assert read_problems(path) == (Problem(question=question, answer=answer),) * 2


GOOD = {"problem": "What?", "answer": "1"}


@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ({"answer": "1"}, "record 2 has none of the fields problem, question, prompt"),
        ({"problem": "What?"}, "record 2 has neither answer nor reward_model.ground_truth"),
        ({"problem": "What?", "reward_model": {}}, "record 2 has neither answer nor"),
        ({"problem": " ", "answer": "1"}, "record 2: problem must be a text"),
        ({"problem": "What?", "answer": ""}, "record 2: answer must be a text"),
        ({"problem": "What?", "answer": None}, "record 2: answer must be a text .* got None"),
        ({"problem": "What?", "answer": True}, "record 2: answer must be a text .* got True"),
        ({"prompt": [], "answer": "1"}, "record 2: prompt must hold one message"),
        ({"prompt": [{"role": "user"}], "answer": "1"}, "record 2: prompt must hold one message"),
        (
            {"prompt": [{"content": 3.5}], "reward_model": {"ground_truth": [1]}},
            r"record 2: reward_model.ground_truth must be .* got \[1\]",
        ),
        (7, "record 2 must be a JSON object, not 7"),
    ],
)
def test_a_fault_is_told_with_file_record_and_field(tmp_path, record, fault):
    for name, text in (
        ("list.json", json.dumps([GOOD, record])),
        ("lines.jsonl", f"{json.dumps(GOOD)}\n{json.dumps(record)}\n"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(ValueError, match=rf"{name}, {fault}"):
            read_problems(tmp_path / name)


def test_files_that_hold_no_problems_are_refused(tmp_path):
    path = tmp_path / "problems.jsonl"
    with pytest.raises(ValueError, match=r"problems.jsonl cannot be read"):
        read_problems(path)
    path.write_text(f"{json.dumps(GOOD)}\n{{")
    with pytest.raises(ValueError, match=r"problems.jsonl, record 2 is not valid JSON"):
        read_problems(path)
    for empty in ("", "[]"):
        path.write_text(empty)
        with pytest.raises(ValueError, match=r"problems.jsonl has no record"):
            read_problems(path)


def test_panels_of_files_are_their_problems_in_order(tmp_path):
    for name, count in (("train", 3), ("eval", 2)):
        lines = [json.dumps({"problem": f"{name} {i}", "answer": i}) for i in range(count)]
        (tmp_path / name).write_text("\n".join(lines))
    book = open_book(
        MathSettings(
            problems_file=str(tmp_path / "train"), eval_problems_file=str(tmp_path / "eval")
        )
    )
    assert [task.index for task in load_panel(book, "train").tasks] == [0, 1, 2]
    indices = [task.index for task in load_panel(book, "eval").tasks]
    assert [book.problems[i].question for i in indices] == ["eval 0", "eval 1"]


def test_a_file_for_one_split_only_is_refused():
    with pytest.raises(ValueError, match="needed together, or neither"):
        MathSettings(eval_problems_file="aime.jsonl")
