import dataclasses
import json
import threading
from pathlib import Path

import pytest
from made_turns import make_rollout_turns, make_turn, names, settings

from jopd.algorithms.composition import COMPOSERS, compose
from jopd.experience.queue import ExperienceQueue, QueueClosed, QueueSettings
from jopd.experience.reader import BatchReader, turn_balance
from jopd.experience.records import candidate_to_record
from jopd.experience.validity import make_candidate

EXAMPLE = json.loads(
    (Path(__file__).parents[1] / "data/composition_worked_example.json").read_text()
)
NEVER_S = 20.0


def make_reader(capacity=1000, policy="block", **changes):
    queue = ExperienceQueue(QueueSettings(capacity_turns=capacity, policy=policy))
    return queue, BatchReader(queue, settings(**changes))


def example_turn(row):
    return make_turn(
        row["rollout_id"],
        row["turn"],
        row["version"],
        score=row["score"],
        tokens=max(row["tokens"], 1),
        dead=not row["valid"],
    )


def example_reader(**changes):
    """The worked example before update 10: three turns pending since update 9, the rest queued."""
    queue, reader = make_reader(**changes)
    pending = queue.put([example_turn(row) for row in EXAMPLE["pending"]])
    queue.take(max_turns=3, min_turns=3, accept=lambda turn: True)
    queue.put([example_turn(row) for row in EXAMPLE["queue"]])
    stamped = [candidate_to_record(make_candidate(turn, first_seen=9)) for turn in pending]
    reader.restore({"pending": stamped, "counts": {}}, max_version=10)
    return queue, reader


def expected(rows):
    return [tuple(row) for row in rows]


@pytest.mark.parametrize("composer", ["divopd", "top_b", "gate_only", "vanilla_matched"])
def test_the_worked_example_runs_from_queue_to_batch(composer):
    queue, reader = example_reader(composer=composer)
    composition = reader.next(update_index=10)
    case = EXAMPLE["expected"][composer]
    assert names(composition.selected) == expected(case["selected"])
    assert names(composition.pending) == expected(case["pending"])
    assert composition.counts["read"] == case["read"]
    assert composition.counts["stale_queue"] == composition.counts["stale_pending"] == 1
    assert composition.counts["invalid"] == (composer != "vanilla_matched")
    assert len(queue) == 1


def test_the_worked_example_goes_on_at_the_next_two_updates():
    queue, reader = example_reader()
    reader.next(update_index=10)
    queue.put([example_turn(row) for row in EXAMPLE["next"]["new_rows"]])
    following = reader.next(update_index=11)
    assert names(following.selected) == expected(EXAMPLE["next"]["selected"])
    assert names(following.pending) == expected(EXAMPLE["next"]["pending"])
    assert [c.first_seen for c in following.pending] == [10, 11]
    last = reader.next(update_index=12, timeout_s=0.0)
    assert last.counts["stale_pending"] == 1
    assert names(last.selected) == [(5, 0)]


def test_vanilla_reads_one_batch_in_order_of_arrival_and_carries_nothing():
    queue, reader = make_reader(composer="vanilla", batch_size=8, pool_multiplier=4)
    rows = EXAMPLE["pending"] + EXAMPLE["queue"]
    queue.put([example_turn(row) for row in rows])
    composition = reader.next(update_index=10)
    fresh = [(r["rollout_id"], r["turn"]) for r in rows if r["version"] >= 8]
    assert names(composition.selected) == fresh[:8]
    assert composition.pending == ()
    assert not composition.selected[-1].valid  # the dead turn took a slot
    assert len(queue) == 15 - 2 - 8


def test_stale_turns_are_never_selected():
    queue, reader = make_reader(max_staleness=1)
    queue.put([make_turn(0, i, version) for i, version in enumerate((3, 4, 5, 5))])
    composition = reader.next(update_index=5, timeout_s=0.0)
    assert sorted(names(composition.selected)) == [(0, 1), (0, 2), (0, 3)]
    assert composition.counts["stale_queue"] == 1


