import statistics

import pytest

from jopd.evaluation.evaluator import EpisodeRecord, Evaluation
from jopd.evaluation.progress import RunProgress
from jopd.evaluation.summary import (
    EvaluationPoint,
    pass_at_k,
    read_summary,
    summarise,
    wilson_interval,
    write_summary,
)


def summary_of(rates, interval=10):
    points = [
        EvaluationPoint(update_index=i * interval, success_rate=r) for i, r in enumerate(rates)
    ]
    return summarise(
        points,
        teacher_success_rate=0.9,
        eval_episodes=100,
        updates=points[-1].update_index,
        trained_tokens=1234,
        wall_s=60.0,
        composer="divopd",
        seed=0,
    )


def test_the_wilson_interval_of_published_examples():
    # Newcombe 1998, Table I: 81 of 263 and 0 of 20
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)


def test_initial_peak_final_and_the_last_five():
    rates = [0.1, 0.2, 0.8, 0.7, 0.6, 0.7, 0.5]
    summary = summary_of(rates)
    assert summary.initial_success_rate == 0.1
    assert summary.peak_success_rate == 0.8
    assert summary.final_success_rate == 0.5
    assert summary.final_five_success_rate == pytest.approx(statistics.mean(rates[-5:]))
    assert summary.final_five_std == pytest.approx(statistics.stdev(rates[-5:]))


def test_the_area_under_a_straight_line_is_its_middle():
    assert summary_of([0.0, 0.5, 1.0]).success_nauc == pytest.approx(0.5)


def test_a_run_without_updates_has_a_summary():
    summary = summary_of([0.3])
    assert summary.success_nauc == summary.final_success_rate == 0.3


def test_a_summary_survives_its_file(tmp_path):
    summary = summary_of([0.1, 0.4])
    write_summary(summary, tmp_path / "summary.json")
    assert read_summary(tmp_path / "summary.json") == summary
    assert read_summary(tmp_path / "other.json") is None


def test_progress_continues_where_it_was_saved():
    episode = EpisodeRecord(
        task_id="made",
        sample=0,
        success=True,
        env_done=True,
        reward=1.0,
        turns=1,
        stop_reason="env_done",
        actions=("go",),
        error="",
    )
    progress = RunProgress()
    progress.teacher_success_rate = 0.9
    progress.add_evaluation(
        Evaluation(name="student", policy_version=4, episodes=(episode,), seconds=1.0)
    )
    progress.trained_tokens = 77
    progress.average_gap(2.0)
    again = RunProgress()
    again.restore(progress.state())
    assert again.points == progress.points == [EvaluationPoint(update_index=4, success_rate=1.0)]
    assert (again.success_rate, again.teacher_success_rate) == (1.0, 0.9)
    assert again.trained_tokens == 77
    assert again.wall_s >= progress.state()["wall_s"] - 1
    assert again.average_gap(3.0) == progress.average_gap(3.0)


@pytest.mark.parametrize(
    ("successes", "samples", "k", "expected"),
    [
        (0, 4, 4, 0.0),
        (1, 4, 4, 1.0),
        (1, 4, 1, 0.25),
        (1, 4, 2, 0.5),  # 3 of the 6 pairs hold the success
        (2, 5, 3, 0.9),  # 1 of the 10 triples holds none
    ],
)
def test_pass_at_k_counts_the_draws_that_hold_a_success(successes, samples, k, expected):
    assert pass_at_k(successes, samples, k) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("successes", "samples", "k"), [(5, 4, 1), (-1, 4, 1), (0, 4, 5), (0, 4, 0)]
)
def test_pass_at_k_refuses_impossible_counts(successes, samples, k):
    with pytest.raises(ValueError, match=f"pass@{k}"):
        pass_at_k(successes, samples, k)
