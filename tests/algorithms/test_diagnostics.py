import json
import statistics
from pathlib import Path

import numpy as np
import pytest

from jopd.algorithms.diagnostics import (
    cost_to_target,
    dead_share,
    effective_rollouts,
    final_five,
    gini,
    kl_statistics,
    mean_age,
    moving_average,
    never_selected_share,
    normalised_auc,
    peak,
    rollout_shares,
    top1_share,
    turns_per_rollout,
)

EXAMPLE = json.loads(
    (Path(__file__).parents[1] / "data/composition_worked_example.json").read_text()
)
TOKENS = {(u["rollout_id"], u["turn"]): u["tokens"] for u in EXAMPLE["pending"] + EXAMPLE["queue"]}
DIVOPD, TOP_B, GATE_ONLY, VANILLA = (
    [tuple(u) for u in EXAMPLE["expected"][c]["selected"]]
    for c in ("divopd", "top_b", "gate_only", "vanilla_matched")
)


def columns(turns):
    """Rollout ids and effective tokens of a batch of the worked example."""
    return np.array([r for r, _ in turns]), np.array([TOKENS[turn] for turn in turns])


@pytest.mark.parametrize(
    ("turns", "effective", "top1", "per_rollout"),
    [
        (DIVOPD, 2.8824, 0.4286, 2.0),
        (TOP_B, 3.6571, 0.375, 1.5),
        (GATE_ONLY, 1.7423, 0.6923, 3.0),
        ([*VANILLA, (0, 4), (0, 5)], 1.6897, 0.7143, 4.0),
    ],
)
def test_batches_of_the_worked_example_have_their_diagnostics(turns, effective, top1, per_rollout):
    rollout_ids, tokens = columns(turns)
    assert round(effective_rollouts(rollout_ids, tokens), 4) == effective
    assert round(top1_share(rollout_ids, tokens), 4) == top1
    assert turns_per_rollout(rollout_ids) == per_rollout


def test_the_dead_turn_of_the_worked_example_takes_an_eighth_of_the_batch():
    _, tokens = columns([*VANILLA, (0, 4), (0, 5)])
    assert dead_share(tokens) == 0.125
    assert dead_share(columns(DIVOPD)[1]) == 0


def test_shares_pool_the_turns_of_a_rollout():
    shares = rollout_shares(np.array([7, 2, 7]), np.array([10, 60, 30]))
    np.testing.assert_allclose(shares, [0.6, 0.4])


def test_a_batch_without_tokens_has_no_rollout():
    rollout_ids, tokens = np.array([1, 2]), np.array([0, 0])
    assert effective_rollouts(rollout_ids, tokens) == 0
    assert top1_share(rollout_ids, tokens) == 0
    assert dead_share(tokens) == 1


def test_equal_rollouts_count_in_full():
    assert effective_rollouts(np.arange(5), np.full(5, 12)) == pytest.approx(5)


def test_age_is_counted_in_updates_dead_turns_included():
    assert mean_age(np.array([10, 9, 8, 8]), update_index=10) == pytest.approx(1.25)


def test_kl_is_pooled_over_tokens_and_spread_over_rollouts():
    row_kl, tokens = np.array([2.0, -1.0, 5.0, 0.0]), np.array([4, 2, 10, 0])
    rollouts = np.array([3, 1, 3, 1])
    kl = kl_statistics(row_kl, tokens, rollouts)
    assert kl.per_token == pytest.approx(6 / 16)
    assert kl.row_mean == pytest.approx(1.5)
    assert kl.row_std == pytest.approx(statistics.pstdev(row_kl))
    assert kl.rollout_std == pytest.approx(statistics.pstdev([7.0, -1.0]))
    assert kl_statistics(row_kl, tokens, np.ones(4, int)).rollout_std == 0


def test_the_moving_average_gives_the_new_value_twelve_percent():
    first = moving_average(None, 5.0)
    assert first == 5.0
    assert moving_average(first, 10.0) == pytest.approx(0.12 * 10 + 0.88 * 5)


def test_rollouts_without_a_selected_turn_are_counted():
    assert never_selected_share(np.array([0, 0, 2, 4])) == 0.5


def test_gini_of_the_example_is_seven_twelfths():
    assert gini(np.array([0, 0, 2, 4])) == pytest.approx(0.58333, abs=1e-5)


def test_gini_agrees_with_the_double_sum():
    counts = np.random.default_rng(0).integers(0, 9, 30)
    pairs = np.abs(counts[:, None] - counts[None, :]).sum()
    assert gini(counts) == pytest.approx(pairs / (2 * 30**2 * counts.mean()))
    assert gini(np.full(4, 3)) == 0
    assert gini(np.zeros(4, int)) == 0


def test_final_five_has_the_sample_deviation():
    rates = [10.0, 70.0, 72.0, 75.0, 71.0, 74.0]
    mean, deviation = final_five(rates)
    assert mean == pytest.approx(statistics.mean(rates[1:]))
    assert deviation == pytest.approx(statistics.stdev(rates[1:]))
    assert final_five([40.0]) == (40.0, 0.0)


def test_peak_is_unsmoothed():
    assert peak([10.0, 90.0, 20.0]) == 90.0


def test_area_under_success_is_linear_between_evaluations():
    assert normalised_auc([0, 4, 10], [10.0, 30.0, 60.0], 8) == pytest.approx(30.0)
    assert normalised_auc([0, 4, 10], [10.0, 30.0, 60.0], 10) == pytest.approx((80 + 270) / 10)


def test_the_last_of_several_evaluations_of_a_version_counts():
    assert normalised_auc([0, 4, 4, 10], [10.0, 99.0, 30.0, 60.0], 8) == pytest.approx(30.0)


@pytest.mark.parametrize(
    ("versions", "until"), [([1, 4, 10], 8), ([0, 4, 10], 11), ([0, 4, 10], 0), ([0, 4, 3], 3)]
)
def test_area_is_refused_where_the_evaluations_do_not_reach(versions, until):
    with pytest.raises(ValueError, match="do not cover updates"):
        normalised_auc(versions, [10.0, 30.0, 60.0], until)


def test_cost_runs_through_the_first_evaluation_that_reaches_the_target():
    rates, tokens = [10.0, 69.0, 70.0, 60.0, 90.0], [0, 5, 9, 14, 20]
    assert cost_to_target(rates, tokens, target=70.0) == 9
    assert cost_to_target(rates, tokens, target=95.0) is None
