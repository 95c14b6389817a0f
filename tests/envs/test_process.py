"""Whatever a worker does, its environment answers, raises EnvError in time, or is replaced."""

import asyncio
import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from corridor import TASK
from fragile import Fragile, refuses_to_open

from jopd.envs.base import EnvError
from jopd.envs.process import Deadlines, ProcessEnv, replay

QUICK = Deadlines(step_s=2.0)


@pytest.fixture
def make_env(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    made = []

    def make(simulator=Fragile, deadlines=QUICK) -> ProcessEnv:
        made.append(ProcessEnv(simulator, deadlines))
        return made[-1]

    yield make
    for env in made:
        env.close()


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def wait_until_gone(pid: int) -> None:
    deadline = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.02)


def test_an_episode_is_the_same_as_without_a_process(make_env):
    env, local = make_env(), Fragile()

    async def play():
        seen = [await env.reset(TASK)]
        allowed = [await env.is_allowed("right"), await env.is_allowed("jump")]
        seen += [await env.step(action) for action in ("jump", "right", "right")]
        return seen, allowed

    seen, allowed = asyncio.run(play())
    expected = [local.reset(TASK)] + [local.step(a) for a in ("jump", "right", "right")]
    assert seen == expected
    assert allowed == [True, False]


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("die", r"step: the environment's process died"),
        ("hang", r"step: no answer from the environment in 2 s"),
        ("raise", r"step: Traceback[\s\S]*ValueError: the floor is wet"),
        ("refuse", r"step: the corridor is closed"),
    ],
)
def test_a_lost_worker_is_an_error_and_the_next_reset_has_another(make_env, action, message):
    env = make_env()

    async def play():
        await env.reset(TASK)
        with pytest.raises(EnvError, match=message):
            await env.step(action)
        with pytest.raises(EnvError, match="reset it first"):
            await env.step("right")
        return await env.reset(TASK)

    assert asyncio.run(play()).observation == "place0"
    assert env.losses == 1


def test_an_environment_that_does_not_open_says_why_every_time(make_env):
    env = make_env(refuses_to_open)
    for _ in range(2):
        with pytest.raises(EnvError, match=r"open: Traceback[\s\S]*the key is missing"):
            asyncio.run(env.reset(TASK))


@pytest.mark.parametrize("end", ["close", "die", "collect"])
def test_what_the_worker_started_goes_with_it(monkeypatch, end):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))
    env = ProcessEnv(Fragile, QUICK)

    async def spawn() -> int:
        await env.reset(TASK)
        return int((await env.step("spawn")).observation)

    child = asyncio.run(spawn())
    assert is_running(child)
    match end:
        case "close":
            env.close()
        case "die":
            with pytest.raises(EnvError):
                asyncio.run(env.step("die"))
        case "collect":
            del env
            gc.collect()
    wait_until_gone(child)


def test_many_environments_play_at_once(make_env):
    envs = [make_env() for _ in range(4)]

    async def play(env):
        await env.reset(TASK)
        return [(await env.step("right")).observation for _ in range(2)]

    async def play_all():
        return await asyncio.gather(*map(play, envs))

    assert asyncio.run(play_all()) == [["place1", "place2"]] * 4


def test_replay_restores_the_state_and_notices_what_differs(make_env):
    env = make_env()
    shown = ("place0", "place1", "place1")
    seen = asyncio.run(replay(env, TASK, ("right", "jump"), shown))
    assert seen.observation == "place1"
    with pytest.raises(EnvError, match="differs after 2 actions: 'place1' instead of 'place2'"):
        asyncio.run(replay(env, TASK, ("right", "jump"), ("place0", "place1", "place2")))


def test_a_worker_of_a_simulator_without_arrays_does_not_pay_for_jax():
    lines = (
        "import sys, jopd.envs.worker, jopd.envs.factory, jopd.envs.process",
        "heavy = {'jax', 'grain', 'flax', 'transformers'} & sys.modules.keys()",
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)",
    )
    done = subprocess.run([sys.executable, "-c", "; ".join(lines)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
