"""The student's engine: tokens per second, and what keeping the KV cache between turns saves.

python -m benchmarks.decoding
"""

import asyncio
import json
import time
from dataclasses import replace

import jax
import numpy as np

from benchmarks.workload import (
    PROMPT_TOKENS,
    QWEN3,
    RESPONSE_TOKENS,
    SLOTS,
    least_seconds,
    random_ids,
)
from jopd.engines.base import Sampling
from jopd.engines.jetstream_driver import JetStreamDriver
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import init_params
from jopd.types import WeightSnapshot

REPEATS = 3
TURNS, FIRST_PROMPT, TURN_RESPONSE, OBSERVATION = 10, 400, 50, 100
CONFIG = DecoderConfig.from_hugging_face(QWEN3)
SETTINGS = JetStreamSettings(slots=SLOTS, max_context=512, max_prompt=256)
LONG_SETTINGS = replace(SETTINGS, slots=4, max_context=2048, max_prompt=1984)


def measure() -> dict[str, float]:
    """Decoding in two types, sampled and greedy; a rollout of ten turns with and without reuse."""
    params = init_params(CONFIG, jax.random.key(0))
    snapshot = WeightSnapshot(params=params, version=0)
    figures: dict[str, float] = {}
    for dtype in ("float32", "bfloat16"):
        settings = replace(SETTINGS, compute_dtype=dtype, cache_dtype=dtype)
        for name, temperature in (("sampled", 1.0), ("greedy", 0.0)):
            figures |= _decoding(snapshot, settings, temperature, f"{dtype}_{name}")
    return figures | _multi_turn(snapshot)


def _decoding(
    snapshot: WeightSnapshot, settings: JetStreamSettings, temperature: float, name: str
) -> dict[str, float]:
    """Sixteen responses of 64 tokens after prompts of 256; best of three, with prefill and not."""
    driver = JetStreamDriver(CONFIG, snapshot, settings)
    spent = {tokens: _seconds(driver, tokens, temperature) for tokens in (1, RESPONSE_TOKENS)}
    driver.close()
    (first_cpu, first_wall), (cpu, wall) = spent[1], spent[RESPONSE_TOKENS]
    later = SLOTS * (RESPONSE_TOKENS - 1)
    return {
        f"{name}_tokens_per_s": SLOTS * RESPONSE_TOKENS / wall,
        f"{name}_tokens_per_cpu_s": SLOTS * RESPONSE_TOKENS / cpu,
        f"{name}_decode_only_tokens_per_s": later / (wall - first_wall),
        f"{name}_decode_only_tokens_per_cpu_s": later / (cpu - first_cpu),
    }


def _seconds(driver: JetStreamDriver, tokens: int, temperature: float) -> tuple[float, float]:
    """Least CPU and wall seconds of one response in every slot, after one that compiles."""
    sampling = Sampling(temperature=temperature, max_tokens=tokens, stop_ids=())
    return least_seconds(
        lambda repeat: asyncio.run(_respond_all(driver, sampling, seed=1000 * tokens + repeat)),
        repeats=REPEATS,
    )


async def _respond_all(driver: JetStreamDriver, sampling: Sampling, seed: int) -> None:
    rng = np.random.default_rng(seed)
    prompts = [random_ids(rng, PROMPT_TOKENS) for _ in range(SLOTS)]
    await asyncio.gather(
        *(driver.respond(prompt, sampling=sampling, seed=i) for i, prompt in enumerate(prompts))
    )


def _multi_turn(snapshot: WeightSnapshot) -> dict[str, float]:
    """Ten turns of 150 new tokens: prompt tokens computed, and seconds until the first tokens."""
    figures: dict[str, float] = {}
    for name, reuse in (("reuse", True), ("no_reuse", False)):
        driver = JetStreamDriver(CONFIG, snapshot, replace(LONG_SETTINGS, reuse_prefixes=reuse))
        asyncio.run(_rollout(driver, seed=0))
        before = driver.counts.prefilled_tokens
        wall, cpu = time.perf_counter(), time.process_time()
        asyncio.run(_rollout(driver, seed=1))
        figures[f"rollout_{name}_s"] = time.perf_counter() - wall
        figures[f"rollout_{name}_cpu_s"] = time.process_time() - cpu
        figures[f"rollout_{name}_prefilled_tokens"] = driver.counts.prefilled_tokens - before
        driver.close()
    saved = figures["rollout_no_reuse_prefilled_tokens"] / figures["rollout_reuse_prefilled_tokens"]
    return figures | {"rollout_prefill_ratio": saved}


async def _rollout(driver: JetStreamDriver, seed: int) -> None:
    rng = np.random.default_rng(seed)
    sampling = Sampling(temperature=1.0, max_tokens=TURN_RESPONSE, stop_ids=())

    history = random_ids(rng, FIRST_PROMPT)
    for turn in range(TURNS):
        generation = await driver.respond(history, sampling=sampling, seed=turn)
        history = np.concatenate([history, generation.tokens, random_ids(rng, OBSERVATION)])


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
