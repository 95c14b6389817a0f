"""Every task of the panel is played once, in the panel's order, and every episode counts."""

import json

import pytest
from corridor import END, WORDS, Corridor, always, make_player, walker

from jopd.engines.scripted import ScriptedEngine
from jopd.envs.base import LocalEnv
from jopd.evaluation.evaluator import EvaluationSettings, Evaluator
from jopd.panels import Task

PANEL = [Task(task_id=f"corridor-{i}", domain="corridor", index=i, seed=i) for i in range(6)]


def evaluator(engine, directory, *, episodes=6, samples=1, concurrency=3, **player) -> Evaluator:
    return Evaluator(
        name="student",
        tasks=PANEL,
        make_env=lambda: LocalEnv(Corridor()),
        player=make_player(engine, **player),
        settings=EvaluationSettings(
            interval=1,
            episodes=episodes,
            samples_per_task=samples,
            concurrency=concurrency,
            temperature=1.0,
            seed=5,
        ),
        directory=directory,
    )


def test_the_records_are_those_of_the_panel_in_its_order(tmp_path):
    evaluation = evaluator(always("right"), tmp_path).run(policy_version=3)
    assert [e.task_id for e in evaluation.episodes] == [task.task_id for task in PANEL]
    assert evaluation.success_rate == 1
    assert evaluation.episodes[0].actions == ("right", "right")
    lines = (tmp_path / "student-000003.jsonl").read_text().splitlines()
    assert [json.loads(line)["task_id"] for line in lines] == [task.task_id for task in PANEL]


def test_time_outs_and_dead_environments_are_failures(tmp_path):
    moves = ("right", "right", "jump", "jump", "jump", "crash")  # success, time-out, death
    evaluation = evaluator(walker(*moves), tmp_path, episodes=3, concurrency=1, horizon=3).run(
        policy_version=0
    )
    assert [e.success for e in evaluation.episodes] == [True, False, False]
    assert [e.stop_reason for e in evaluation.episodes] == ["env_done", "horizon", "env_error"]
    assert "fell down" in evaluation.episodes[2].error
    metrics = evaluation.metrics()
    assert metrics["eval/success_rate"] == pytest.approx(1 / 3)
    assert metrics["eval/mean_turns"] == pytest.approx(2)
    assert metrics["eval/success_low"] < 1 / 3 < metrics["eval/success_high"]


@pytest.mark.parametrize("concurrency", [1, 2, 6, 50])
def test_what_an_episode_samples_does_not_depend_on_its_neighbours(tmp_path, concurrency):
    moves = ("left", "right", "jump")
    engine = ScriptedEngine(lambda prompt, seed: (WORDS.index(moves[seed % 3]), END))
    evaluation = evaluator(engine, tmp_path, concurrency=concurrency).run(policy_version=0)
    alone = evaluator(engine, tmp_path, concurrency=1).run(policy_version=0)
    assert evaluation.episodes == alone.episodes


def test_progress_is_told_after_every_episode(tmp_path):
    told = []
    evaluator(always("left"), tmp_path).run(
        policy_version=0, on_progress=lambda done, of: told.append((done, of))
    )
    assert told == [(i, 6) for i in range(1, 7)]


def test_more_episodes_than_tasks_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"evaluation.episodes is 7 but the panel has 6 tasks"):
        evaluator(always("left"), tmp_path, episodes=7)


def by_seed(prompt, seed):
    return (WORDS.index(("left", "right", "jump")[seed % 3]), END)


@pytest.mark.parametrize("concurrency", [1, 4, 50])
def test_samples_of_a_task_are_neighbours_and_the_first_is_what_one_sample_would_be(
    tmp_path, concurrency
):
    engine = ScriptedEngine(by_seed)
    three = evaluator(engine, tmp_path, samples=3, concurrency=concurrency).run(policy_version=0)
    one = evaluator(engine, tmp_path).run(policy_version=0)
    assert [(e.task_id, e.sample) for e in three.episodes] == [
        (task.task_id, sample) for task in PANEL for sample in range(3)
    ]
    assert three.episodes[::3] == one.episodes
    again = evaluator(engine, tmp_path, samples=3, concurrency=1).run(policy_version=0)
    assert three.episodes == again.episodes


def test_no_two_samples_share_their_seed(tmp_path):
    seeds = []

    def note(prompt, seed):
        seeds.append(seed)
        return WORDS.index("right"), END

    evaluator(ScriptedEngine(note), tmp_path, samples=3).run(policy_version=0)
    assert len(seeds) == len(set(seeds)) == 6 * 3 * 2  # two steps to the corridor's end


def test_mean_at_k_counts_samples_and_pass_at_k_counts_tasks(tmp_path):
    moves = ("right", "right", "jump", "jump", "jump", "jump", "jump", "jump", "jump")
    evaluation = evaluator(
        walker(*moves), tmp_path, episodes=2, samples=2, concurrency=1, horizon=2
    ).run(policy_version=0)
    assert [e.success for e in evaluation.episodes] == [True, False, False, False]
    assert evaluation.success_rate == evaluation.metrics()["eval/success_rate"] == 0.25
    assert evaluation.pass_at_k == evaluation.metrics()["eval/pass_at_k"] == 0.5


def test_progress_counts_samples(tmp_path):
    told = []
    evaluator(always("left"), tmp_path, episodes=2, samples=3).run(
        policy_version=0, on_progress=lambda done, of: told.append((done, of))
    )
    assert told == [(i, 6) for i in range(1, 7)]


def test_less_than_one_sample_is_refused(tmp_path):
    with pytest.raises(ValueError, match="samples_per_task must be at least 1, got 0"):
        evaluator(always("left"), tmp_path, samples=0)
