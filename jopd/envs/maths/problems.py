"""Problems with known answers, read from files of the kinds in which AIME and DAPO are published.

A file is a JSON list of records or has one JSON record on each line. A record has its question
under "problem", "question" or "prompt", which may also be a chat of one message, and its answer
under "answer" or under "ground_truth" of "reward_model".
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_QUESTION_FIELDS = ("problem", "question", "prompt")
# DAPO's prompts ask for a last line "Answer: ..."; ours ask for a box.
_ANSWER_LINE, _REMINDER = "form Answer: $Answer", "Remember to put your answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem.

    Attributes:
      question: what is asked.
      answer: the final answer, as `answers.same_answer` compares it.
      working: the way to it, in a line; "" where nobody wrote it.
    """

    question: str
    answer: str
    working: str = ""


def read_problems(path: Path) -> tuple[Problem, ...]:
    """The problems of a JSON or JSONL file, in its order.

    Raises:
      ValueError: the file cannot be read, has no record, or a record lacks something; names file,
        record (from 1) and field.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"problems file {path} cannot be read: {error}") from error
    problems = tuple(_problem(record, where) for record, where in _records(text, path))
    if not problems:
        raise ValueError(f"problems file {path} has no record")
    return problems


def _records(text: str, path: Path) -> Iterator[tuple[Any, str]]:
    if text.lstrip().startswith("["):
        records = _parsed(text, f"problems file {path}")
        for number, record in enumerate(records, 1):
            yield record, f"problems file {path}, record {number}"
        return
    lines = (line for line in text.split("\n") if line.strip())
    for number, line in enumerate(lines, 1):
        where = f"problems file {path}, record {number}"
        yield _parsed(line, where), where


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is not valid JSON: {error}") from error


def _problem(record: Any, where: str) -> Problem:
    if not isinstance(record, dict):
        raise ValueError(f"{where} must be a JSON object, not {record!r:.80}")
    return Problem(question=_question(record, where), answer=_answer(record, where))


def _question(record: dict[str, Any], where: str) -> str:
    name = next((name for name in _QUESTION_FIELDS if name in record), None)
    if name is None:
        raise ValueError(f"{where} has none of the fields {', '.join(_QUESTION_FIELDS)}")
    value = record[name]
    if isinstance(value, list):
        name, value = f"{name}[0].content", _content_of_chat(value, f"{where}: {name}")
    return _without_answer_line(_text(value, f"{where}: {name}"))


def _content_of_chat(messages: list[Any], where: str) -> Any:
    if len(messages) != 1 or not isinstance(messages[0], dict) or "content" not in messages[0]:
        raise ValueError(f"{where} must hold one message with a content")
    return messages[0]["content"]


def _without_answer_line(question: str) -> str:
    paragraphs = question.split("\n\n")
    if len(paragraphs) > 1 and _ANSWER_LINE in paragraphs[0]:
        paragraphs = paragraphs[1:]
    if len(paragraphs) > 1 and paragraphs[-1].startswith(_REMINDER):
        paragraphs = paragraphs[:-1]
    return "\n\n".join(paragraphs)


def _answer(record: dict[str, Any], where: str) -> str:
    if "answer" in record:
        return _text(record["answer"], f"{where}: answer")
    judge = record.get("reward_model")
    if not isinstance(judge, dict) or "ground_truth" not in judge:
        raise ValueError(f"{where} has neither answer nor reward_model.ground_truth")
    return _text(judge["ground_truth"], f"{where}: reward_model.ground_truth")


def _text(value: Any, where: str) -> str:
    """A text that is not empty; numbers are written out."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    text = str(value) if is_number else value
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{where} must be a text or a number and not empty, got {value!r:.80}")
    return text.strip()