@pytest.mark.parametrize(("age_offset", "admitted"), [(0, [3, 4, 5]), (1, [4, 5])])
def test_the_age_offset_moves_the_version_gate(age_offset, admitted):
    queue, reader = make_reader(age_offset=age_offset)
    queue.put([make_turn(0, i, version) for i, version in enumerate((2, 3, 4, 5))])
    composition = reader.next(update_index=5, timeout_s=0.0)
    assert sorted(c.turn.policy_version for c in composition.selected) == admitted


def test_a_batch_of_valid_turns_ends_the_wait_without_a_full_pool():
    queue, reader = make_reader(batch_size=4, pool_multiplier=4)
    queue.put(make_rollout_turns(0, 5))
    assert len(reader.next(update_index=0).selected) == 4
    assert names(reader.pending) == [(0, 4)]


def test_pending_turns_shorten_the_wait():
    queue, reader = make_reader(batch_size=4, pool_multiplier=4)
    queue.put(make_rollout_turns(0, 7))
    reader.next(update_index=0)
    assert len(reader.pending) == 3
    queue.put(make_rollout_turns(1, 1))
    assert len(reader.next(update_index=1).selected) == 4


def in_background(call):
    result = {}
    thread = threading.Thread(target=lambda: result.update(value=call()), daemon=True)
    thread.start()
    return thread, result


def test_invalid_turns_do_not_count_as_a_batch():
    queue, reader = make_reader(batch_size=3, pool_multiplier=4)
    thread, result = in_background(lambda: reader.next(update_index=0))
    queue.put(make_rollout_turns(0, 4, dead=(1, 2)))
    thread.join(0.1)
    assert thread.is_alive()
    queue.put(make_rollout_turns(1, 1))
    thread.join(NEVER_S)
    assert names(result["value"].selected) == [(0, 0), (0, 3), (1, 0)]
    assert result["value"].counts["invalid"] == 2


def test_invalid_turns_take_room_in_the_pool():
    queue, reader = make_reader(batch_size=2, pool_multiplier=2)
    queue.put(make_rollout_turns(0, 6, dead=(0, 1, 2)))
    assert names(reader.next(update_index=0).selected) == [(0, 3)]
    assert len(queue) == 2


def test_a_blocking_fill_waits_for_the_whole_pool():
    queue, reader = make_reader(batch_size=2, pool_multiplier=3, fill="block")
    thread, result = in_background(lambda: reader.next(update_index=0))
    queue.put(make_rollout_turns(0, 5))
    thread.join(0.1)
    assert thread.is_alive()
    queue.put(make_rollout_turns(1, 1))
    thread.join(NEVER_S)
    assert len(result["value"].pending) == 4


def test_an_update_without_a_valid_turn_waits_for_one():
    queue, reader = make_reader(batch_size=2, pool_multiplier=1)
    thread, result = in_background(lambda: reader.next(update_index=3))
    queue.put(make_rollout_turns(0, 2, version=3, dead=(0, 1)))
    thread.join(0.1)
    assert thread.is_alive()
    queue.put(make_rollout_turns(1, 2, version=3))
    thread.join(NEVER_S)
    assert result["value"].update_index == 3
    assert names(result["value"].selected) == [(1, 0), (1, 1)]
    assert result["value"].counts["invalid"] == 2


def test_the_deadline_makes_a_short_batch_or_says_that_there_is_none():
    queue, reader = make_reader()
    with pytest.raises(TimeoutError, match="nothing to train at update 0"):
        reader.next(update_index=0, timeout_s=0.0)
    queue.put(make_rollout_turns(0, 2))
    assert len(reader.next(update_index=0, timeout_s=0.01).selected) == 2


def test_closing_the_queue_wakes_the_reader_and_loses_nothing():
    queue, reader = make_reader()
    queue.put(make_rollout_turns(0, 2))
    failure = RuntimeError("explorer died")
    threading.Timer(0.05, lambda: queue.close(failure)).start()
    with pytest.raises(QueueClosed) as caught:
        reader.next(update_index=0)
    assert caught.value.__cause__ is failure
    balance = turn_balance(queue, reader)
    assert balance["produced"] == balance["queued"] + balance["pending"] == 2


