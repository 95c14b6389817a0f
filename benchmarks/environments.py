"""Every environment: does its expert succeed, does a random player fail, does replay restore?

python -m benchmarks.environments [--only=webshop,scienceworld] [--tasks=50] [--json=FILE]

The expert plans with a simulator of this process; its actions are then played through the interface
that rollouts use, in a worker process where the environment has one, with every observation
compared. Random prefixes of those plays are restored by replay. Steps per second are of one worker.
"""

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from jopd.envs.alfworld.settings import AlfworldSettings
from jopd.envs.base import Env, EnvError, Simulator, StepResult
from jopd.envs.factory import EnvSettings, OpenEnvironment, open_environment
from jopd.envs.process import replay
from jopd.envs.scienceworld.settings import ScienceWorldSettings
from jopd.envs.tau2.settings import Tau2Settings
from jopd.envs.webshop.settings import WebShopSettings
from jopd.panels import Task

ENVIRONMENTS: dict[str, EnvSettings] = {
    "alfworld": AlfworldSettings(),
    "webshop": WebShopSettings(),
    "scienceworld": ScienceWorldSettings(answer_s=300.0),  # gold paths take long to plan
    "retail": Tau2Settings(domain="retail"),
    "telecom": Tau2Settings(domain="telecom"),
}
MOST_EXPERT_STEPS = 200
RANDOM_STEPS = 30
_PLACEHOLDERS = ("OBJ", "<your query>")


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    """What an expert did, and what was shown after the reset and after each action."""

    task: Task
    actions: tuple[str, ...]
    observations: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """One line of the table; counts are of `tasks`.

    Attributes:
      environment: its name.
      panel: of the evaluated tasks, and its hash.
      tasks: how many were played.
      expert: successes of the expert's actions through the interface.
      random: successes of a random player in 30 steps.
      replayed: random prefixes after which replay showed every observation again.
      steps: mean steps of the expert.
      steps_per_s: of one worker, by wall clock, resets left out.
      reset_s: mean seconds of a reset.
    """

    environment: str
    panel: str
    tasks: int
    expert: int
    random: int
    replayed: int
    steps: float
    steps_per_s: float
    reset_s: float


def measure(name: str, settings: EnvSettings, count: int) -> Report:
    """Plays the first `count` tasks of the eval panel."""
    opened = open_environment(settings)
    panel = opened.load_panel("eval")
    tasks = [panel.tasks[i % len(panel.tasks)] for i in range(count)]
    simulator = opened.make_simulator()
    rng = random.Random(0)
    plays = [expert_play(simulator, task) for task in tasks]
    lucky = sum(random_play(simulator, task, rng) for task in tasks)
    successes, step_s, reset_s, restored = asyncio.run(_through_interface(opened, plays, rng))
    steps = sum(len(play.actions) for play in plays)
    return Report(
        environment=name,
        panel=f"{panel.name} {panel.sha256[:12]}",
        tasks=count,
        expert=successes,
        random=lucky,
        replayed=restored,
        steps=steps / count,
        steps_per_s=steps / step_s,
        reset_s=reset_s / count,
    )


def expert_play(simulator: Simulator, task: Task) -> Play:
    """The expert's actions, until the environment ends."""
    seen = simulator.reset(task)
    actions, observations = [], [seen.observation]
    while not seen.done and len(actions) < MOST_EXPERT_STEPS:
        actions.append(simulator.expert_action())
        seen = simulator.step(actions[-1])
        observations.append(seen.observation)
    return Play(task=task, actions=tuple(actions), observations=tuple(observations))


def random_play(simulator: Simulator, task: Task, rng: random.Random) -> bool:
    """Whether a player succeeds who does anything that is allowed."""
    seen = simulator.reset(task)
    for _ in range(RANDOM_STEPS):
        if seen.done:
            break
        seen = simulator.step(random_action(seen, rng))
    return seen.success


def random_action(seen: StepResult, rng: random.Random) -> str:
    """Any allowed action, its places filled with any object or words of the instruction."""
    if seen.tools:
        tool = json.loads(rng.choice(seen.tools))["function"]["name"]
        call = {"name": tool, "arguments": {}}
        return f"<tool_call>{json.dumps(call)}</tool_call>" if rng.random() < 0.7 else "Go on."
    action = rng.choice(seen.allowed_actions or ("look",))
    fillers = seen.objects or tuple(seen.instruction.split())
    for place in _PLACEHOLDERS:
        while place in action:
            action = action.replace(place, rng.choice(fillers), 1)
    return action


async def _through_interface(
    opened: OpenEnvironment, plays: Sequence[Play], rng: random.Random
) -> tuple[int, float, float, int]:
    """Successes, seconds of steps and of resets, and restored prefixes."""
    env = opened.make_env()
    successes, step_s, reset_s, restored = 0, 0.0, 0.0, 0
    for play in plays:
        started = time.perf_counter()
        seen = await env.reset(play.task)
        begun = time.perf_counter()
        shown = [seen.observation]
        for action in play.actions:
            seen = await env.step(action)
            shown.append(seen.observation)
        step_s += time.perf_counter() - begun
        reset_s += begun - started
        successes += seen.success and tuple(shown) == play.observations
    for play in plays:
        restored += await _is_restored(env, play, rng.randint(0, len(play.actions)))
    return successes, step_s, reset_s, restored


async def _is_restored(env: Env, play: Play, length: int) -> bool:
    try:
        await replay(env, play.task, play.actions[:length], play.observations[: length + 1])
    except EnvError as error:
        print(f"{play.task.task_id}: {error}")
        return False
    return True


def table(reports: Sequence[Report]) -> str:
    """The reports as Markdown."""
    lines = [
        "| environment | panel | expert | random | replayed | steps | steps/s | reset, s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {r.environment} | {r.panel} | {r.expert}/{r.tasks} | {r.random}/{r.tasks} | "
        f"{r.replayed}/{r.tasks} | {r.steps:.1f} | {r.steps_per_s:,.0f} | {r.reset_s:.3f} |"
        for r in reports
    ]
    return "\n".join(lines)


def main() -> None:
    """Measures what the flags name and prints the table."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--only", default=",".join(ENVIRONMENTS), help="names, by commas")
    parser.add_argument("--tasks", type=int, default=50, help="tasks of each panel")
    parser.add_argument("--json", type=Path, help="file for the figures")
    flags = parser.parse_args()
    reports = []
    for name in flags.only.split(","):
        if name not in ENVIRONMENTS:
            parser.error(f"no environment {name!r}; there are {', '.join(ENVIRONMENTS)}")
        print(f"{name} ...", flush=True)
        reports.append(measure(name, ENVIRONMENTS[name], flags.tasks))
    print(table(reports))
    if flags.json:
        flags.json.write_text(json.dumps([asdict(report) for report in reports], indent=2))


if __name__ == "__main__":
    main()
