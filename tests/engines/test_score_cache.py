import numpy as np

from jopd.engines.score_cache import PoolIndex, Reuse

NOBODY_BUSY: frozenset[int] = frozenset()


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def put(index: PoolIndex, tokens: np.ndarray, rollout_id: int, busy=NOBODY_BUSY) -> int:
    found = index.find(tokens, rollout_id=rollout_id, limit=len(tokens), busy=busy)
    assert found is not None
    return index.claim(tokens, rollout_id=rollout_id, reuse=found, busy=busy)


def slow_shared(row: np.ndarray, tokens: np.ndarray) -> int:
    count = 0
    while count < min(len(row), len(tokens)) and row[count] == tokens[count]:
        count += 1
    return count


def test_the_longest_common_prefix_is_found_at_any_length():
    rng = np.random.default_rng(0)
    base = rng.integers(0, 5, 500).astype(np.int32)
    index = PoolIndex(8, 600)
    rows = {}
    for rollout_id, kept in enumerate([0, 1, 63, 64, 65, 192, 300, 450]):
        tokens = np.concatenate([base[:kept], 9 + rng.integers(0, 5, 100)]).astype(np.int32)
        rows[put(index, tokens, rollout_id)] = tokens
    for length in [1, 2, 64, 65, 100, 193, 301, 500]:
        asked = np.concatenate([base[:length], ids(7)])
        found = index.find(asked, rollout_id=99, limit=1000, busy=NOBODY_BUSY)
        longest = max(slow_shared(row, asked) for row in rows.values())
        assert found is not None
        assert found.shared == longest == slow_shared(rows[found.row], asked)


def test_no_more_is_reused_than_the_limit():
    index = PoolIndex(2, 8)
    put(index, ids(1, 2, 3, 4), 0)
    assert index.find(ids(1, 2, 3, 4), rollout_id=99, limit=2, busy=NOBODY_BUSY) == Reuse(
        row=0, shared=2
    )


def test_tokens_of_a_longer_predecessor_are_gone():
    index = PoolIndex(1, 8)
    put(index, ids(1, 2, 3, 4), 0)
    put(index, ids(1, 2), 0)
    assert index.find(ids(1, 2, 3, 4), rollout_id=99, limit=8, busy=NOBODY_BUSY) == Reuse(
        row=0, shared=2
    )


def test_a_rollout_overwrites_its_own_row_and_others_the_longest_unused():
    index = PoolIndex(3, 8)
    first = [put(index, ids(10 * r, 1), r) for r in range(3)]
    assert sorted(first) == [0, 1, 2]
    assert put(index, ids(0, 1, 5), 0) == first[0]  # uses row 0: rollout 1 is now the oldest
    assert put(index, ids(50, 1), 7) == first[1]
    assert put(index, ids(60, 1), 8) == first[2]
    assert put(index, ids(10, 1), 1) == first[0]  # rollout 1 lost its row and gets the oldest


def test_reading_a_row_keeps_it_from_being_overwritten():
    index = PoolIndex(3, 8)
    system = put(index, ids(1, 2, 3), 0)
    put(index, ids(7), 1)
    put(index, ids(8), 2)
    for rollout_id in range(3, 9):
        row = put(index, ids(1, 2, 9 + rollout_id), rollout_id)
        assert row != system


def test_a_rollout_whose_row_is_busy_gets_another_and_forgets_the_first():
    index = PoolIndex(2, 8)
    first = put(index, ids(1, 2), 0)
    second = put(index, ids(4, 4, 4), 0, busy={first})
    assert second != first
    assert put(index, ids(9), 5) == first  # nobody's row now, and the longest unused
    assert put(index, ids(1, 2, 3, 4), 0) == second


def test_a_request_waits_for_a_row_being_written_only_if_that_halves_its_work():
    index = PoolIndex(3, 16)
    row = put(index, ids(1, 2, 3, 4, 5, 6), 0)
    assert row == 0
    asked = ids(1, 2, 3, 4, 7, 8, 9, 9)  # 8 to compute now, 4 after waiting
    assert index.find(asked, rollout_id=99, limit=7, busy={row}) is None
    asked = ids(1, 2, 3, 7, 7, 8, 9, 9)  # 8 now, 5 after waiting
    assert index.find(asked, rollout_id=99, limit=7, busy={row}) == Reuse(row=1, shared=0)


def test_nothing_is_found_while_every_row_is_busy():
    index = PoolIndex(2, 4)
    assert index.find(ids(1), rollout_id=99, limit=0, busy={0, 1}) is None


def test_a_rollout_that_goes_on_finds_its_own_row():
    index = PoolIndex(3, 8)
    put(index, ids(1, 2, 3), 0)
    own = put(index, ids(1, 2, 3), 1)
    put(index, ids(1, 2, 3), 2)
    found = index.find(ids(1, 2, 3, 4), rollout_id=1, limit=3, busy=NOBODY_BUSY)
    assert found == Reuse(row=own, shared=3)
    assert own == 1
