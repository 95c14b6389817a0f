"""produced = trained + stale + aged out + invalid + pending + queued + discarded, always."""

import threading
from collections import Counter

import numpy as np
import pytest
from made_turns import make_turn, names, settings

from jopd.experience.queue import ExperienceQueue, QueueClosed, QueueSettings
from jopd.experience.reader import BatchReader, turn_balance


def random_settings(rng, composer):
    return settings(
        composer=composer,
        batch_size=4,
        pool_multiplier=3,
        first_pass_cap=int(rng.integers(1, 4)),
        max_staleness=int(rng.integers(1, 5)),
        max_pending_age=int(rng.integers(0, 3)),
        fill=str(rng.choice(["available", "block"])),
    )


def random_rollout(rng, rollout_id, update_index):
    """Turns of mixed versions and scores, some dead, now and then none at all."""
    versions = np.sort(rng.integers(max(0, update_index - 3), update_index + 1, rng.integers(0, 7)))
    return [
        make_turn(rollout_id, i, int(v), score=float(rng.normal()), dead=bool(rng.random() < 0.2))
        for i, v in enumerate(versions)
    ]


def assert_balanced(queue, reader):
    balance = turn_balance(queue, reader)
    assert balance["produced"] == sum(balance.values()) - balance["produced"]


@pytest.mark.parametrize("policy", ["block", "evict"])
@pytest.mark.parametrize("composer", ["divopd", "divopd_base", "vanilla", "vanilla_matched"])
def test_no_turn_is_lost_or_trained_twice_over_random_schedules(composer, policy):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        queue = ExperienceQueue(QueueSettings(capacity_turns=30, policy=policy))
        reader = BatchReader(queue, random_settings(rng, composer))
        trained, update_index = Counter(), 0
        for rollout_id in range(60):
            turns = random_rollout(rng, rollout_id, update_index)
            if policy == "evict" or len(queue) + len(turns) <= 30:
                queue.put(turns)
            if rng.random() < 0.4 and not reader.missing_turns(update_index=update_index):
                composition = reader.next(update_index=update_index, timeout_s=0.0)
                trained.update(names(composition.selected))
                assert len(composition.selected) <= 4
                assert composition.counts["trained"] == len(composition.selected)
                update_index += 1
            if rng.random() < 0.1:
                queue, reader = resumed(queue, reader, max_version=update_index)
            assert_balanced(queue, reader)
        assert max(trained.values()) == 1
        assert trained.total() == reader.counts["trained"]


def resumed(queue, reader, *, max_version):
    new_queue = ExperienceQueue(queue.settings)
    new_queue.restore(queue.state(), max_version=max_version)
    new_reader = BatchReader(new_queue, reader.settings)
    new_reader.restore(reader.state(), max_version=max_version)
    return new_queue, new_reader


@pytest.mark.parametrize("policy", ["block", "evict"])
def test_no_turn_is_lost_between_threads(policy):
    queue = ExperienceQueue(QueueSettings(capacity_turns=20, policy=policy))
    reader = BatchReader(queue, settings(batch_size=4, pool_multiplier=3, max_staleness=100))
    produced = Counter()
    lock = threading.Lock()

    def explore(number):
        rng = np.random.default_rng(number)
        for i in range(10_000):
            turns = random_rollout(rng, 10_000 * number + i, 0)
            try:
                queue.put(turns, timeout_s=20.0)
            except QueueClosed:
                return
            with lock:
                produced.update(names(turns))

    explorers = [threading.Thread(target=explore, args=(n,), daemon=True) for n in range(3)]
    for explorer in explorers:
        explorer.start()
    trained = Counter()
    for update_index in range(60):
        trained.update(names(reader.next(update_index=update_index, timeout_s=20.0).selected))
    queue.close()
    for explorer in explorers:
        explorer.join(20.0)
        assert not explorer.is_alive()
    assert_balanced(queue, reader)
    assert turn_balance(queue, reader)["produced"] == produced.total()
    assert trained.total() == reader.counts["trained"] == 240
    assert max(trained.values()) == 1
    assert trained.keys() <= produced.keys()
