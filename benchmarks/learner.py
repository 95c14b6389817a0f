"""The learner's update: real tokens per CPU-second, and the memory it takes.

python -m benchmarks.learner [float32|bfloat16]
"""

import argparse
import functools
import json
from typing import Literal

import jax
import numpy as np

from benchmarks.workload import (
    MOST_TOKENS,
    QWEN3,
    ROWS,
    least_seconds,
    peak_memory_gb,
    uneven_rows,
)
from configs import common
from jopd.algorithms.distillation import weighted_opd_loss
from jopd.experience.batching import PackedBatch, RowLayout, pack
from jopd.learner.state import OptimizerSettings, init_state, make_optimizer
from jopd.learner.update import Updater, UpdateSettings
from jopd.models.architectures import DecoderConfig
from jopd.models.decoder import init_params
from jopd.settings import build
from jopd.types import HostInts, Speaker, Turn

REPEATS = 3


def measure(compute_dtype: Literal["float32", "bfloat16"] = "float32") -> dict[str, float]:
    """One update of 64 uneven rows, all of whose tokens but the first are trained."""
    config = DecoderConfig.from_hugging_face(QWEN3)
    settings = UpdateSettings(
        rows_per_micro_batch=2,
        row_length=MOST_TOKENS,
        compute_dtype=compute_dtype,
        remat=False,
        head_chunk=256,
    )
    optimizer = make_optimizer(build(OptimizerSettings, common.optimizer(1e-6)))
    loss = functools.partial(weighted_opd_loss, distill_coef=1.0)
    updater = Updater(config, optimizer, loss, settings)
    state = init_state(init_params(config, jax.random.key(0)), optimizer)
    batch = packed_rows(settings)

    def update(_: int) -> None:
        nonlocal state
        state, result = updater(state, batch.batch, batch.used_micro_batches)
        result.loss.block_until_ready()

    cpu, wall = least_seconds(update, repeats=REPEATS)
    return {
        "tokens": batch.real_tokens,
        "fill": batch.fill,
        "tokens_per_cpu_s": batch.real_tokens / cpu,
        "tokens_per_s": batch.real_tokens / wall,
        "peak_memory_gb": peak_memory_gb(),
    }


def packed_rows(settings: UpdateSettings) -> PackedBatch:
    """The workload's rows as the learner packs them."""
    layout = RowLayout.for_batch(
        ROWS,
        rows_per_micro_batch=settings.rows_per_micro_batch,
        row_length=settings.row_length,
    )
    turns = [_turn(number, ids) for number, ids in enumerate(uneven_rows(0))]
    return pack(turns, layout, reduction="seq-mean-token-mean")


def _turn(number: int, ids: HostInts) -> Turn:
    response = ids[1:]
    logprobs = np.full(len(response), -10.0, np.float32)
    return Turn(
        rollout_id=number,
        index=0,
        task_id="made",
        domain="made",
        policy_version=0,
        speaker=Speaker.STUDENT,
        sampling_temperature=1.0,
        prompt_tokens=ids[:1],
        response_tokens=response,
        response_mask=np.ones(len(response), bool),
        behaviour_logprobs=logprobs,
        teacher_logprobs=logprobs,
        teacher_mask=None,
        prompt_truncated=False,
        response_truncated=False,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The learner's update.")
    parser.add_argument("dtype", nargs="?", choices=("float32", "bfloat16"), default="float32")
    print(json.dumps(measure(parser.parse_args().dtype), indent=2))
