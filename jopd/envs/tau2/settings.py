"""Settings of the tau2-bench environments."""

from dataclasses import dataclass
from typing import Literal

Domain = Literal["retail", "telecom"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tau2Settings:
    """How a domain of tau2-bench is played.

    Attributes:
      domain: names this environment; tasks and turns carry it.
      user: who plays the customer: a "scripted" one, the same in every play, or a "model".
      user_patience: messages of the agent without a reference action after which the scripted
        customer hangs up.
      max_steps: messages of all sides at most, as the package counts them.
      max_errors: failed tool calls at most.
      answer_s: longest wait for one answer of the environment's process; scoring takes the longest.
    """

    domain: Domain = "retail"
    user: Literal["scripted", "model"] = "scripted"
    user_patience: int = 10
    max_steps: int = 200
    max_errors: int = 10
    answer_s: float = 30.0

    def __post_init__(self):
        if min(self.user_patience, self.max_steps, self.max_errors) < 1:
            raise ValueError("user_patience, max_steps and max_errors must be at least 1")
        if not self.answer_s > 0:
            raise ValueError(f"answer_s must be positive, got {self.answer_s}")
