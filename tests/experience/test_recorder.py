import json
import os
import threading

import numpy as np
import pytest
from full_disk import files_up_to
from made_turns import make_rollout_turns, make_turn, names

from jopd.experience.queue import ExperienceQueue, QueueSettings
from jopd.experience.recorder import Recorder, read_rollouts, read_turns
from jopd.types import Rollout, StopReason


def make_rollout(rollout_id, turns, **changes):
    fields = {
        "rollout_id": rollout_id,
        "task_id": f"task-{rollout_id}",
        "domain": "made",
        "turns": tuple(turns),
        "prefix_turns": 0,
        "stop_reason": StopReason.ENV_DONE,
        "success": True,
        "env_done": True,
        "env_reward": 1.0,
    }
    return Rollout(**fields | changes)


class Source:
    """Puts rollouts into a queue and records them, as an explorer does."""

    def __init__(self, directory, **settings):
        self.queue = ExperienceQueue(QueueSettings(capacity_turns=1000, policy="block"))
        self.recorder = Recorder(directory, **settings)

    def deliver(self, rollout_id, turns, *, update=0, **changes):
        stamped = self.queue.put(turns)
        rollout = make_rollout(rollout_id, turns, **changes)
        self.recorder.record(rollout, stamped, enqueue_update=update)


def recorded(directory):
    return names([r.candidate.turn for r in read_turns(directory)])


def test_recorded_turns_come_back_exactly(tmp_path):
    source = Source(tmp_path)
    turns = [
        make_turn(4, 0, 7, score=0.1, tokens=3, action="click[x]", observation="a\n\u2028 page"),
        make_turn(4, 1, 8, teacher_mask=np.array([True, False]), action_valid=False),
        make_turn(4, 2, 8, dead=True, teacher_logprobs=None),
    ]
    source.deliver(4, turns, update=9)
    source.recorder.close()
    back = list(read_turns(tmp_path))
    assert [r.enqueue_update for r in back] == [9, 9, 9]
    assert [r.candidate.valid for r in back] == [True, True, False]
    for arrival, (turn, read) in enumerate(zip(turns, back, strict=True)):
        for name in turn.__slots__:
            expected, value = (
                object.__getattribute__(t, name) for t in (turn, read.candidate.turn)
            )
            np.testing.assert_array_equal(value, arrival if name == "arrival" else expected)


def test_a_line_holds_what_composing_again_needs(tmp_path):
    source = Source(tmp_path)
    source.deliver(4, [make_turn(4, 0, 7, score=1.5, prompt=5, tokens=3)], update=9)
    source.recorder.close()
    line = json.loads((tmp_path / "turns-00000.jsonl").read_text())
    expected = {
        "rollout_id": 4,
        "turn": 0,
        "version": 7,
        "enqueue_update": 9,
        "score": 1.5,
        "valid": True,
        "tokens": 3,
        "total_tokens": 8,
        "task_id": "task-4",
        "arrival": 0,
    }
    assert {name: line[name] for name in expected} == expected


def test_a_rollout_is_recorded_with_its_outcome(tmp_path):
    source = Source(tmp_path)
    source.deliver(4, make_rollout_turns(4, 2), update=3)
    failed = {"stop_reason": StopReason.ENV_ERROR, "success": False, "error": "lost"}
    source.deliver(5, [], update=3, **failed)
    source.recorder.close()
    won, lost = read_rollouts(tmp_path)
    assert (won["turns"], won["stop_reason"], won["success"], won["reward"]) == (
        2,
        "env_done",
        True,
        1.0,
    )
    assert (lost["turns"], lost["stop_reason"], lost["success"], lost["error"]) == (
        0,
        "env_error",
        False,
        "lost",
    )
    assert (won["arrival"], lost["arrival"]) == (1, 2)


