import json
import threading
import time

import numpy as np
import pytest
from made_turns import make_rollout_turns, make_turn, names

from jopd.experience.queue import ExperienceQueue, QueueClosed, QueueSettings

SOON_S, NEVER_S = 0.05, 20.0


def make_queue(capacity=100, policy="block"):
    return ExperienceQueue(QueueSettings(capacity_turns=capacity, policy=policy))


def take(queue, most, least=0, accept=lambda turn: True, timeout_s=NEVER_S):
    return queue.take(max_turns=most, min_turns=least, accept=accept, timeout_s=timeout_s)


class Background(threading.Thread):
    """Runs a call elsewhere and keeps what it returned or raised."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self._call = call
        self.result = self.error = None
        self.start()

    def run(self):
        try:
            self.result = self._call()
        except (QueueClosed, TimeoutError) as error:
            self.error = error

    def finish(self):
        self.join(NEVER_S)
        assert not self.is_alive()
        return self.result


def wait_until(condition):
    end = time.monotonic() + NEVER_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_turns_come_out_in_order_with_ascending_arrivals():
    queue = make_queue()
    first = queue.put(make_rollout_turns(5, 2))
    queue.put(make_rollout_turns(3, 2))
    taken = take(queue, 10)
    assert names(taken) == [(5, 0), (5, 1), (3, 0), (3, 1)]
    assert [turn.arrival for turn in taken] == [0, 1, 2, 3]
    assert [turn.arrival for turn in first] == [0, 1]


def test_turns_beyond_the_limit_stay_untouched():
    queue = make_queue()
    queue.put(make_rollout_turns(0, 5))
    asked = []
    take(queue, 2, accept=lambda turn: asked.append(turn.index) or True)
    assert asked == [0, 1]
    assert names(take(queue, 9)) == [(0, 2), (0, 3), (0, 4)]


def test_refused_turns_are_removed_and_counted():
    queue = make_queue()
    queue.put([make_turn(0, i, version) for i, version in enumerate((1, 3, 2, 3))])
    assert names(take(queue, 2, accept=lambda turn: turn.policy_version == 3)) == [(0, 1), (0, 3)]
    assert queue.counts == {
        "produced": 4,
        "taken": 2,
        "rejected": 2,
        "evicted": 0,
        "discarded": 0,
        "queued": 0,
    }


def test_taking_waits_for_enough_turns_and_no_longer():
    queue = make_queue()
    waiting = Background(lambda: take(queue, 5, least=3))
    queue.put(make_rollout_turns(0, 2))
    waiting.join(SOON_S)
    assert waiting.is_alive()
    queue.put(make_rollout_turns(1, 2))
    assert names(waiting.finish()) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_refused_turns_do_not_end_the_wait():
    queue = make_queue()
    waiting = Background(lambda: take(queue, 5, least=1, accept=lambda turn: turn.index == 1))
    queue.put(make_rollout_turns(0, 1))
    waiting.join(SOON_S)
    assert waiting.is_alive()
    queue.put(make_rollout_turns(1, 2))
    assert names(waiting.finish()) == [(1, 1)]


def test_after_the_deadline_taking_returns_what_is_there():
    queue = make_queue()
    queue.put(make_rollout_turns(0, 1))
    assert names(take(queue, 5, least=3, timeout_s=SOON_S)) == [(0, 0)]
    assert take(queue, 5, least=3, timeout_s=0.0) == []


def test_a_full_queue_blocks_the_producer_until_there_is_room():
    queue = make_queue(capacity=3)
    queue.put(make_rollout_turns(0, 2))
    waiting = Background(lambda: queue.put(make_rollout_turns(1, 2)))
    waiting.join(SOON_S)
    assert waiting.is_alive()
    assert len(queue) == 2
    take(queue, 1)
    assert [turn.arrival for turn in waiting.finish()] == [2, 3]
    assert queue.counts["evicted"] == 0


def test_blocked_producers_enter_in_the_order_in_which_they_came():
    queue = make_queue(capacity=3)
    queue.put(make_rollout_turns(0, 2))
    long = Background(lambda: queue.put(make_rollout_turns(1, 3)))
    wait_until(lambda: len(queue._producers) == 1)
    short = Background(lambda: queue.put(make_rollout_turns(2, 1)))
    short.join(SOON_S)
    assert short.is_alive()  # there is room for it, but the long rollout came first
    take(queue, 2)
    long.finish()
    assert names(take(queue, 3)) == [(1, 0), (1, 1), (1, 2)]
    short.finish()


def test_a_producer_gives_up_at_its_deadline_and_leaves_nothing():
    queue = make_queue(capacity=1)
    queue.put(make_rollout_turns(0, 1))
    with pytest.raises(TimeoutError, match=r"no room for 2 turns .* 1 of 1 turns are waiting"):
        queue.put(make_rollout_turns(1, 2), timeout_s=SOON_S)
    take(queue, 1)
    assert queue.put(make_rollout_turns(2, 1), timeout_s=0.0)[0].arrival == 1


def test_a_rollout_longer_than_the_queue_enters_when_it_is_empty():
    queue = make_queue(capacity=2)
    queue.put(make_rollout_turns(0, 1))
    waiting = Background(lambda: queue.put(make_rollout_turns(1, 5)))
    waiting.join(SOON_S)
    assert waiting.is_alive()
    take(queue, 1)
    waiting.finish()
    assert len(queue) == 5


def test_a_small_queue_feeds_a_large_read():
    queue = make_queue(capacity=2)
    reading = Background(lambda: take(queue, 9, least=9))
    for rollout_id in range(5):
        queue.put(make_rollout_turns(rollout_id, 2), timeout_s=NEVER_S)
    assert len(reading.finish()) == 9


def test_eviction_drops_the_oldest_turns_and_counts_them():
    queue = make_queue(capacity=3, policy="evict")
    queue.put(make_rollout_turns(0, 2))
    queue.put(make_rollout_turns(1, 3))
    assert names(take(queue, 9)) == [(1, 0), (1, 1), (1, 2)]
    assert queue.counts["evicted"] == 2
    assert queue.counts["produced"] == 5


def test_closing_wakes_a_blocked_producer_and_a_blocked_learner_with_the_cause():
    failure = RuntimeError("the environment is gone")
    full, empty = make_queue(capacity=1), make_queue()
    full.put(make_rollout_turns(0, 1))
    blocked = [
        Background(lambda: full.put(make_rollout_turns(1, 1))),
        Background(lambda: take(empty, 1, least=1, timeout_s=None)),
    ]
    for queue in (full, empty):
        queue.close(failure)
    for thread in blocked:
        thread.finish()
        assert isinstance(thread.error, QueueClosed)
        assert thread.error.__cause__ is failure


def test_a_closed_queue_refuses_everything_and_keeps_its_first_cause():
    queue = make_queue()
    first = ValueError("first")
    queue.close(first)
    queue.close(ValueError("second"))
    for call in (lambda: queue.put([make_turn()]), lambda: take(queue, 1)):
        with pytest.raises(QueueClosed) as caught:
            call()
        assert caught.value.__cause__ is first


def test_turns_read_before_closing_go_back():
    queue = make_queue()
    queue.put(make_rollout_turns(0, 2))
    waiting = Background(lambda: take(queue, 5, least=3))
    wait_until(lambda: len(queue) == 0)
    queue.close()
    waiting.finish()
    assert isinstance(waiting.error, QueueClosed)
    assert queue.counts["queued"] == 2
    assert queue.counts["taken"] == 0


def test_a_queue_restores_exactly_through_json():
    queue = make_queue()
    queue.put([make_turn(0, 0, score=0.1), make_turn(0, 1, teacher_logprobs=None)])
    queue.put([make_turn(1, 0, teacher_mask=np.array([True, False]))])
    take(queue, 1)
    again = make_queue()
    again.restore(json.loads(json.dumps(queue.state())), max_version=0)
    assert again.counts == queue.counts
    for left, right in zip(take(queue, 9), take(again, 9), strict=True):
        for name in left.__slots__:
            a, b = (object.__getattribute__(turn, name) for turn in (left, right))
            np.testing.assert_array_equal(a, b)
            assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
    assert again.put([make_turn()])[0].arrival == 3


def test_versions_above_the_restored_one_are_discarded_and_counted():
    queue = make_queue()
    queue.put([make_turn(0, i, version) for i, version in enumerate((3, 5, 4))])
    again = make_queue()
    again.restore(queue.state(), max_version=4)
    assert names(take(again, 9)) == [(0, 0), (0, 2)]
    assert again.counts["discarded"] == 1


@pytest.mark.parametrize("least", [-1, 3])
def test_a_read_of_more_than_the_limit_is_refused(least):
    with pytest.raises(ValueError, match="min_turns must be in"):
        take(make_queue(), 2, least=least)


def test_a_queue_without_capacity_is_refused():
    with pytest.raises(ValueError, match="capacity_turns must be at least 1"):
        QueueSettings(capacity_turns=0, policy="block")
