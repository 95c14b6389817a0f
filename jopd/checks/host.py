"""Directory, disk, packages and the environment, before any model is loaded."""

import asyncio
import importlib.metadata
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jopd.checks.findings import Finding, error, ok, warning
from jopd.envs.base import Env, EnvError
from jopd.envs.factory import EnvSettings, OpenEnvironment, open_environment
from jopd.envs.process import replay
from jopd.panels import Task

_PACKAGES = ("jax", "flax", "optax", "orbax-checkpoint", "transformers", "grain")
_GIGABYTE = 1e9
_SHOWN = 200  # characters of a customer's message


def check_packages() -> Iterator[Finding]:
    """Versions of what computes, and of Java if it is there."""
    versions = (f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    yield ok("packages", ", ".join(versions))
    java = shutil.which("java")
    if java is not None:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        yield ok("java", (told.stderr or told.stdout).splitlines()[0])


def check_workdir(workdir: Path, *, needed_bytes: int) -> Iterator[Finding]:
    """Whether the run can write, and as much as its checkpoints take.

    Args:
      workdir: of the run; it need not exist.
      needed_bytes: of all checkpoints that are kept at a time.
    """
    parent = next(path for path in (workdir, *workdir.absolute().parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as problem:
        yield error("workdir", f"{parent} cannot be written ({problem}); give another --workdir")
        return
    yield ok("workdir", f"{workdir} can be written")
    free = shutil.disk_usage(parent).free
    shown = f"{free / _GIGABYTE:,.1f} GB free, checkpoints take {needed_bytes / _GIGABYTE:,.1f} GB"
    if free < needed_bytes:
        yield error("disk", f"{shown}; free some, give another --workdir or lower checkpoint.keep")
    else:
        yield ok("disk", shown)


def check_environment(settings: EnvSettings) -> tuple[OpenEnvironment | None, list[Finding]]:
    """Opens the environment: its package, Java, data and grammar; and its panels."""
    try:
        opened = open_environment(settings)
        panels = [opened.load_panel(split) for split in ("train", "eval")]
    except ValueError as problem:
        return None, [error("environment", str(problem))]
    shown = (f"{p.name}: {len(p.tasks)} tasks, sha256 {p.sha256[:12]}" for p in panels)
    return opened, [ok("environment", f"{settings.domain} opens"), ok("panels", "; ".join(shown))]


def check_round_trip(opened: OpenEnvironment) -> Iterator[Finding]:
    """Whether a rollout's environment starts, acts, and can be restored by replay."""
    task = opened.load_panel("eval").tasks[0]
    try:
        steps = asyncio.run(_round_trip(opened.make_env(), task))
    except EnvError as problem:
        yield error("round trip", f"{task.task_id}: {problem}")
        return
    yield ok("round trip", f"{task.task_id}: reset, {steps} steps, replay shows the same")


async def _round_trip(env: Env, task: Task) -> int:
    seen = await env.reset(task)
    actions, observations = [], [seen.observation]
    for action in seen.allowed_actions[:3]:
        seen = await env.step(action)
        actions.append(action)
        observations.append(seen.observation)
        if seen.done:
            break
    await replay(env, task, actions, observations)
    return len(actions)


def check_customer(opened: OpenEnvironment) -> Iterator[Finding]:
    """Whether the model that plays the customer opens a conversation, and what it says first."""
    task = opened.load_panel("eval").tasks[0]
    try:
        seen = asyncio.run(opened.make_env().reset(task))
    except EnvError as problem:
        yield error("customer", f"{task.task_id}: {problem}")
        return
    yield ok("customer", f"{task.task_id}: it begins with {seen.observation[:_SHOWN]!r}")


def check_cores(concurrency: int) -> Iterator[Finding]:
    """Whether the environments of all rollouts have cores to run on."""
    cores = os.cpu_count() or 1
    shown = f"{concurrency} rollouts at once on {cores} cores"
    if concurrency > 32 * cores:
        yield warning("cores", f"{shown}; environments may be slow: lower explorer.concurrency")
    else:
        yield ok("cores", shown)
