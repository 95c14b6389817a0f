"""A two-layer student and the slow, obvious oracles that engines are held to."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from jopd.engines.jetstream_settings import JetStreamSettings
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import hidden_states, init_params, output_head
from jopd.types import WeightSnapshot

CONFIG = DecoderConfig(
    vocab_size=64,
    hidden_size=32,
    intermediate_size=64,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    rope_theta=1e4,
    rms_norm_eps=1e-6,
    tie_embeddings=False,
    qkv_bias=False,
    qk_norm=True,
    max_positions=128,
    model_type="qwen3",
)
SETTINGS = JetStreamSettings(
    slots=4,
    max_context=112,
    max_prompt=64,
    prefill_buckets=(16, 64),
    decode_block=8,
    deadline_s=120.0,
    real_vocab_size=60,
)
_LENGTH = 112  # every oracle pads to it, so that the forward pass compiles once


def weights(seed: int = 0, version: int = 0) -> WeightSnapshot:
    """Random weights whose distributions are far from flat."""
    return WeightSnapshot(params=_params(seed), version=version)


@functools.cache
def _params(seed):
    return _random_params(jax.random.key(seed))


@jax.jit
def _random_params(key):
    params = init_params(CONFIG, key)
    return {
        "embed": {"embedding": 10 * params["embed"]["embedding"]},
        "layers": jax.tree.map(lambda leaf: 5 * leaf if leaf.ndim > 2 else leaf, params["layers"]),
        "final_norm": params["final_norm"],
        "head": {"kernel": 15 * params["head"]["kernel"]},
    }


def random_prompts(count: int, seed: int = 0, longest: int = 40) -> list[np.ndarray]:
    """Prompts of 1 to `longest` random ids."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, SETTINGS.real_vocab_size, rng.integers(1, longest + 1)).astype(np.int32)
        for _ in range(count)
    ]


@jax.jit
def _all_logits(params, tokens):
    length = tokens.shape[1]
    hidden = hidden_states(
        params,
        CONFIG,
        tokens,
        jnp.arange(length)[None],
        jnp.ones((1, length), jnp.int32),
        compute_dtype=jnp.float32,
    )
    return jnp.einsum("BLD,VD->BLV", hidden, output_head(params, CONFIG))[0]


def next_logits(params, tokens: np.ndarray) -> np.ndarray:
    """Logits of the token after each of `tokens`, by one fresh forward pass: [L, V]."""
    padded = np.pad(tokens, (0, _LENGTH - len(tokens)))[None]  # causal: padding changes nothing
    return np.asarray(_all_logits(params, padded))[: len(tokens)]


def forward_logprobs(params, prompt: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Log-probs of the response at temperature 1, by one fresh forward pass."""
    logits = next_logits(params, np.concatenate([prompt, response]))[len(prompt) - 1 : -1]
    logprobs = np.asarray(jax.nn.log_softmax(logits, axis=-1))
    return logprobs[np.arange(len(response)), response]


def greedy_response(params, prompt: np.ndarray, limit: int, stop_ids=()) -> list[int]:
    """The most probable response, one whole forward pass per token."""
    tokens = list(prompt)
    for _ in range(limit):
        logits = next_logits(params, np.array(tokens, np.int32))[-1]
        tokens.append(int(np.argmax(logits[: SETTINGS.real_vocab_size])))
        if tokens[-1] in stop_ids:
            break
    return tokens[len(prompt) :]
