"""What JetStream's orchestrator costs per token: an engine that computes nothing, 64 slots.

python -m benchmarks.orchestrator
"""

import asyncio
import json
import time
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from jopd.engines.base import Sampling
from jopd.engines.jetstream_api import engine_api, orchestrator
from jopd.engines.jetstream_engine import JetStreamEngine
from jopd.engines.jetstream_messages import Prefix, Prompt
from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.engines.jetstream_threads import Orchestrator
from jopd.engines.live_weights import LiveWeights
from jopd.engines.reply import Reply
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import init_params
from jopd.types import WeightSnapshot

SLOTS, REQUESTS, TOKENS = 64, 256, 256
CONFIG = DecoderConfig(
    vocab_size=64,
    hidden_size=16,
    intermediate_size=16,
    num_layers=1,
    num_heads=1,
    num_kv_heads=1,
    head_dim=16,
    rope_theta=1e4,
    rms_norm_eps=1e-6,
    tie_embeddings=True,
    qkv_bias=False,
    qk_norm=False,
    max_positions=512,
    model_type="llama",
)
SETTINGS = JetStreamSettings(slots=SLOTS, max_context=512, max_prompt=64)


def measure() -> dict[str, float]:
    """Microseconds per token and tokens per second, with 8 tokens and with 1 in a block."""
    figures: dict[str, float] = {}
    for width in (8, 1):
        wall_s, cpu_s = _play(replace(SETTINGS, decode_block=width))
        tokens = REQUESTS * TOKENS
        figures[f"block_{width}_us_per_token"] = 1e6 * wall_s / tokens
        figures[f"block_{width}_cpu_us_per_token"] = 1e6 * cpu_s / tokens
        figures[f"block_{width}_tokens_per_s"] = tokens / wall_s
    return figures


class IdleEngine(JetStreamEngine):
    """Answers every request with as many tokens as it may have; computes nothing."""

    def init_decode_state(self) -> Any:
        """How many tokens each slot still has to deliver."""
        return np.zeros(self.max_concurrent_decodes, np.int32)

    def prefill(
        self,
        *,
        params: LiveWeights,
        existing_prefix: Any = None,
        padded_tokens: Any,
        true_length: int,
    ) -> Prefix:
        """The request and nothing else."""
        version = params.current.version
        return Prefix(cache=None, drawn=None, prompt=padded_tokens, version=version)

    def insert(self, prefix: Prefix, decode_state: Any, slot: int) -> Any:
        """Begins to count down."""
        decode_state[slot] = prefix.prompt.sampling.max_tokens
        return decode_state

    def generate(
        self, params: LiveWeights, decode_state: Any
    ) -> tuple[Any, engine_api.ResultTokens]:
        """The columns of `decode_programs.decode`, all tokens 1."""
        width = self._settings.decode_block
        counts = np.minimum(decode_state, width)
        valid = np.arange(width)[None, :] < counts[:, None]
        rest = decode_state - counts
        columns = (valid, valid, np.zeros_like(valid), counts[:, None], rest[:, None] == 0)
        version = np.full((len(rest), 1), params.current.version)
        return rest, engine_api.ResultTokens(
            data=np.concatenate([*columns, version], axis=1).astype(np.int32),
            tokens_idx=(0, width),
            valid_idx=(width, 2 * width),
            length_idx=(3 * width, 3 * width + 1),
            samples_per_slot=1,
        )


def _play(settings: JetStreamSettings) -> tuple[float, float]:
    """Wall and CPU seconds of all requests."""
    snapshot = WeightSnapshot(params=init_params(CONFIG, jax.random.key(0)), version=0)
    failures: list[BaseException] = []
    threads = Orchestrator(
        IdleEngine(CONFIG, snapshot, settings),
        on_leave=lambda: None,
        on_failure=failures.append,
    )
    try:
        asyncio.run(_respond_all(threads, 2 * SLOTS))
        wall, cpu = time.perf_counter(), time.process_time()
        asyncio.run(_respond_all(threads, REQUESTS))
        spent = time.perf_counter() - wall, time.process_time() - cpu
    finally:
        threads.stop_soon().join()
    if failures:
        raise failures[0]
    return spent


async def _respond_all(threads: Orchestrator, requests: int) -> None:
    sampling = Sampling(temperature=1.0, max_tokens=TOKENS, stop_ids=())
    prompt = Prompt(tokens=np.arange(8, dtype=np.int32), sampling=sampling, seed=0)
    replies = [Reply(prompt) for _ in range(requests)]
    for reply in replies:
        content: Any = reply.prompt
        channel: Any = reply
        threads.place_request_on_prefill_queue(
            orchestrator.ActiveRequest(
                max_tokens=TOKENS,
                prefill_content=content,
                return_channel=channel,
                is_client_side_tokenization=True,
            )
        )
    generations = await asyncio.gather(*(reply.future for reply in replies))
    assert all(len(generation.tokens) == TOKENS for generation in generations)


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
