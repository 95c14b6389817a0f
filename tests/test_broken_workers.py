"""A run whose environments are killed while it trains."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("scienceworld")
ROOT = Path(__file__).parents[1]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("java") is None, reason="ScienceWorld needs Java")
def test_a_run_survives_killed_workers_counts_them_and_leaves_none(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            "scripts/break_workers.py",
            "--workers=4",
            f"--workdir={tmp_path / 'run'}",
        ],
        cwd=ROOT,
        env=os.environ | {"XLA_FLAGS": ""},  # one device, as a user has it
        capture_output=True,
        text=True,
        timeout=1600,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "0 process groups left" in done.stdout
