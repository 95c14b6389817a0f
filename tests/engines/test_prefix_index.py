"""Longest common prefixes over the rows of a cache."""

import numpy as np
import pytest

from jopd.engines.prefix_index import Match, PrefixIndex, common_prefix_length


def _index(num_rows=3, reuse=True):
    return PrefixIndex(num_rows, cost=lambda tokens: 4 * -(-tokens // 4), reuse=reuse)


def _ids(*values):
    return np.array(values, np.int32)


def _played(index, tokens):
    row = index.claim(tokens)
    index.release(row, tokens)
    return row


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        ([], [1], 0),
        ([1, 2, 3], [1, 2, 3], 3),
        ([1, 2, 3], [1, 2], 2),
        ([1, 2, 3], [1, 9, 3], 1),
        ([9, 2], [1, 2], 0),
    ],
)
def test_common_prefix_ends_at_the_first_difference(first, second, shared):
    assert common_prefix_length(_ids(*first), _ids(*second)) == shared


def test_the_longest_prefix_wins():
    index = _index()
    _played(index, _ids(1, 2, 3, 4, 5))
    best = _played(index, _ids(1, 2, 3, 4, 5, 6, 7, 8, 9))
    _played(index, _ids(1, 2))
    assert index.match(_ids(*range(1, 13))) == Match(row=best, length=9)


def test_the_last_token_of_a_prompt_is_always_computed():
    index = _index()
    row = _played(index, _ids(*range(10)))
    assert index.match(_ids(*range(10))) == Match(row=row, length=9)


def test_a_short_match_that_saves_no_padded_work_is_none():
    index = _index()
    _played(index, _ids(1, 2, 3))
    assert index.match(_ids(1, 2, 3, 9, 9, 9, 9, 9)) is None  # 5 tokens are padded to 8, as 8 are


def test_a_match_of_half_the_prompt_is_always_used():
    index = _index()
    row = _played(index, _ids(1, 2))
    assert index.match(_ids(1, 2, 9, 9)) == Match(row=row, length=2)


def test_nothing_matches_an_empty_cache():
    assert _index().match(_ids(1, 2, 3, 4, 5, 6)) is None


def test_reuse_can_be_turned_off():
    index = _index(reuse=False)
    _played(index, _ids(*range(10)))
    assert index.match(_ids(*range(12))) is None


def test_a_prompt_goes_on_in_the_row_of_its_history():
    index = _index()
    _played(index, _ids(*range(50, 60)))
    row = _played(index, _ids(*range(10)))
    prompt = _ids(*range(20))
    assert index.claim(prompt, index.match(prompt)) == row


def test_a_shared_beginning_does_not_cost_another_history_its_row():
    index = _index()
    long_row = _played(index, _ids(*range(40)))
    prompt = _ids(*range(9), 77, 78, 79)  # shares 9 of the 40 tokens
    match = index.match(prompt)
    assert match is not None
    assert match.row == long_row
    assert index.claim(prompt, match) != long_row


def test_rows_in_use_are_copied_from_but_not_taken():
    index = _index(num_rows=2)
    running = index.claim(_ids(*range(10)))
    prompt = _ids(*range(12))
    match = index.match(prompt)
    assert match == Match(row=running, length=10)
    assert index.claim(prompt, match) != running


def test_the_row_unused_for_longest_is_overwritten():
    index = _index()
    rows = [_played(index, _ids(value)) for value in (1, 2, 3)]
    assert sorted(rows) == [0, 1, 2]
    assert index.claim(_ids(9)) == rows[0]


def test_claiming_without_a_free_row_is_an_error():
    index = _index(num_rows=1)
    index.claim(_ids(1))
    with pytest.raises(RuntimeError, match="all 1 rows"):
        index.claim(_ids(2))


def test_a_flush_forgets_every_row():
    index = _index()
    _played(index, _ids(*range(10)))
    index.flush()
    assert index.match(_ids(*range(12))) is None


def test_what_was_claimed_before_a_flush_is_not_kept_after_it():
    index = _index()
    row = index.claim(_ids(*range(10)))
    index.flush()
    index.release(row, _ids(*range(10)))
    assert index.match(_ids(*range(12))) is None
