"""What every command shares: its flags, and errors that a user can mend shown without a trace."""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from absl import app, flags, logging
from ml_collections import config_flags

from jopd.models.checkpoints import CheckpointError
from jopd.runtime.run_directory import Resume, RunDirectoryError
from jopd.settings import SettingsError, build

S = TypeVar("S")

_CONFIG = config_flags.DEFINE_config_file(
    "config",
    None,
    "Recipe file with an optional :variant, for example configs/quickstart.py; change single "
    "values with --config.section.key=value.",
    lock_config=True,
)
_WORKDIR = flags.DEFINE_string("workdir", None, "Directory of the run.")
_RESUME = flags.DEFINE_enum("resume", "no", ["no", "auto"], "auto: continue the run in --workdir.")
_DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print the resolved settings and do nothing else.")

_USER_ERRORS = (SettingsError, RunDirectoryError, CheckpointError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """What the flags of a command said.

    Attributes:
      config: the resolved config.
      workdir: directory of the run.
      resume: whether a run that is there is continued.
      dry_run: only print what would run.
      recipe: the flags that name the config and what was changed in it, as they were given.
    """

    config: dict[str, Any]
    workdir: Path
    resume: Resume
    dry_run: bool
    recipe: str


def run_command(settings_type: type[S], main: Callable[[S, Invocation], None]) -> None:
    """Reads the flags and the config, then runs a command.

    Args:
      settings_type: the settings that the config must fill exactly.
      main: the command.
    """

    def absl_main(arguments: Sequence[str]) -> None:
        if len(arguments) > 1:
            raise app.UsageError(f"unexpected arguments {arguments[1:]}; flags are --name=value")
        logging.set_verbosity(logging.WARNING)
        try:
            settings = build(settings_type, _CONFIG.value)
            main(settings, _invocation())
        except _USER_ERRORS as error:
            sys.exit(f"{type(error).__name__}: {error}")

    sys.path.insert(0, os.getcwd())  # recipes import their neighbours as `configs.common`
    flags.mark_flag_as_required("config")
    app.run(absl_main, flags_parser=_parse_flags)


def _parse_flags(arguments: list[str]) -> list[str]:
    try:
        return app.parse_flags_with_usage(arguments)
    except (AttributeError, KeyError) as error:  # what ml_collections says of an unknown key
        key = str(error).strip("\"'")
        changes = " ".join(word for word in arguments if word.startswith("--config."))
        sys.exit(
            f"SettingsError: the config has no key {key}, given in {changes}; --dry_run without it "
            "prints all keys"
        )


def _invocation() -> Invocation:
    if not (_WORKDIR.value or _DRY_RUN.value):
        raise app.UsageError("give a --workdir, or --dry_run to only see the settings")
    return Invocation(
        config=_CONFIG.value.to_dict(),
        workdir=Path(_WORKDIR.value or "."),
        resume="auto" if _RESUME.value == "auto" else "no",
        dry_run=_DRY_RUN.value,
        recipe=_recipe(),
    )


def _recipe() -> str:
    flag = flags.FLAGS["config"]
    changes = config_flags.get_override_values(flag)
    words = [f"--config={config_flags.get_config_filename(flag)}"]
    words += [f"--config.{key}={value}" for key, value in changes.items()]
    return shlex.join(words)
