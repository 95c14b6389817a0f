r"""Trains ScienceWorld's smoke test while environments are killed at random, and checks the end.

  python scripts/break_workers.py --workers=32 --workdir=runs/broken

The run must end normally, must have counted the failures, and must leave no process behind.
Exit status 1 says what did not hold. Linux only: processes are found in /proc.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
DEADLINE_S = 1500.0


def main() -> None:
    """Runs, breaks, checks."""
    parser = argparse.ArgumentParser(description="Kills environments of a run at random.")
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--workdir", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args()
    run = start(flags.workdir, flags.workers)
    seen, killed = break_workers(run, flags.workers, random.Random(flags.seed))
    left = [group for group in seen if is_alive(group)]
    counted = counted_failures(flags.workdir / "log.jsonl") if run.returncode == 0 else 0
    print(
        f"exit status {run.returncode}, {len(seen)} workers seen, {killed} killed, "
        f"{counted} failures counted, {len(left)} process groups left"
    )
    if run.returncode != 0 or left or not killed or not counted:
        sys.exit("the run did not survive its broken workers")


def start(workdir: Path, workers: int) -> subprocess.Popen[bytes]:
    """The smoke test with so many rollouts at once."""
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jopd.train",
            "--config=configs/scienceworld_1_5b.py:smoke",
            f"--workdir={workdir}",
            f"--config.explorer.concurrency={workers}",
            "--config.explorer.max_env_errors=200",  # they are wanted here
            f"--config.composer.batch_size={2 * workers}",
            f"--config.env.answer_s={max(20, 4 * workers)}",  # they start together on a few cores
        ],
        cwd=ROOT,
    )


def break_workers(
    run: subprocess.Popen[bytes], workers: int, rng: random.Random
) -> tuple[set[int], int]:
    """Kills a worker or its Java at random until the run ends, each once in a minute or so.

    Returns:
      All workers that were seen, and how many kills hit.
    """
    seen: set[int] = set()
    killed, deadline = 0, time.monotonic() + DEADLINE_S
    while run.poll() is None:
        if time.monotonic() > deadline:
            run.kill()
            sys.exit(f"the run has not ended in {DEADLINE_S:g} s")
        time.sleep(rng.uniform(32.0, 128.0) / workers)
        present = [child for child in children(run.pid) if is_worker(child)]
        seen.update(present)
        if present:
            worker = rng.choice(present)
            victim = rng.choice([worker, *children(worker)])
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                killed += 1
    return seen, killed


def is_worker(pid: int) -> bool:
    """Whether a process plays environments for a run."""
    with contextlib.suppress(OSError):
        return b"jopd.envs.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def children(parent: int) -> list[int]:
    """Processes that a process has started."""
    with contextlib.suppress(OSError):
        tasks = Path(f"/proc/{parent}/task").iterdir()
        found = [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
        return sorted(found)
    return []


def is_alive(group: int) -> bool:
    """Whether any process of a worker's process group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def counted_failures(log: Path) -> int:
    """Environment failures in the last line of the log."""
    return int(json.loads(log.read_text().splitlines()[-1])["explore/env_errors"])


if __name__ == "__main__":
    main()
