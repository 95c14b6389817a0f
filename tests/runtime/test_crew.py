import queue
import threading

import pytest

from jopd.runtime.crew import Crew


class Gate:
    """A closable that others wait on."""

    def __init__(self):
        self.closed = threading.Event()
        self.error: BaseException | None = None

    def close(self, error=None):
        self.error = self.error or error
        self.closed.set()


def test_the_first_failure_of_a_thread_ends_the_run_with_its_traceback():
    gate = Gate()

    def fails():
        raise KeyError("broken explorer")

    with pytest.raises(KeyError, match="broken explorer") as caught, Crew([fails], [gate]):
        assert gate.closed.wait(10)
    assert any(entry.name == "fails" for entry in caught.traceback)


def test_other_threads_are_woken_by_the_failure_of_one():
    gate, woken = Gate(), queue.Queue()

    def fails():
        raise ValueError("x")

    def waits():
        woken.put(gate.closed.wait(30))

    with pytest.raises(ValueError, match="x"), Crew([waits, fails], [gate]):
        gate.closed.wait(10)
    assert woken.get(timeout=1) is True


def test_leaving_the_block_closes_and_joins():
    gate = Gate()
    with Crew([lambda: gate.closed.wait(30)], [gate]) as crew:
        pass
    assert gate.closed.is_set() and gate.error is None and crew.failure is None


def test_what_threads_raise_because_the_run_has_ended_is_no_failure():
    gate = Gate()

    def interrupted():
        gate.closed.wait(30)
        raise ConnectionError("closed under me")

    with Crew([interrupted], [gate]) as crew:
        pass
    assert crew.failure is None


def test_a_failure_of_the_main_thread_closes_with_it():
    gate = Gate()
    with pytest.raises(ZeroDivisionError), Crew([lambda: gate.closed.wait(30)], [gate]):
        raise ZeroDivisionError
    assert isinstance(gate.error, ZeroDivisionError)


def test_a_thread_that_does_not_end_is_named():
    gate, release = Gate(), threading.Event()
    with (
        pytest.raises(RuntimeError, match="explorer-0"),
        Crew([lambda: release.wait(30)], [gate], join_deadline_s=0.1),
    ):
        pass
    release.set()
