"""The one workload of all benchmarks, and the clock they share.

NumPy only, without jopd: the benchmark of another system reads it in an environment of its own.
"""

import resource
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROWS, MEAN_TOKENS, MOST_TOKENS, SPREAD = 64, 204, 1024, 0.8
SLOTS, PROMPT_TOKENS, RESPONSE_TOKENS = 16, 256, 64
VOCABULARY = 32_000

QWEN3: dict[str, Any] = {
    "model_type": "qwen3",
    "vocab_size": VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "rope_theta": 1e6,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": True,
    "max_position_embeddings": 4096,
    "hidden_act": "silu",
}
"""A config.json of 11.3M parameters."""


def uneven_rows(seed: int) -> list[np.ndarray]:
    """Token ids of 64 rows of lognormal length, at most 1,024."""
    rng = np.random.default_rng(seed)
    lengths = rng.lognormal(np.log(MEAN_TOKENS) - SPREAD**2 / 2, SPREAD, ROWS)
    return [random_ids(rng, int(length)) for length in np.clip(lengths, 2, MOST_TOKENS)]


def random_ids(rng: np.random.Generator, count: int) -> np.ndarray:
    """Ids of the vocabulary; 0 and 1 are left out, other systems take them for padding."""
    return rng.integers(2, VOCABULARY, count).astype(np.int32)


def least_seconds(work: Callable[[int], object], *, repeats: int) -> tuple[float, float]:
    """CPU and wall seconds of the quickest of `repeats` runs, after a first one that compiles.

    Args:
      work: does the work, and is given the number of the run.
      repeats: runs after the first.
    """
    spent = []
    for repeat in range(repeats + 1):
        cpu, wall = time.process_time(), time.perf_counter()
        work(repeat)
        spent.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(spent[1:])


def peak_memory_gb() -> float:
    """Largest resident memory of this process so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
