"""Explorers deliver every rollout once, stop with the queue, and carry failures out."""

import threading

import pytest
from corridor import Corridor, always, make_player, walker
from made_turns import settings as composer_settings

from jopd.engines.base import EngineError
from jopd.engines.scripted import ScriptedScorer
from jopd.envs.base import LocalEnv
from jopd.experience.queue import QueueSettings
from jopd.experience.recorder import read_rollouts, read_turns
from jopd.panels import Task, make_panel
from jopd.runtime.explorer import Explorer, ExplorerSettings
from jopd.runtime.stream import ExperienceStream

PANEL = make_panel(
    "train",
    [Task(task_id=f"corridor-{i}", domain="corridor", index=i, seed=i) for i in range(5)],
)


@pytest.fixture
def make_stream(tmp_path):
    """Makes streams that record into one directory and are closed in the end."""
    made = []

    def make(*, capacity=6) -> ExperienceStream:
        stream = ExperienceStream(
            PANEL,
            queue=QueueSettings(capacity_turns=capacity, policy="block"),
            composer=composer_settings(composer="vanilla", batch_size=4),
            directory=tmp_path,
            seed=0,
        )
        made.append(stream)
        return stream

    yield make
    for stream in made:
        stream.close()


def make_explorer(stream, engine, *, concurrency=3, max_env_errors=4) -> Explorer:
    return Explorer(
        tasks=stream.tasks,
        make_env=lambda: LocalEnv(Corridor()),
        player=make_player(engine, scorer=ScriptedScorer()),
        deliver=stream.delivery,
        settings=ExplorerSettings(concurrency=concurrency, max_env_errors=max_env_errors),
        seed=1,
    )


def in_thread(explorer: Explorer) -> threading.Thread:
    thread = threading.Thread(target=explorer.explore)
    thread.start()
    return thread


def test_a_closed_queue_ends_an_explorer_that_waits_for_room(make_stream):
    stream = make_stream()
    thread = in_thread(make_explorer(stream, always("right")))
    for update in range(3):
        stream.reader.next(update_index=update, timeout_s=60.0)
    stream.close()
    thread.join(timeout=60)
    assert not thread.is_alive()


def test_each_task_is_played_once_before_any_is_played_again(make_stream, tmp_path):
    stream = make_stream(capacity=100)
    explorer = make_explorer(stream, always("right"))
    for _ in range(10):
        explorer.play_one()
    stream.close()
    played = [rollout["task_id"] for rollout in read_rollouts(tmp_path)]
    assert sorted(played[:5]) == sorted(played[5:]) == [task.task_id for task in PANEL.tasks]
    assert len(list(read_turns(tmp_path))) == 20


def test_environments_that_keep_dying_end_the_run(make_stream):
    stream = make_stream()
    with pytest.raises(RuntimeError, match=r"4 environment failures in a row.*fell down"):
        make_explorer(stream, always("crash")).explore()


def test_an_environment_that_dies_now_and_then_is_counted(make_stream):
    stream = make_stream(capacity=100)
    explorer = make_explorer(stream, walker("crash", "left", "crash", "left"), max_env_errors=2)
    for _ in range(4):
        explorer.play_one()
    metrics = stream.metrics()
    assert metrics["explore/rollouts"] == 4
    assert metrics["explore/env_errors"] == 2
    assert metrics["explore/success_rate"] == 0


def test_an_engine_that_closes_is_an_error_of_the_explorer(make_stream):
    engine = always("right")
    engine.close()
    with pytest.raises(EngineError, match="closed"):
        make_explorer(make_stream(), engine).explore()


def test_a_restored_stream_plays_on_where_the_saved_one_was(make_stream, tmp_path):
    stream = make_stream(capacity=100)
    explorer = make_explorer(stream, always("right"))
    for _ in range(3):
        explorer.play_one()
    stream.reader.next(update_index=0)
    state = stream.state()
    for _ in range(2):  # lost: no checkpoint knows of them
        explorer.play_one()
    stream.close()
    lost = [rollout["rollout_id"] for rollout in read_rollouts(tmp_path)][3:]

    again = make_stream(capacity=100)
    again.restore(state, version=1)
    explorer = make_explorer(again, always("right"))
    for _ in range(2):
        explorer.play_one()
    again.close()
    rollouts = [rollout["rollout_id"] for rollout in read_rollouts(tmp_path)]
    assert rollouts[3:] == lost and len(set(rollouts)) == 5
    balance = again.metrics()
    assert balance["queue/produced_turns"] == 10 == len(list(read_turns(tmp_path)))
    assert balance["queue/trained_turns"] == 4