def test_turns_go_on_in_further_files(tmp_path):
    source = Source(tmp_path, turns_per_file=3)
    for rollout_id in range(4):
        source.deliver(rollout_id, make_rollout_turns(rollout_id, 2))
    source.recorder.close()
    lines = [path.read_text().count("\n") for path in sorted(tmp_path.glob("turns-*"))]
    assert lines == [3, 3, 2]
    assert recorded(tmp_path) == [(r, t) for r in range(4) for t in range(2)]
    again = Recorder(tmp_path, turns_per_file=3)
    again.record(make_rollout(9, []), make_rollout_turns(9, 2), enqueue_update=0)
    again.close()
    lines = [path.read_text().count("\n") for path in sorted(tmp_path.glob("turns-*"))]
    assert lines == [3, 3, 3, 1]


def test_nothing_is_lost_after_a_flush(tmp_path):
    source = Source(tmp_path)
    source.deliver(0, make_rollout_turns(0, 3))
    source.recorder.flush()
    assert len(recorded(tmp_path)) == 3
    assert len(list(read_rollouts(tmp_path))) == 1
    source.recorder.close()


@pytest.mark.parametrize("torn", [1, 25, 200])
def test_a_torn_last_line_is_left_out_and_then_cut(tmp_path, torn):
    source = Source(tmp_path)
    source.deliver(0, make_rollout_turns(0, 2))
    source.recorder.close()
    path = tmp_path / "turns-00000.jsonl"
    os.truncate(path, path.stat().st_size - torn)
    assert recorded(tmp_path) == [(0, 0)]
    again = Recorder(tmp_path)
    again.record(make_rollout(1, []), make_rollout_turns(1, 1), enqueue_update=0)
    again.close()
    assert recorded(tmp_path) == [(0, 0), (1, 0)]


def test_a_damaged_line_elsewhere_is_named(tmp_path):
    source = Source(tmp_path)
    source.deliver(0, make_rollout_turns(0, 2))
    source.recorder.close()
    path = tmp_path / "turns-00000.jsonl"
    path.write_text("{broken\n" + path.read_text())
    with pytest.raises(ValueError, match=r"turns-00000.jsonl, line 1, is damaged"):
        recorded(tmp_path)


@pytest.mark.parametrize("per_file", [2, 100])
def test_a_resumed_run_records_nothing_twice(tmp_path, per_file):
    source = Source(tmp_path, turns_per_file=per_file)
    for rollout_id in range(3):
        source.deliver(rollout_id, make_rollout_turns(rollout_id, 2))
    point = source.queue.state()
    for rollout_id in (3, 4):
        source.deliver(rollout_id, make_rollout_turns(rollout_id, 2))
    source.recorder.close()

    again = Source(tmp_path, turns_per_file=per_file)
    again.queue.restore(point, max_version=0)
    again.recorder.truncate_to(again.queue.counts["produced"])
    for rollout_id in (4, 3):
        again.deliver(rollout_id, make_rollout_turns(rollout_id, 2))
    again.recorder.close()
    order = [0, 1, 2, 4, 3]
    assert recorded(tmp_path) == [(r, t) for r in order for t in range(2)]
    assert [r.candidate.turn.arrival for r in read_turns(tmp_path)] == list(range(10))
    assert [r["rollout_id"] for r in read_rollouts(tmp_path)] == order


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    recorder = Recorder(tmp_path)
    recorder.record(make_rollout(0, []), make_rollout_turns(0, 9), enqueue_update=0)
    with (
        files_up_to(2000),
        pytest.raises(OSError, match=r"cannot write .*turns-00000.jsonl: File too large"),
    ):
        recorder.close()
    whole = recorded(tmp_path)
    assert whole == [(0, i) for i in range(len(whole))]
    assert 0 < len(whole) < 9


def test_threads_may_record_at_once(tmp_path):
    source = Source(tmp_path, turns_per_file=7)

    def explore(number):
        for i in range(20):
            rollout_id = 100 * number + i
            source.deliver(rollout_id, make_rollout_turns(rollout_id, 3))

    explorers = [threading.Thread(target=explore, args=(number,)) for number in range(3)]
    for explorer in explorers:
        explorer.start()
    for explorer in explorers:
        explorer.join(20.0)
    source.recorder.close()
    turns = [r.candidate.turn for r in read_turns(tmp_path)]
    assert sorted(turn.arrival for turn in turns) == list(range(180))
    for i in range(0, 180, 3):
        assert len({turn.rollout_id for turn in turns[i : i + 3]}) == 1
