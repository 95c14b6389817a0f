"""One environment in a process of its own: deadlines on every call, kill, replacement.

A worker that dies, hangs or raises is killed with its whole process group (a JVM included); the
call raises EnvError with the worker's own words, and the next reset starts another worker. Called
by explorer threads, from any asyncio loop; calls of one environment must not overlap.

Invariant: a worker never outlives its environment. Closing, garbage collection and the end of the
interpreter kill its group, and a worker whose parent is gone finds its pipe closed and leaves.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from typing import Any

from jopd.envs.base import Env, EnvError, Simulator, StepResult
from jopd.panels import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """Longest wait for each answer of a worker, in seconds.

    Attributes:
      start_s: from the start of the process until its environment is open.
      reset_s: a reset.
      step_s: a step, or the question whether an action is allowed.
      close_s: an orderly end, before the worker is killed.
    """

    start_s: float = 120.0
    reset_s: float = 60.0
    step_s: float = 30.0
    close_s: float = 5.0

    def __post_init__(self):
        least = min(self.start_s, self.reset_s, self.step_s, self.close_s)
        if least <= 0:
            raise ValueError(f"every deadline must be positive, got {least}")


class ProcessEnv:
    """An Env whose simulator runs in a worker process.

    Attributes:
      losses: workers that were lost so far.
    """

    def __init__(self, make_simulator: Callable[[], Simulator], deadlines: Deadlines):
        """Starts nothing yet: the first reset does.

        Args:
          make_simulator: called in the worker; it travels there by pickle.
          deadlines: of the worker's answers.
        """
        self.losses = 0
        self._make_simulator = make_simulator
        self._deadlines = deadlines
        self._worker: _Worker | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="env")

    async def reset(self, task: Task) -> StepResult:
        """Starts the episode of `task`, in a new worker if the last one was lost."""
        return await self._in_thread(self._reset, task)

    async def step(self, action: str) -> StepResult:
        """Acts."""
        return await self._in_thread(self._ask, "step", action, self._deadlines.step_s)

    async def is_allowed(self, action: str) -> bool:
        """Whether the action is well formed and possible now."""
        return await self._in_thread(self._ask, "is_allowed", action, self._deadlines.step_s)

    def close(self) -> None:
        """Ends the worker."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.leave(self._deadlines.close_s)
        self._thread.shutdown(wait=False)

    async def _in_thread(self, function: Any, *arguments: Any) -> Any:
        return await asyncio.wrap_future(self._thread.submit(function, *arguments))

    def _reset(self, task: Task) -> StepResult:
        if self._worker is None:
            self._worker = _Worker()
            self._ask("open", self._make_simulator, self._deadlines.start_s)
        return self._ask("reset", task, self._deadlines.reset_s)

    def _ask(self, what: str, argument: Any, deadline_s: float) -> Any:
        if self._worker is None:
            raise EnvError(f"{what}: the environment's process was lost; reset it first")
        try:
            return self._worker.ask(what, argument, deadline_s)
        except EnvError:
            self._worker.kill()
            self._worker = None
            self.losses += 1
            raise


class _Worker:
    """A process with one environment, and the pipe to it."""

    def __init__(self):
        ours, theirs = Pipe()
        command = [sys.executable, "-m", "jopd.envs.worker", str(theirs.fileno())]
        self._process = subprocess.Popen(
            command,
            pass_fds=(theirs.fileno(),),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,  # a process group that can be killed whole
            env=os.environ | {"JAX_PLATFORMS": "cpu"},  # chips belong to the parent
        )
        theirs.close()
        self._pipe = ours
        self.kill = weakref.finalize(self, _kill_group, self._process, ours)

    def ask(self, what: str, argument: Any, deadline_s: float) -> Any:
        """The answer to one question.

        Raises:
          EnvError: there was none in time, the process died, or the environment raised.
        """
        try:
            self._pipe.send((what, argument))
            if not self._pipe.poll(deadline_s):
                raise EnvError(f"{what}: no answer from the environment in {deadline_s:g} s")
            succeeded, answer = self._pipe.recv()
        except (OSError, EOFError) as error:
            code = self._process.poll()
            raise EnvError(
                f"{what}: the environment's process died (exit status {code})"
            ) from error
        if not succeeded:
            raise EnvError(f"{what}: {answer}")
        return answer

    def leave(self, deadline_s: float) -> None:
        """Closes the pipe, which ends the worker; kills it if that takes too long."""
        self._pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(deadline_s)
        self.kill()


def _kill_group(process: subprocess.Popen[bytes], pipe: Connection) -> None:
    """Kills a worker and all that it started, and waits for it."""
    pipe.close()
    with contextlib.suppress(ProcessLookupError):  # all of the group is gone already
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


async def replay(
    env: Env, task: Task, actions: Sequence[str], observations: Sequence[str]
) -> StepResult:
    """Restores the state after some actions by playing them again, every observation compared.

    Args:
      env: where; its present episode ends.
      task: the episode.
      actions: what was done.
      observations: what was shown after the reset and after each action, one more than actions.

    Raises:
      EnvError: the environment failed, or shows something else than it did before.
    """
    seen = await env.reset(task)
    for number, expected in enumerate(observations):
        if number > 0:
            seen = await env.step(actions[number - 1])
        if seen.observation != expected:
            raise EnvError(
                f"replay of {task.task_id} differs after {number} actions: {seen.observation!r} "
                f"instead of {expected!r}"
            )
    return seen
