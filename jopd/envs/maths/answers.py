r"""Reads and compares final answers: the last `\boxed{...}` of a reply against the known one.

Answers are equal as numbers, as tuples and intervals element by element, as sets in any order, or
else as text without spaces. Percent and degree signs and units after a number are left out. One
pass over a reply finds its box, longer answers than `_LONGEST_ANSWER` are wrong, and nothing is
evaluated.
"""

import re
from collections.abc import Hashable
from fractions import Fraction

_LONGEST_ANSWER = 1000
_DEEPEST = 4  # collections in collections
_BRACES = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)

_TEXT = r"\\(?:text|textrm|textbf|textit|mathrm|mathbf|mathit|mbox)\{([^{}]*)\}"
_UNIT = re.compile(_TEXT + r"(?:\^\{?[23]\}?)?$")
_WORDS = re.compile(_TEXT)
_SINGLE = re.compile(r"(?<!\\)\{(\w)\}")  # braces around one character
_DROPPED = re.compile(
    r"\\(?:left|right|displaystyle|quad|boxed)(?![A-Za-z])|\\[!,;: ]|~|\\?\$"
    r"|\^\{?\\circ\}?|\\degree|°|\\?%|\s"
)
_SPELLINGS = (("{,}", ","), ("\u2212", "-"), ("\\dfrac", "\\frac"), ("\\tfrac", "\\frac"))

_AMOUNT = r"(?:\d+\.?\d*|\.\d+)"
_PART = rf"(?:\{{([+-]?{_AMOUNT})\}}|(\d))"
_DECIMAL = re.compile(rf"[+-]?{_AMOUNT}", re.ASCII)
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?", re.ASCII)
_RATIO = re.compile(rf"([+-]?{_AMOUNT})/([+-]?{_AMOUNT})", re.ASCII)
_FRACTION = re.compile(rf"([+-]?)(\d*)\\frac{_PART}{_PART}", re.ASCII)
_NAME = re.compile(r"\\?[A-Za-z]+(?:_\{?\w+\}?)?(?:=(?!=)|\\in(?![A-Za-z]))")
_BRACKETS = (("\\{", "\\}"), ("{", "}"), ("(", ")"), ("(", "]"), ("[", ")"), ("[", "]"))


def boxed_answer(reply: str) -> str | None:
    r"""What the last `\boxed{...}` with balanced braces holds, or None where there is none.

    Of boxes in boxes the outermost balanced one counts.
    """
    opened: list[int | None] = []  # where the content of a box starts; None for other braces
    found = None
    for match in _BRACES.finditer(reply):
        if match[0] == "}":
            start = opened.pop() if opened else None
            found = found if start is None else (start, match.start())
        elif match[0][-1] == "{" and match[0] != "\\{":
            opened.append(None if match[0] == "{" else match.end())
    return None if found is None else reply[found[0] : found[1]].strip()


def is_correct(reply: str, answer: str) -> bool:
    """Whether the boxed answer of `reply` is `answer`."""
    given = boxed_answer(reply)
    return given is not None and same_answer(given, answer)


def same_answer(given: str, expected: str) -> bool:
    """Whether two answers are equal; an empty one equals nothing."""
    if max(len(given), len(expected)) > _LONGEST_ANSWER:
        return False
    left, right = (_value(_cleaned(text), _DEEPEST) for text in (given, expected))
    return left != "" and left == right


def _cleaned(answer: str) -> str:
    for spelling, ours in _SPELLINGS:
        answer = answer.replace(spelling, ours)
    return _DROPPED.sub("", answer).rstrip(".")


def _value(text: str, depth: int) -> Hashable:
    """A number as a fraction, a collection as its brackets and values, all else as text."""
    text = _without_unit(_NAME.sub("", text, count=1) if _NAME.match(text) else text)
    number = _number(text)
    if number is not None or depth == 0:
        return text if number is None else number
    opening, inside, closing = _opened(text)
    parts = _split(inside)
    if opening.endswith("{") and (len(parts) > 1 or opening == "\\{"):
        return "set", frozenset(_value(part, depth - 1) for part in parts)
    if opening in ("{", "(") and closing != "]" and len(parts) == 1:
        return _value(inside, depth - 1)  # only grouped
    if opening or len(parts) > 1:
        return opening, closing, tuple(_value(part, depth - 1) for part in parts)
    return _SINGLE.sub(r"\1", text)


def _without_unit(text: str) -> str:
    """Leaves out a unit after a number; other words lose only their command."""
    unit = _UNIT.search(text)
    if unit and _number(text[: unit.start()]) is not None:
        return text[: unit.start()]
    return _WORDS.sub(r"\1", text)


def _number(text: str) -> Fraction | None:
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    if _DECIMAL.fullmatch(text):
        return Fraction(text)
    if match := _RATIO.fullmatch(text):
        return _quotient(match[1], match[2])
    if match := _FRACTION.fullmatch(text):
        return _signed_sum(*(group for group in match.groups() if group is not None))
    return None


def _signed_sum(sign: str, whole: str, above: str, below: str) -> Fraction | None:
    part = _quotient(above, below)
    if part is None or (whole and not 0 < part < 1):  # 2\frac{3}{2} may be a product
        return None
    value = int(whole or 0) + part
    return -value if sign == "-" else value


def _quotient(above: str, below: str) -> Fraction | None:
    return Fraction(above) / Fraction(below) if Fraction(below) else None


def _opened(text: str) -> tuple[str, str, str]:
    """The brackets around all of `text` and what is inside; empty brackets where there are none."""
    for opening, closing in _BRACKETS:
        inside = text[len(opening) : len(text) - len(closing)]
        if text.startswith(opening) and text.endswith(closing) and _is_closed(inside):
            return opening, inside, closing
    return "", text, ""


def _is_closed(text: str) -> bool:
    """Whether no bracket of `text` belongs to one outside of it."""
    depths = _depths(text)
    return not text.endswith("\\") and min(depths, default=0) >= 0 and depths[-1:] in ([], [0])


def _split(text: str) -> list[str]:
    """The parts between commas outside of all brackets."""
    parts, start = [], 0
    for place, depth in enumerate(_depths(text)):
        if text[place] == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _depths(text: str) -> list[int]:
    """How many brackets are open after each character."""
    depth, depths = 0, []
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        depths.append(depth)
    return depths
