"""One Java process with one ScienceWorld simulator, started so that episodes can be replayed.

The stock start is not deterministic: sets are ordered by identity hashes. `-XX:hashCode=2` pins
them, and one simulator per process keeps its global random numbers apart from all others.
"""

import logging
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import Any

import scienceworld
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JError

from jopd.envs.base import EnvError

_JAR = Path(scienceworld.__file__).parent / "scienceworld.jar"


class Java:
    """A running simulator.

    Attributes:
      server: the simulator's interface; wrap calls in `asking`.
      close: ends the process; garbage collection and the end of the interpreter do the same.
    """

    def __init__(self, *, heap_mb: int, answer_s: float):
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it logs what it also raises
        directory = tempfile.mkdtemp(prefix="scienceworld-")  # it writes where it is started
        options = [f"-Xmx{heap_mb}m", "-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2"]
        try:
            started: Any = launch_gateway(
                classpath=str(_JAR),
                die_on_exit=True,
                javaopts=options,
                cwd=directory,
                return_proc=True,
            )
        except OSError as error:
            raise EnvError(
                f"Java does not start ({error}); ScienceWorld needs Java 11 or newer on the PATH"
            ) from error
        port, process = started
        parameters = GatewayParameters(auto_field=True, port=port, read_timeout=answer_s)
        gateway = JavaGateway(gateway_parameters=parameters)
        self.close = weakref.finalize(self, _stop, gateway, process, directory)
        java: Any = gateway.jvm
        interface = java.scienceworld.runtime.pythonapi.PythonInterface
        self.server: Any = self.asking(interface)

    def asking(self, method: Any, *arguments: Any) -> Any:
        """The answer of the simulator.

        Raises:
          EnvError: Java died, hangs, or the simulator failed.
        """
        try:
            return method(*arguments)
        except Py4JError as error:
            raise EnvError(
                f"ScienceWorld's Java process failed: {error}; if it is only slow, raise "
                "env.answer_s"
            ) from error


def _stop(gateway: JavaGateway, process: subprocess.Popen[bytes], directory: str) -> None:
    gateway.close()
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    shutil.rmtree(directory, ignore_errors=True)
