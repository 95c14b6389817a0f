"""Settings of the ScienceWorld environment."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ScienceWorldSettings:
    """How ScienceWorld is played.

    Attributes:
      domain: names this environment; tasks and turns carry it.
      simplifications: as the package names them, separated by commas; "easy" for all that suit the
        task, as in the papers' lineage; "" for none.
      task_types: play these only, as the package names them: their first variations are for
        training, the others are held out; () for DivOPD's split, which holds out whole types.
      heap_mb: heap of each Java process; without a bound it grows to gigabytes.
      answer_s: longest wait for one answer of the simulator.
    """

    domain: Literal["scienceworld"] = "scienceworld"
    simplifications: str = "easy"
    task_types: tuple[str, ...] = ()
    heap_mb: int = 512
    answer_s: float = 20.0

    def __post_init__(self):
        if self.heap_mb < 48:
            raise ValueError(f"heap_mb must be at least 48, got {self.heap_mb}")
        if not self.answer_s > 0:
            raise ValueError(f"answer_s must be positive, got {self.answer_s}")
