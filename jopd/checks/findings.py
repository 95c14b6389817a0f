"""One line of the doctor: what was looked at, how it is, and what to do."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found.

    Attributes:
      check: what was looked at.
      level: "ok", "warning" (the run works, but look at it) or "error" (it would not).
      text: how it is and, unless ok, what to do.
    """

    check: str
    level: Level
    text: str

    def line(self) -> str:
        """One line for the terminal."""
        return f"{self.level:<8}{self.check:<24}{self.text}"


Check = Callable[[], Iterator[Finding]]


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check=check, level="ok", text=text)


def warning(check: str, text: str) -> Finding:
    """The run works, but somebody should look."""
    return Finding(check=check, level="warning", text=text)


def error(check: str, text: str) -> Finding:
    """The run would fail or learn nonsense."""
    return Finding(check=check, level="error", text=text)
