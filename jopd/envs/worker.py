"""The process behind a ProcessEnv: `python -m jopd.envs.worker FD` answers questions from a pipe.

Each question is (name, argument), each answer (True, value) or (False, the error in words). The
first question is "open" with what makes the simulator. The worker leaves when the pipe closes, and
after an answer that says an error.
"""

import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any

from jopd.envs.base import EnvError, Simulator


def serve(pipe: Connection) -> None:
    """Answers until the other end closes or the environment fails."""
    simulator: Simulator | None = None
    while True:
        try:
            what, argument = pipe.recv()
        except EOFError:
            return
        try:
            if what == "open":
                simulator = argument()
                answer = None
            else:
                assert simulator is not None, "the first question must be 'open'"
                answer = _QUESTIONS[what](simulator, argument)
        except EnvError as error:
            pipe.send((False, str(error)))
            return
        except Exception:  # whatever an environment's library raises is told to the parent
            pipe.send((False, traceback.format_exc()))
            return
        pipe.send((True, answer))


def _reset(simulator: Simulator, task: Any) -> Any:
    return simulator.reset(task)


def _step(simulator: Simulator, action: Any) -> Any:
    return simulator.step(action)


def _is_allowed(simulator: Simulator, action: Any) -> Any:
    return simulator.is_allowed(action)


_QUESTIONS = {"reset": _reset, "step": _step, "is_allowed": _is_allowed}


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
    if os.getpgrp() == os.getpid():  # then the group is ours: nothing that we started stays
        os.killpg(os.getpid(), signal.SIGKILL)