def test_unselected_turns_age_out_when_staleness_allows_more_than_pending_age():
    queue, reader = make_reader(
        batch_size=1, pool_multiplier=4, max_staleness=20, max_pending_age=2
    )
    queue.put(make_rollout_turns(0, 3, scores=[3.0, 2.0, 1.0]))
    reader.next(update_index=7)
    queue.put(make_rollout_turns(1, 1, version=8, scores=[9.0]))
    for update_index, left in ((8, [(0, 2), (1, 0)]), (9, [(1, 0)])):
        composition = reader.next(update_index=update_index)
        assert names(composition.pending) == left
    assert names(reader.next(update_index=10).selected) == [(1, 0)]
    aged = make_reader(batch_size=1, pool_multiplier=4, max_staleness=20, max_pending_age=2)
    queue, reader = aged
    queue.put(make_rollout_turns(0, 3, scores=[3.0, 2.0, 1.0]))
    reader.next(update_index=7)
    late = reader.next(update_index=10)
    assert names(late.selected) == [(0, 1)]
    assert late.counts["aged_out"] == 1
    assert late.pending == ()


def test_missing_turns_count_what_the_next_batch_still_waits_for():
    queue, reader = make_reader(batch_size=4, pool_multiplier=2)
    assert reader.missing_turns(update_index=2) == 4
    queue.put(make_rollout_turns(0, 3, version=2, dead=(1,)))
    queue.put(make_rollout_turns(1, 1, version=0))
    assert reader.missing_turns(update_index=2) == 1
    assert reader.missing_turns(update_index=3) == 2
    queue.put(make_rollout_turns(2, 4, version=2))
    assert reader.missing_turns(update_index=2) == 0
    reader.next(update_index=2)
    assert reader.missing_turns(update_index=3) == 4 - len(reader.pending)


def test_a_restored_reader_makes_the_same_batches():
    queue, reader = example_reader()
    reader.next(update_index=10)
    again_queue, again = make_reader()
    again_queue.restore(json.loads(json.dumps(queue.state())), max_version=10)
    again.restore(json.loads(json.dumps(reader.state())), max_version=10)
    more = [example_turn(row) for row in EXAMPLE["next"]["new_rows"]]
    for q, r in ((queue, reader), (again_queue, again)):
        q.put(more)
        assert turn_balance(q, r)["pending"] == 5
    left, right = reader.next(update_index=11), again.next(update_index=11)
    assert names(left.selected) == names(right.selected)
    assert left.counts == right.counts
    assert [c.first_seen for c in left.pending] == [c.first_seen for c in right.pending]
    assert turn_balance(queue, reader) == turn_balance(again_queue, again)


def test_pending_turns_above_the_restored_version_are_discarded():
    queue, reader = make_reader(batch_size=1, pool_multiplier=4)
    queue.put([make_turn(0, i, version) for i, version in enumerate((4, 4, 5))])
    reader.next(update_index=5)
    _, again = make_reader(batch_size=1, pool_multiplier=4)
    again.restore(reader.state(), max_version=4)
    assert names(again.pending) == [(0, 1)]
    assert again.counts["discarded"] == 1


def test_a_pool_too_large_for_the_settings_is_refused():
    queue, reader = make_reader(batch_size=1, pool_multiplier=4)
    queue.put(make_rollout_turns(0, 4))
    reader.next(update_index=0)
    _, small = make_reader(batch_size=1, pool_multiplier=2)
    with pytest.raises(ValueError, match="3 turns are pending in the checkpoint"):
        small.restore(reader.state(), max_version=0)


def test_reading_compiles_once_however_full_the_pool_is():
    compose.clear_cache()
    queue, reader = make_reader()
    for update_index, count in enumerate((3, 12, 1, 7)):
        queue.put(make_rollout_turns(update_index, count, version=update_index))
        reader.next(update_index=update_index, timeout_s=0.0)
    assert compose._cache_size() == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"composer": "greedy"},
        {"batch_size": 0},
        {"pool_multiplier": 0},
        {"first_pass_cap": 0},
        {"max_staleness": -1},
        {"max_staleness": 0, "age_offset": 1},
        {"max_pending_age": -1},
        {"seed": 2**31},
    ],
)
def test_settings_that_cannot_work_are_refused(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        settings(**changes)


def test_every_composer_can_be_named_in_the_settings():
    for composer in COMPOSERS:
        assert dataclasses.replace(settings(), composer=composer).rules is COMPOSERS[composer]
