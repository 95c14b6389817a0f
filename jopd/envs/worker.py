"""The process behind a ProcessEnv: `python -m jopd.envs.worker FD` answers questions from a pipe.

Each question is (name, argument), each answer (True, value) or (False, the error in words). The
first question is "open" with what makes the simulator. The worker leaves when the pipe closes;
whatever ends it otherwise is told to the parent as the last answer.
"""

import atexit
import os
import signal
import sys
import traceback
from multiprocessing.connection import Connection
from types import TracebackType
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
        if what == "open":
            simulator = argument()
            answer = None
        else:
            assert simulator is not None, "the first question must be 'open'"
            answer = _QUESTIONS[what](simulator, argument)
        pipe.send((True, answer))


def _reset(simulator: Simulator, task: Any) -> Any:
    return simulator.reset(task)


def _step(simulator: Simulator, action: Any) -> Any:
    return simulator.step(action)


def _is_allowed(simulator: Simulator, action: Any) -> Any:
    return simulator.is_allowed(action)


_QUESTIONS = {"reset": _reset, "step": _step, "is_allowed": _is_allowed}


def _kill_own_group() -> None:
    """Nothing that this process started stays, if the group is its own."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Serves the pipe whose descriptor is the argument."""
    pipe = Connection(int(sys.argv[1]))

    def tell(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        del kind, trace
        known = isinstance(error, EnvError)
        pipe.send((False, str(error) if known else "".join(traceback.format_exception(error))))

    sys.excepthook = tell
    atexit.register(_kill_own_group)
    serve(pipe)


if __name__ == "__main__":
    main()
