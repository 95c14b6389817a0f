"""Settings of the ALFWorld environment."""

from dataclasses import dataclass
from typing import Literal, get_args

TaskType = Literal[
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
]
TASK_TYPES: tuple[TaskType, ...] = get_args(TaskType)
Dialect = Literal["move", "put"]
Expert = Literal["knowing", "searching"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlfworldSettings:
    """Which games are played.

    Attributes:
      domain: names this environment; tasks and turns carry it.
      data_dir: the official data as `alfworld-download` lays it out (what ALFWORLD_DATA names);
        empty for games made here from the package's own logic, grammar and floor plans.
      task_types: only these of the six task types; empty for all.
      expert: who demonstrates: "knowing" takes the shortest way to where things are, "searching"
        looks for them first, as a student must.
      dialect: how official games must call putting an object down: "move X to Y" as alfworld 0.4
        does, or "put X in/on Y" as games of older releases do. Teachers know only one of them.
    """

    domain: Literal["alfworld"] = "alfworld"
    data_dir: str = ""
    task_types: tuple[TaskType, ...] = ()
    expert: Expert = "knowing"
    dialect: Dialect = "move"

    def __post_init__(self):
        if self.dialect == "put" and not self.data_dir:
            raise ValueError(
                'dialect "put" is for the official data of old releases: set data_dir too; games '
                'made here say "move X to Y"'
            )
