"""The directory of one run: refuses to mix two runs, and knows whether this one continues."""

import fcntl
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO

Resume = Literal["no", "auto"]

_MAY_CHANGE = ("reporting", "runtime.num_updates", "checkpoint")


class RunDirectoryError(ValueError):
    """A directory cannot be used for this run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDirectory:
    """A claimed run directory; no other process can claim it meanwhile.

    Attributes:
      path: the directory.
      lock: open file whose lock this process holds.
    """

    path: Path
    lock: TextIO

    def close(self) -> None:
        """Lets another process claim the directory."""
        self.lock.close()


def claim(path: Path, config: Mapping[str, Any], *, command: str, resume: Resume) -> RunDirectory:
    """Claims a directory for a run and stores the resolved config in it.

    Args:
      path: the directory; made if absent.
      config: resolved config, JSON values only.
      command: which command runs; another command's run is never continued.
      resume: "auto" continues the run that is there, if one is; "no" wants an unused directory.

    Raises:
      RunDirectoryError: it holds another run, something else, or is in use.
    """
    stored = path / "config.json"
    wanted = {"command": command, **_plain(config)}
    if stored.exists():
        _check_continues(json.loads(stored.read_text(encoding="utf-8")), wanted, path, resume)
    elif path.exists() and any(child.name != "run.lock" for child in path.iterdir()):
        raise RunDirectoryError(
            f"{path} is not empty and holds no run of jopd; give an unused --workdir"
        )
    path.mkdir(parents=True, exist_ok=True)
    lock = _lock(path)
    stored.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
    return RunDirectory(path=path, lock=lock)


def _check_continues(
    stored: Mapping[str, Any], wanted: Mapping[str, Any], path: Path, resume: Resume
) -> None:
    if resume == "no":
        raise RunDirectoryError(
            f"{path} holds a run already; continue it with --resume=auto, or give another --workdir"
        )
    before, now = _flat(stored), _flat(wanted)
    changed = [
        f"{key}: {before.get(key, 'absent')!r} then, {now.get(key, 'absent')!r} now"
        for key in sorted(before.keys() | now.keys())
        if before.get(key) != now.get(key) and not key.startswith(_MAY_CHANGE)
    ]
    if changed:
        raise RunDirectoryError(
            f"{path} holds a run with another config:\n  "
            + "\n  ".join(changed)
            + "\nUse the same config to continue it, or give another --workdir."
        )


def _lock(path: Path) -> TextIO:
    lock = (path / "run.lock").open("w", encoding="utf-8")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise RunDirectoryError(f"{path} is in use by another running jopd process") from error
    return lock


def _plain(config: Mapping[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(config))


def _flat(config: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(config, Mapping):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat |= _flat(value, f"{prefix}.{key}" if prefix else key)
    return flat
