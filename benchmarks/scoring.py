"""Scoring by the teacher: tokens per CPU-second, and what keeping the KV between turns saves.

python -m benchmarks.scoring
"""

import asyncio
import dataclasses
import json
from collections.abc import Callable, Sequence

import jax
import numpy as np

from benchmarks.workload import QWEN3, ROWS, least_seconds, random_ids, uneven_rows
from jopd.engines.teacher_scorer import ScorerSettings, TeacherScorer
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import init_params
from jopd.types import HostInts

TURNS, FIRST_PROMPT, RESPONSE, OBSERVATION = 10, 400, 50, 100
BATCHES, REPEATS = 2, 2

CONFIG = DecoderConfig.from_hugging_face(QWEN3)
SETTINGS = ScorerSettings(
    cache_rows=80,
    max_context=2048,
    max_batch_rows=16,
    max_batch_tokens=2048,
    buckets=(32, 64, 128, 256),
    head_chunk=256,
    compute_dtype="float32",
    cache_dtype="float32",
    deadline_s=600.0,
)

Pair = tuple[HostInts, HostInts]


def measure() -> dict[str, float]:
    """Real tokens per CPU-second on fresh rows, and what a growing rollout costs.

    The first in float32 and bfloat16, the second in float32. Every token of a row but the first
    gets its log-prob.
    """
    params = init_params(CONFIG, jax.random.key(0))
    figures: dict[str, float] = {}
    for dtype in ("float32", "bfloat16"):
        settings = dataclasses.replace(SETTINGS, compute_dtype=dtype)
        scorer = TeacherScorer(params, CONFIG, settings)
        figures |= {f"{name}/{dtype}": value for name, value in _fresh_rows(scorer).items()}
        if dtype == "float32":
            figures |= _growing(scorer)
        scorer.close()
    return figures


def growing_rollout(seed: int) -> list[Pair]:
    """Prompts and responses of one rollout whose every prompt extends the turn before."""
    rng = np.random.default_rng(seed)
    turns, prompt = [], random_ids(rng, FIRST_PROMPT)
    for _ in range(TURNS):
        response = random_ids(rng, RESPONSE)
        turns.append((prompt, response))
        prompt = np.concatenate([prompt, response, random_ids(rng, OBSERVATION)])
    return turns


def _fresh_rows(scorer: TeacherScorer) -> dict[str, float]:
    async def score(rows: Sequence[Pair]) -> None:
        await asyncio.gather(*(scorer.score(*row, rollout_id=i) for i, row in enumerate(rows)))

    per_cpu_s, per_s = [], []
    for seed in range(BATCHES):
        rows = [(row[:1], row[1:]) for row in uneven_rows(seed)]
        tokens = sum(len(prompt) + len(response) for prompt, response in rows)
        cpu, wall = least_seconds(lambda _, rows=rows: asyncio.run(score(rows)), repeats=REPEATS)
        per_cpu_s.append(tokens / cpu)
        per_s.append(tokens / wall)
    return {
        "tokens_per_cpu_s": float(np.median(per_cpu_s)),
        "tokens_per_s": float(np.median(per_s)),
    }


def _growing(scorer: TeacherScorer) -> dict[str, float]:
    async def play(rollout: Sequence[Pair]) -> None:
        for prompt, response in rollout:
            await scorer.score(prompt, response, rollout_id=ROWS)

    def unrelated(seed: int) -> list[Pair]:
        turns = growing_rollout(ROWS + seed)
        return [(np.roll(prompt, turn), response) for turn, (prompt, response) in enumerate(turns)]

    def cpu_s(rollout: Callable[[int], Sequence[Pair]]) -> float:
        return least_seconds(lambda run: asyncio.run(play(rollout(run))), repeats=REPEATS)[0]

    incremental, from_scratch = cpu_s(growing_rollout), cpu_s(unrelated)
    return {
        "growing_incremental_cpu_s": incremental,
        "growing_from_scratch_cpu_s": from_scratch,
        "growing_gain": from_scratch / incremental,
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
