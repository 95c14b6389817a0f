r"""WebShop on its embedded catalogue with tiny Qwen3-shaped models, for a CPU with two cores.

No row of a paper: the smallest whole run of asynchronous OPD with DivOPD's batches. What differs
from the papers' settings differs because the models are tiny: larger batches of shorter turns, and
a larger and warmed-up learning rate with a quicker second moment. Teacher and initial student were
made by `jopd.sft` on expert demonstrations and ship in `configs/quickstart_models`;
scripts/make_quickstart_models.sh rebuilds them. Measured: see the README.

  python -m jopd.train --config=configs/quickstart.py --workdir=runs/quickstart
  python -m jopd.sft --config=configs/quickstart.py:teacher --workdir=runs/quickstart_teacher
  python -m jopd.sft --config=configs/quickstart.py:cold_start --workdir=runs/quickstart_student
"""

from ml_collections import ConfigDict

from configs import common

MODELS = "configs/quickstart_models"
MAX_PROMPT = 320
MAX_RESPONSE = 16


def get_config(variant: str = "divopd") -> ConfigDict:
    """The run; variants: divopd, divopd_base, vanilla, smoke; for sft: teacher, cold_start."""
    if variant in ("teacher", "cold_start"):
        return sft_config(variant)
    config = shared()
    config.student = common.model(f"{MODELS}/student")
    config.teacher = common.model(f"{MODELS}/teacher")
    config.customer = None
    config.explorer = {"concurrency": 32, "max_env_errors": 20}
    config.scorer = common.scorer(
        cache_rows=64,
        max_context=MAX_PROMPT + MAX_RESPONSE,
        buckets=(64, 128, 256),
        dtype="float32",
    )
    config.queue = {"capacity_turns": 1024, "policy": "block"}
    config.composer = common.divopd(first_pass_cap=2)
    config.composer.batch_size = 256
    config.loss = {
        "distill_coef": 1.0,
        "reduction": "seq-mean-token-mean",
        "denominator": "rows",
    }
    config.checkpoint = {"interval": 50, "keep": 2}
    config.optimizer = common.optimizer(2.5e-4)
    config.optimizer.update({"warmup_updates": 10, "beta2": 0.99, "epsilon": 1e-5})
    config.runtime = {"mode": "threads", "num_updates": 200, "sync_interval": 1, "seed": 0}
    if variant == "smoke":
        config.runtime.num_updates = 3
        config.evaluation.update({"interval": 3, "episodes": 16})
    else:
        common.select_method(config, variant)
    return config


def shared() -> ConfigDict:
    """What training and the making of its models have in common."""
    config = ConfigDict()
    config.env = common.webshop()
    config.prompt = {"style": "webshop_plain", "template_file": ""}
    config.rollout = {
        "horizon": 10,
        "max_prompt_tokens": MAX_PROMPT,
        "max_response_tokens": MAX_RESPONSE,
        "temperature": 1.0,
        "overflow": "end",
    }
    config.engine = common.engine(
        slots=32, max_prompt=MAX_PROMPT, max_response=MAX_RESPONSE, dtype="float32"
    )
    config.learner = {
        "rows_per_micro_batch": 4,
        "row_length": 512,
        "compute_dtype": "float32",
        "remat": False,
        "head_chunk": 256,
    }
    config.evaluation = {
        "interval": 40,
        "episodes": 128,
        "samples_per_task": 1,
        "concurrency": 32,
        "temperature": 0.4,  # Table 5
        "seed": 1,
    }
    config.devices = common.devices()
    config.reporting = common.reporting()
    return config


def sft_config(variant: str) -> ConfigDict:
    """Supervised learning from the expert: the student stops halfway."""
    config = shared()
    is_teacher = variant == "teacher"
    config.student = common.scratch_model(
        "qwen3",
        width=96 if is_teacher else 64,
        layers=2,
        max_positions=512,
        seed=1 if is_teacher else 2,
    )
    config.demonstrations = {"random_action_rate": 0.2, "batch_size": 32}
    config.optimizer = common.optimizer(3e-3)
    config.optimizer.update({"warmup_updates": 100, "decay_updates": 900})
    config.runtime = {"num_updates": 1000 if is_teacher else 500, "seed": 0}
    config.evaluation.interval = 250
    return config
