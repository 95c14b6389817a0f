r"""Reads and compares final answers: the last `\boxed{...}` of a reply against the known one.

Every pass over a text is linear or bounded by its length; nothing is evaluated.
"""

import re
from fractions import Fraction

_BOX = "\\boxed{"
_LONGEST_ANSWER = 1000
_FRACTION = re.compile(r"([+-]?)\\[dt]?frac\{([+-]?\d+)\}\{([+-]?\d+)\}")
_RATIO = re.compile(r"([+-]?\d+)/([+-]?\d+)")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d+)?")
_UNIT = re.compile(r"\\(?:text|mathrm|mbox)\{[^{}]*\}")
_NAME = re.compile(r"[A-Za-z]=")
_DROPPED = ("\\left", "\\right", "^\\circ", "^{\\circ}", "\\%", "%", "\\!", "\\,", "\\;", "$", "°")


def boxed_answer(reply: str) -> str | None:
    r"""What the last `\boxed{...}` with balanced braces holds, or None where there is none."""
    end = len(reply)
    closing = _closing_braces(reply)
    while (start := reply.rfind(_BOX, 0, end)) >= 0:
        opened = start + len(_BOX) - 1
        if opened in closing:
            return reply[opened + 1 : closing[opened]].strip()
        end = start
    return None


def is_correct(reply: str, answer: str) -> bool:
    """Whether the boxed answer of `reply` is `answer`."""
    given = boxed_answer(reply)
    return given is not None and same_answer(given, answer)


def same_answer(given: str, expected: str) -> bool:
    """Whether two answers are equal as numbers, or else as normalised text."""
    if max(len(given), len(expected)) > _LONGEST_ANSWER:
        return False
    left, right = _normalised(given), _normalised(expected)
    numbers = _number(left), _number(right)
    if None not in numbers:
        return numbers[0] == numbers[1]
    return bool(left) and left == right


def _closing_braces(text: str) -> dict[int, int]:
    opened: list[int] = []
    closing = {}
    for place in (match.start() for match in re.finditer(r"[{}]", text)):
        if text[place] == "{":
            opened.append(place)
        elif opened:
            closing[opened.pop()] = place
    return closing


def _normalised(answer: str) -> str:
    text = _UNIT.sub("", answer)
    for dropped in _DROPPED:
        text = text.replace(dropped, "")
    text = "".join(text.split()).rstrip(".")
    text = _NAME.sub("", text, count=1) if _NAME.match(text) else text
    text = text.replace("{,}", ",")
    return text.replace(",", "") if _THOUSANDS.fullmatch(text) else text


def _number(text: str) -> Fraction | None:
    if _DECIMAL.fullmatch(text):
        return Fraction(text)
    if match := _FRACTION.fullmatch(text):
        sign, above, below = match.groups()
    elif match := _RATIO.fullmatch(text):
        sign, (above, below) = "", match.groups()
    else:
        return None
    if int(below) == 0:
        return None
    value = Fraction(int(above), int(below))
    return -value if sign == "-" else value
