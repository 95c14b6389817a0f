"""Settings of the math environment."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class MathSettings:
    """Which problems are set.

    Attributes:
      domain: names this environment; tasks and turns carry it.
      problems_file: problems for training, JSON or JSONL (see `problems`); empty for the embedded
        ones with their fixed panels.
      eval_problems_file: problems for evaluation, in the same formats.
    """

    domain: Literal["math"] = "math"
    problems_file: str = ""
    eval_problems_file: str = ""

    def __post_init__(self):
        """Refuses a file for one split only."""
        if bool(self.problems_file) != bool(self.eval_problems_file):
            raise ValueError("problems_file and eval_problems_file are needed together, or neither")
