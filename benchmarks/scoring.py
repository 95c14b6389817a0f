"""Scoring by the teacher: tokens per CPU-second, and what keeping the KV between turns saves.

python -m benchmarks.scoring
"""

import asyncio
import dataclasses
import json
import time
from collections.abc import Awaitable, Callable, Sequence

import jax
import numpy as np

from jopd.engines.base import Score
from jopd.engines.teacher_scorer import ScorerSettings, TeacherScorer
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import init_params
from jopd.types import HostInts

ROWS, MEAN_TOKENS, MOST_TOKENS = 64, 204, 1024
TURNS, FIRST_PROMPT, RESPONSE, OBSERVATION = 10, 400, 50, 100
BATCHES, REPEATS = 3, 4

CONFIG = DecoderConfig(
    vocab_size=32_000,
    hidden_size=256,
    intermediate_size=1024,
    num_layers=6,
    num_heads=4,
    num_kv_heads=2,
    head_dim=64,
    rope_theta=1e6,
    rms_norm_eps=1e-6,
    tie_embeddings=True,
    qkv_bias=False,
    qk_norm=True,
    max_positions=2048,
    model_type="qwen3",
)
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

    Each in float32 and bfloat16. A row is `MEAN_TOKENS` long on average, and every token but the
    first gets its log-prob.
    """
    params = init_params(CONFIG, jax.random.key(0))
    figures: dict[str, float] = {}
    for dtype in ("float32", "bfloat16"):
        settings = dataclasses.replace(SETTINGS, compute_dtype=dtype)
        scorer = TeacherScorer(params, CONFIG, settings)
        figures |= {f"{name}/{dtype}": value for name, value in _fresh_rows(scorer).items()}
        figures |= {f"{name}/{dtype}": value for name, value in _growing(scorer).items()}
        scorer.close()
    return figures


def uneven_rows(seed: int) -> list[Pair]:
    """Rows of lognormal length: a prompt of one token, the rest is scored."""
    rng = np.random.default_rng(seed)
    spread = 0.8
    lengths = rng.lognormal(np.log(MEAN_TOKENS) - spread**2 / 2, spread, ROWS)
    rows = [_ids(rng, int(length)) for length in np.clip(lengths, 2, MOST_TOKENS)]
    return [(row[:1], row[1:]) for row in rows]


def growing_rollout(seed: int) -> list[Pair]:
    """Prompts and responses of one rollout whose every prompt extends the turn before."""
    rng = np.random.default_rng(seed)
    turns, prompt = [], _ids(rng, FIRST_PROMPT)
    for _ in range(TURNS):
        response = _ids(rng, RESPONSE)
        turns.append((prompt, response))
        prompt = np.concatenate([prompt, response, _ids(rng, OBSERVATION)])
    return turns


def _fresh_rows(scorer: TeacherScorer) -> dict[str, float]:
    def score(rows: Sequence[Pair]) -> Awaitable[Sequence[Score]]:
        return asyncio.gather(*(scorer.score(*row, rollout_id=i) for i, row in enumerate(rows)))

    per_cpu_s, per_s = [], []
    for seed in range(BATCHES):
        rows = uneven_rows(seed)
        tokens = sum(len(prompt) + len(response) for prompt, response in rows)
        cpu, wall = _fastest(lambda _, rows=rows: score(rows))
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

    incremental, _ = _fastest(lambda repeat: play(growing_rollout(repeat)))
    from_scratch, _ = _fastest(lambda repeat: play(unrelated(repeat)))
    return {
        "growing_incremental_cpu_s": incremental,
        "growing_from_scratch_cpu_s": from_scratch,
        "growing_gain": from_scratch / incremental,
    }


def _fastest(work: Callable[[int], Awaitable[object]]) -> tuple[float, float]:
    """CPU and wall seconds of the quickest of some runs: the first ones also compile.

    `work` is given the number of the run. Rows whose prompt is one token reuse nothing and may
    repeat; rollouts must not.
    """

    async def run(repeat: int) -> None:
        await work(repeat)

    used = []
    for repeat in range(REPEATS):
        cpu, wall = time.process_time(), time.perf_counter()
        asyncio.run(run(repeat))
        used.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(used)


def _ids(rng: np.random.Generator, count: int) -> HostInts:
    return rng.integers(0, CONFIG.vocab_size, count).astype(np.int32)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
