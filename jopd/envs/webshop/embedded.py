"""The shop that comes with jopd: its data files and panels, and their hashes."""

import hashlib
from importlib import resources
from pathlib import Path

DATA_FOLDER = Path(str(resources.files("jopd.envs"))) / "data"
ITEMS_FILE = "webshop_items.json.gz"
ATTRIBUTES_FILE = "webshop_attributes.json.gz"
PANELS = {split: f"webshop_{split}.tsv" for split in ("train", "eval", "test")}
HASHES_FILE = "SHA256SUMS"


def recorded_sha256(name: str, folder: Path = DATA_FOLDER) -> str:
    """The hash that HASHES_FILE, in the format of `sha256sum`, gives for the file `name`.

    Raises:
      ValueError: it gives none.
    """
    lines = (folder / HASHES_FILE).read_text().splitlines()
    hashes = {line.split()[1]: line.split()[0] for line in lines}
    if name not in hashes:
        raise ValueError(f"{folder / HASHES_FILE} has no hash of {name}")
    return hashes[name]


def verified(name: str, folder: Path = DATA_FOLDER) -> Path:
    """The path of a data file that is as it was made.

    Raises:
      ValueError: it is missing or has changed.
    """
    path = folder / name
    if not path.is_file():
        raise ValueError(f"embedded data file {path} is missing")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != recorded_sha256(name, folder):
        raise ValueError(
            f"embedded data file {path} has changed: its sha256 is {found}, expected "
            f"{recorded_sha256(name, folder)}"
        )
    return path
