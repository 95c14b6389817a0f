from collections.abc import Sequence

import numpy as np
import pytest

from jopd.engines.score_desk import Request
from jopd.engines.score_planner import Plan, Planner, batch_shapes, scored_places

SHAPES = batch_shapes(buckets=(4, 8), max_context=32, max_rows=4, max_tokens=16)


def request(prompt: int, response: int, *, rollout_id: int = 0, start: int = 0) -> Request:
    ids = np.arange(start, start + prompt + response, dtype=np.int32)
    mask = np.ones(response, bool)
    return Request(ids=ids, first=prompt - 1, mask=mask, rollout_id=rollout_id)


def test_contexts_grow_from_the_largest_bucket_to_the_whole():
    shapes = batch_shapes(buckets=(4, 8), max_context=40, max_rows=1, max_tokens=1)
    assert shapes.contexts == (8, 32, 40)


@pytest.mark.parametrize(
    ("tokens", "length"), [(1, 4), (4, 4), (5, 4), (6, 8), (8, 8), (9, 8), (100, 8)]
)
def test_a_stretch_is_cut_rather_than_padded_by_more_than_a_quarter(tokens, length):
    assert SHAPES.length(tokens) == length


@pytest.mark.parametrize(
    ("count", "batches"),
    [(1, [1]), (2, [4]), (3, [4]), (4, [4]), (5, [4, 1]), (7, [4, 4]), (8, [16]), (13, [16])],
)
def test_no_batch_has_less_than_half_of_its_rows_filled(count, batches):
    shapes = batch_shapes(buckets=(4,), max_context=4, max_rows=16, max_tokens=64)
    planner = Planner(shapes, pool_rows=16)
    plans = planner.plan([request(1, 3, rollout_id=r, start=100 * r) for r in range(count)])
    assert [len(plan.batch.tokens) for plan in plans] == batches
    assert sum(len(plan.stretches) for plan in plans) == count


def test_rows_times_length_stay_within_the_token_limit():
    assert (SHAPES.most_rows(4), SHAPES.most_rows(8)) == (4, 2)
    assert all(rows * length <= 16 for rows, length, _ in SHAPES.all())


def test_every_place_that_predicts_a_response_token_is_scored_once_and_no_other():
    asked = request(prompt=10, response=7)
    planner = Planner(SHAPES, pool_rows=4)
    places, covered = [], []
    while not asked.fully_started:
        ((stretch,),) = (plan.stretches for plan in planner.plan([asked]))
        in_row, in_response = scored_places(stretch)
        covered += range(stretch.start, stretch.stop)
        places += range(stretch.start + in_row.start, stretch.start + in_row.stop)
        assert in_response.stop - in_response.start == in_row.stop - in_row.start
    assert covered == list(range(16))  # the last response token is read by nobody
    assert places == list(range(9, 16))  # P - 1 .. P + R - 2


def test_targets_are_the_ids_that_follow():
    (plan,) = Planner(SHAPES, pool_rows=4).plan([request(prompt=2, response=3, start=20)])
    np.testing.assert_array_equal(plan.batch.tokens[0], [20, 21, 22, 23])
    np.testing.assert_array_equal(plan.batch.targets[0], [21, 22, 23, 24])
    np.testing.assert_array_equal(plan.batch.mask[0], [False, True, True, True])


def test_padding_places_lie_past_the_context_and_padding_rows_past_the_pool():
    waiting = [request(2, 2, rollout_id=r, start=100 * r) for r in range(3)]
    (plan,) = Planner(SHAPES, pool_rows=4).plan(waiting)
    assert plan.batch.tokens.shape == (4, 4)
    np.testing.assert_array_equal(plan.batch.positions[:3], [[0, 1, 2, plan.context]] * 3)
    assert (plan.batch.positions[3] == plan.context).all()
    assert plan.batch.destinations[3] >= 4
    assert not plan.batch.mask[3].any()


def test_the_oldest_request_is_always_taken():
    rng = np.random.default_rng(0)
    planner = Planner(SHAPES, pool_rows=4)
    waiting = [request(int(rng.integers(1, 20)), 5, rollout_id=r) for r in range(30)]
    while waiting:
        assert planner.plan(waiting)[0].stretches[0].request is waiting[0]
        waiting = [asked for asked in waiting if not asked.fully_started]


def test_rows_of_one_batch_are_written_once_each():
    planner = Planner(SHAPES, pool_rows=4)
    (plan,) = planner.plan([request(1, 3, rollout_id=0, start=100 * r) for r in range(4)])
    assert sorted(stretch.destination for stretch in plan.stretches) == [0, 1, 2, 3]


def test_no_batch_has_a_shape_outside_the_bounded_set():
    rng = np.random.default_rng(0)
    planner = Planner(SHAPES, pool_rows=6)
    possible, seen = SHAPES.all(), set()
    waiting: list[Request] = []
    for rollout_id in range(300):
        waiting.append(
            request(
                int(rng.integers(1, 25)),
                int(rng.integers(1, 8)),
                rollout_id=rollout_id % 9,
                start=int(rng.integers(0, 3)),
            )
        )
        while len(waiting) > rng.integers(0, 12):
            plans = planner.plan(waiting)
            seen |= {(*plan.batch.tokens.shape, plan.context) for plan in plans}
            assert_independent(plans)
            waiting = [asked for asked in waiting if not asked.fully_started]
    assert seen <= possible
    assert len(possible) == (2 + 2) * 2  # 1, 4 rows of 4 and 1, 2 rows of 8; contexts 8, 32


def assert_independent(plans: Sequence[Plan]) -> None:
    """No row is written twice, and none is read by another stretch than the one that writes it."""
    stretches = [stretch for plan in plans for stretch in plan.stretches]
    written = [stretch.destination for stretch in stretches]
    assert len(set(written)) == len(written)
    for stretch in stretches:
        if stretch.start > 0 and stretch.source in written:
            assert stretch.source == stretch.destination
