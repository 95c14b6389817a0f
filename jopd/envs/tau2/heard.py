"""What a side of a dialogue hears; it also names whose turn it is."""

from dataclasses import dataclass
from typing import Literal

from jopd.envs.base import StepResult

Side = Literal["agent", "user"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard(StepResult):
    """What one side hears; instruction and tools are that side's.

    Attributes:
      awaited: who heard it, and speaks next.
    """

    awaited: Side
