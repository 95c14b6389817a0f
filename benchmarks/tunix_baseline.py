"""The same work through tunix 0.1.7, for comparison; needs an environment with google-tunix.

python -m benchmarks.tunix_baseline learner|scoring|decoding

jopd is not imported. Every row is padded to the longest that the workload allows, as tunix's
learners do.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from tunix.generate.sampler import CacheConfig, Sampler
from tunix.models.qwen3.model import ModelConfig, Qwen3
from tunix.rl.algo_core import grpo_loss_fn
from tunix.rl.common import TrainExample, compute_per_token_logps
from tunix.sft.peft_trainer import PeftTrainer, TrainingConfig

from benchmarks.workload import (
    MOST_TOKENS,
    PROMPT_TOKENS,
    QWEN3,
    RESPONSE_TOKENS,
    ROWS,
    SLOTS,
    VOCABULARY,
    least_seconds,
    peak_memory_gb,
    random_ids,
    uneven_rows,
)

PAD, END = 0, 1
ROWS_AT_ONCE = 2
POLICY_GRADIENT = SimpleNamespace(
    beta=0.0,
    epsilon=0.2,
    epsilon_high=0.2,
    loss_algo="grpo",
    loss_agg_mode="sequence-mean-token-mean",
    temperature=1.0,
    kl_loss_mode="kl",
    kl_clamp_value=None,
)


def make_model() -> Qwen3:
    """The workload's model with random weights."""
    return Qwen3(
        ModelConfig(
            num_layers=QWEN3["num_hidden_layers"],
            vocab_size=QWEN3["vocab_size"],
            embed_dim=QWEN3["hidden_size"],
            hidden_dim=QWEN3["intermediate_size"],
            num_heads=QWEN3["num_attention_heads"],
            head_dim=QWEN3["head_dim"],
            num_kv_heads=QWEN3["num_key_value_heads"],
            rope_theta=int(QWEN3["rope_theta"]),
            norm_eps=QWEN3["rms_norm_eps"],
            use_tied_embedding=True,
        ),
        rngs=nnx.Rngs(0),
    )


def padded_examples() -> Iterator[TrainExample]:
    """The workload's rows, a few at a time: a prompt of one token, completions padded."""
    ids = np.full((ROWS, MOST_TOKENS), PAD, np.int32)
    for row, tokens in zip(ids, uneven_rows(0), strict=True):
        row[: len(tokens)] = tokens
    for start in range(0, ROWS, ROWS_AT_ONCE):
        part = ids[start : start + ROWS_AT_ONCE]
        yield TrainExample(
            prompt_ids=jnp.asarray(part[:, :1]),
            prompt_mask=jnp.ones((ROWS_AT_ONCE, 1), bool),
            completion_ids=jnp.asarray(part[:, 1:]),
            completion_mask=jnp.asarray(part[:, 1:] != PAD),
            advantages=jnp.ones((ROWS_AT_ONCE, MOST_TOKENS - 1), jnp.float32),
            ref_per_token_logps=None,
            old_per_token_logps=None,
        )


def learner() -> dict[str, float]:
    """One policy-gradient update; the pass for old log-probs is left out."""
    accumulated = ROWS // ROWS_AT_ONCE
    trainer = PeftTrainer(
        make_model(),
        optax.adamw(1e-6),
        TrainingConfig(eval_every_n_steps=10**9, gradient_accumulation_steps=accumulated),
    ).with_loss_fn(
        lambda model, train_example: grpo_loss_fn(
            model, train_example, algo_config=POLICY_GRADIENT, pad_id=PAD, eos_id=END
        ),
        has_aux=True,
    )
    trainer = trainer.with_gen_model_input_fn(lambda example: {"train_example": example})

    marks = []

    def two_updates() -> Iterator[TrainExample]:
        yield from padded_examples()  # compiles
        marks.append((time.process_time(), time.perf_counter()))
        yield from padded_examples()

    trainer.train(two_updates())  # a second call would skip what it has seen
    jax.block_until_ready(nnx.state(trainer.model))
    (cpu, wall), tokens = marks[0], sum(map(len, uneven_rows(0)))
    return {
        "tokens_per_cpu_s": tokens / (time.process_time() - cpu),
        "tokens_per_s": tokens / (time.perf_counter() - wall),
        "peak_memory_gb": peak_memory_gb(),
    }


def scoring() -> dict[str, float]:
    """Log-probs of all given tokens."""
    graph, state = nnx.split(make_model())
    examples = list(padded_examples())

    def score(_: int) -> None:
        for example in examples:
            compute_per_token_logps(
                graph,
                state,
                prompt_tokens=example.prompt_ids,
                completion_tokens=example.completion_ids,
                pad_id=PAD,
                eos_id=END,
            ).block_until_ready()

    return _per_second(score, sum(map(len, uneven_rows(0))))


def decoding() -> dict[str, float]:
    """Sixteen responses of 64 tokens after prompts of 256, at temperature 1."""
    sampler = Sampler(
        make_model(),
        NumberTokenizer(),
        CacheConfig(
            cache_size=PROMPT_TOKENS + RESPONSE_TOKENS,
            num_layers=QWEN3["num_hidden_layers"],
            num_kv_heads=QWEN3["num_key_value_heads"],
            head_dim=QWEN3["head_dim"],
        ),
    )

    def respond(repeat: int) -> None:
        rng = np.random.default_rng(repeat)
        ids = [random_ids(rng, PROMPT_TOKENS - 1) for _ in range(SLOTS)]  # and what it puts first
        prompts = [" ".join(map(str, prompt)) for prompt in ids]
        sampler(
            prompts,
            max_generation_steps=RESPONSE_TOKENS,
            max_prompt_length=PROMPT_TOKENS,
            temperature=1.0,
            top_p=1.0,
            seed=repeat,
        )

    return _per_second(respond, SLOTS * RESPONSE_TOKENS)


class NumberTokenizer:
    """Text is numbers, numbers are ids."""

    def encode(self, text: str, **_: object) -> list[int]:
        """Ids of a text."""
        return [int(word) for word in text.split()]

    def decode(self, ids: list[int], **_: object) -> str:
        """Text of ids."""
        return " ".join(map(str, ids))

    def bos_id(self) -> int:
        """No prompt begins with it."""
        return VOCABULARY - 1

    def eos_id(self) -> int:
        """Ends a response, once in 32,000 tokens."""
        return END

    def pad_id(self) -> int:
        """Fills short rows."""
        return PAD


def _per_second(work: Callable[[int], None], tokens: int) -> dict[str, float]:
    cpu, wall = least_seconds(work, repeats=1)
    return {
        "tokens_per_cpu_s": tokens / cpu,
        "tokens_per_s": tokens / wall,
        "peak_memory_gb": peak_memory_gb(),
    }


if __name__ == "__main__":
    parts = {"learner": learner, "scoring": scoring, "decoding": decoding}
    print(json.dumps(parts[sys.argv[1]](), indent=2))
