import dataclasses
import hashlib

import pytest

from jopd.panels import Task, make_known_panel, make_panel, panel_text, read_panel
from jopd.tasks import CursorState, TaskStream


def task(number: int) -> Task:
    return Task(task_id=f"toy/{number}", domain="toy", index=number, seed=number + 100)


@pytest.fixture
def panel():
    return make_panel("toy", [task(number) for number in range(5)])


def issue(stream: TaskStream, count: int) -> list[tuple[int, str]]:
    issued = [stream.next_task() for _ in range(count)]
    return [(one.number, one.task.task_id) for one in issued]


def test_a_panel_is_read_back_in_file_order_with_its_hash(tmp_path, panel):
    path = tmp_path / "toy.tsv"
    path.write_text(panel_text(panel.tasks))
    assert panel.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert read_panel(path, sha256=panel.sha256) == panel


def test_the_hash_changes_with_the_order_and_with_every_field(panel):
    reordered = make_panel("toy", panel.tasks[::-1])
    reseeded = make_panel("toy", [dataclasses.replace(panel.tasks[0], seed=1), *panel.tasks[1:]])
    assert len({panel.sha256, reordered.sha256, reseeded.sha256}) == 3


def test_a_changed_panel_is_refused(tmp_path, panel):
    path = tmp_path / "toy.tsv"
    path.write_text(panel_text(panel.tasks[:-1]))
    with pytest.raises(ValueError, match=rf"toy\.tsv has changed.*expected {panel.sha256}"):
        read_panel(path, sha256=panel.sha256)
    with pytest.raises(ValueError, match="cannot be read"):
        read_panel(tmp_path / "absent.tsv", sha256=panel.sha256)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\n", "must begin with the line"),
        ("task_id\tdomain\tindex\tseed\na\tb\tc\td\n", "line 2: invalid literal"),
        ("task_id\tdomain\tindex\tseed\na\tb\t1\n", "line 2: not enough values"),
        ("task_id\tdomain\tindex\tseed\n", "has no tasks"),
        ("task_id\tdomain\tindex\tseed\na\tb\t1\t1\na\tb\t2\t2\n", "has a task twice"),
    ],
)
def test_a_file_that_is_no_panel_is_refused(tmp_path, text, message):
    path = tmp_path / "bad.tsv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_panel(path, sha256=hashlib.sha256(text.encode()).hexdigest())


def test_every_pass_plays_each_task_once_in_another_order(panel):
    issued = issue(TaskStream(panel, seed=3), 20)
    assert [number for number, _ in issued] == list(range(20))
    passes = [[task_id for _, task_id in issued[start : start + 5]] for start in range(0, 20, 5)]
    assert all(sorted(one) == sorted(t.task_id for t in panel.tasks) for one in passes)
    assert len(set(map(tuple, passes))) > 1


def test_the_order_depends_on_the_seed_alone(panel):
    assert issue(TaskStream(panel, seed=3), 10) == issue(TaskStream(panel, seed=3), 10)
    assert issue(TaskStream(panel, seed=3), 10) != issue(TaskStream(panel, seed=4), 10)


def test_the_state_is_what_was_consumed_and_not_what_was_issued(panel):
    stream = TaskStream(panel, seed=0)
    issue(stream, 6)
    assert stream.state() == CursorState()
    for number in (4, 0, 2):
        stream.mark_consumed(number)
    assert stream.state() == CursorState(first_unconsumed=1, consumed_beyond=(2, 4))
    stream.mark_consumed(1)
    assert stream.state() == CursorState(first_unconsumed=3, consumed_beyond=(4,))
    stream.mark_consumed(3)
    assert stream.state() == CursorState(first_unconsumed=5)


def test_a_restored_stream_issues_again_what_was_not_consumed_and_nothing_else(panel):
    first = TaskStream(panel, seed=0)
    everything = issue(first, 9)
    for number in (0, 3, 4):
        first.mark_consumed(number)
    second = TaskStream(panel, seed=0, state=first.state())
    assert issue(second, 6) == [everything[number] for number in (1, 2, 5, 6, 7, 8)]
    for number in (2, 1):
        second.mark_consumed(number)
    assert second.state() == CursorState(first_unconsumed=5)
    assert issue(second, 1)[0][0] == 9


def test_consuming_up_to_a_restored_gap_does_not_issue_past_tasks(panel):
    stream = TaskStream(panel, seed=0, state=CursorState(first_unconsumed=5, consumed_beyond=(7,)))
    issue(stream, 2)
    stream.mark_consumed(5)
    stream.mark_consumed(6)
    assert stream.state() == CursorState(first_unconsumed=8)
    assert issue(stream, 1)[0][0] == 8


def test_no_task_is_lost_or_played_twice_over_many_kills(panel):
    """Each life consumes every other task that it was given."""
    state, consumed = CursorState(), []
    for life in range(6):
        stream = TaskStream(panel, seed=1, state=state)
        for number, _ in issue(stream, 7)[life % 2 :: 2]:
            stream.mark_consumed(number)
            consumed.append(number)
        state = stream.state()
    assert len(consumed) == len(set(consumed))
    beyond = set(consumed) - set(range(state.first_unconsumed))
    assert tuple(sorted(beyond)) == state.consumed_beyond
    assert set(range(state.first_unconsumed)) <= set(consumed)


def test_only_tasks_on_their_way_can_be_consumed(panel):
    stream = TaskStream(panel, seed=0)
    with pytest.raises(ValueError, match="number 0 was not issued"):
        stream.mark_consumed(0)
    issue(stream, 1)
    stream.mark_consumed(0)
    with pytest.raises(ValueError, match="consumed already"):
        stream.mark_consumed(0)


@pytest.mark.parametrize(
    "state",
    [
        CursorState(first_unconsumed=3, consumed_beyond=(3,)),
        CursorState(first_unconsumed=3, consumed_beyond=(1, 5)),
        CursorState(first_unconsumed=-1),
    ],
)
def test_impossible_states_are_refused(panel, state):
    with pytest.raises(ValueError):
        TaskStream(panel, seed=0, state=state)


def test_a_known_panel_must_have_its_recorded_hash():
    tasks = [Task(task_id="toy/0", domain="toy", index=0, seed=0)]
    known = make_panel("toy", tasks)
    assert make_known_panel("toy", tasks, sha256=known.sha256) == known
    with pytest.raises(ValueError, match=rf"panel toy has the sha256 {known.sha256}, expected 00"):
        make_known_panel("toy", tasks, sha256="00")
