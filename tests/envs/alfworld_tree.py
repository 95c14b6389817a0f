"""A small tree of official games in their real layout, made of generated games."""

import json
from pathlib import Path

from jopd.envs.alfworld.games import Game
from jopd.envs.alfworld.generate import make_game

KINDS = {
    "look_at_obj_in_light": ("look_at_obj_in_light-Book-None-DeskLamp-308", 308),
    "pick_and_place_simple": ("pick_and_place_simple-Pen-None-Shelf-310", 310),
    "pick_clean_then_place_in_recep": ("pick_clean_then_place_in_recep-SoapBar-None-Cart-410", 410),
}
MOVE, PUT = 'template :: "move {o} to {r}"', 'template :: "put {o} in/on {r}"'


def write_game(root: Path, folder: str, kind: str, data: dict) -> Path:
    """Writes one folder of the layout; returns the game's path."""
    path = root / "json_2.1.1" / folder
    path.mkdir(parents=True)
    (path / "traj_data.json").write_text(json.dumps({"task_type": kind}))
    (path / "game.tw-pddl").write_text(json.dumps(data))
    return path / "game.tw-pddl"


def in_old_dialect(game: Game) -> dict:
    """The game as releases before 0.4 had it."""
    data = game.data()
    return data | {"grammar": str(data["grammar"]).replace(MOVE, PUT)}


def write_tree(root: Path, *, dialect: str = "move", split: str = "valid_seen") -> dict[str, Game]:
    """Writes a game of each of three task types; returns them by task id."""
    games = {}
    for number, (kind, (folder, room)) in enumerate(KINDS.items()):
        game = make_game(kind, room, number)
        path = f"{split}/{folder}/trial_T20190907_00000{number}_123456"
        data = game.data() if dialect == "move" else in_old_dialect(game)
        write_game(root, path, kind, data)
        games[f"alfworld/{path}"] = game
    return games
