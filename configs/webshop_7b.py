r"""DivOPD on WebShop: GiGPO-Qwen2.5-7B teaches Qwen2.5-7B-Instruct.

Paper: arXiv:2609.34838, Table 1 (WebShop 7B), Table 3 (sampler), Table 4 (optimizer), Table 5.
Claimed there: teacher 85.94, initial 14.06; DivOPD peak SR 90.62, final-five SR 82.66 +- 5.25, 134
updates run; vanilla peak 87.50, final-five 82.50 +- 3.11, 138 updates run.
Ours: not run yet.

  python -m jopd.train --config=configs/webshop_7b.py --workdir=$WORKDIR
  python -m jopd.train --config=configs/webshop_7b.py:vanilla --workdir=$WORKDIR
  python -m jopd.train --config=configs/webshop_7b.py:smoke --workdir=runs/smoke  # CPU, a minute
"""

from ml_collections import ConfigDict

from configs import common

MAX_PROMPT = 10_240  # of the public code base whose settings coincide with the paper's
MAX_RESPONSE = 512


def get_config(variant: str = "divopd") -> ConfigDict:
    """The recipe; variants: divopd, divopd_base, vanilla, smoke."""
    config = ConfigDict()
    config.env = common.webshop()
    config.prompt = {"style": "webshop_accumulate", "template_file": ""}
    config.student = common.model("Qwen/Qwen2.5-7B-Instruct")
    config.teacher = common.model("langfeng01/GiGPO-Qwen2.5-7B-Instruct-WebShop")
    config.rollout = {
        "horizon": 15,
        "max_prompt_tokens": MAX_PROMPT,
        "max_response_tokens": MAX_RESPONSE,
        "temperature": 1.0,  # Table 5
        "overflow": "end",
    }
    config.explorer = {"concurrency": 64, "max_env_errors": 20}
    config.engine = common.engine(
        slots=64, max_prompt=MAX_PROMPT, max_response=MAX_RESPONSE, dtype="bfloat16"
    )
    config.scorer = common.scorer(
        cache_rows=64,
        max_context=MAX_PROMPT + MAX_RESPONSE,
        buckets=(256, 512, 1024, 2048),
        dtype="bfloat16",
    )
    config.queue = {"capacity_turns": 1024, "policy": "block"}
    config.composer = common.divopd(first_pass_cap=4)
    config.loss = {
        "distill_coef": 1.0,
        "reduction": "seq-mean-token-mean",
        "denominator": "rows",
    }
    config.learner = {
        "rows_per_micro_batch": 4,
        "row_length": 16_384,
        "compute_dtype": "bfloat16",
        "remat": True,
        "head_chunk": 256,
    }
    config.optimizer = common.optimizer(1e-6)
    config.evaluation = {
        "interval": 5,
        "episodes": 128,
        "concurrency": 64,
        "temperature": 0.4,  # Table 5
        "seed": 1,
    }
    config.checkpoint = {"interval": 10, "keep": 3}
    config.devices = common.devices()
    config.runtime = {"mode": "threads", "num_updates": 150, "sync_interval": 1, "seed": 0}
    config.reporting = common.reporting()
    if variant == "smoke":
        shrink(config)
    else:
        common.select_method(config, variant)
    return config


def shrink(config: ConfigDict) -> None:
    """The same run with a tiny model of the same architecture, for a CPU."""
    max_prompt, max_response = 1024, 16
    config.student = common.scratch_model("qwen2", width=64, layers=2, max_positions=2048, seed=0)
    config.teacher = common.scratch_model("qwen2", width=64, layers=2, max_positions=2048, seed=1)
    config.rollout.update(
        {"horizon": 3, "max_prompt_tokens": max_prompt, "max_response_tokens": max_response}
    )
    config.explorer.concurrency = 4
    config.engine = common.engine(
        slots=4, max_prompt=max_prompt, max_response=max_response, dtype="float32"
    )
    config.scorer = common.scorer(
        cache_rows=8, max_context=max_prompt + max_response, buckets=(256, 512), dtype="float32"
    )
    config.scorer.max_batch_rows = 4
    config.composer.batch_size = 8
    config.learner.update({"rows_per_micro_batch": 1, "row_length": 2048})
    config.learner.compute_dtype = "float32"
    config.evaluation.update({"interval": 3, "episodes": 4, "concurrency": 4})
    config.checkpoint.interval = 3
    config.runtime.num_updates = 3
