r"""A tiny model learns one of ALFWorld's task types from the expert, on made games, on a CPU.

No row of a paper: it shows that environment, prompts, expert and learner fit together. The expert
knows where everything is and some of its steps are replaced by random ones, so that the model also
sees how one goes on after looking in the wrong place.

  python -m jopd.sft --config=configs/alfworld_tiny.py --workdir=runs/alfworld_tiny
"""

from ml_collections import ConfigDict

from configs import common

MAX_PROMPT = 448  # a kitchen with all its cupboards
MAX_RESPONSE = 16


def get_config() -> ConfigDict:
    """Supervised learning from the expert."""
    config = ConfigDict()
    config.env = common.alfworld()
    config.env.task_types = ("look_at_obj_in_light",)
    config.prompt = {"style": "alfworld_plain", "template_file": ""}
    config.student = common.scratch_model("qwen3", width=96, layers=2, max_positions=512, seed=1)
    config.rollout = {
        "horizon": 30,
        "max_prompt_tokens": MAX_PROMPT,
        "max_response_tokens": MAX_RESPONSE,
        "temperature": 1.0,
        "overflow": "end",
    }
    config.engine = common.engine(
        slots=16, max_prompt=MAX_PROMPT, max_response=MAX_RESPONSE, dtype="float32"
    )
    config.demonstrations = {"random_action_rate": 0.25, "batch_size": 32}
    config.learner = {
        "rows_per_micro_batch": 4,
        "row_length": 512,
        "compute_dtype": "float32",
        "remat": False,
        "head_chunk": 256,
    }
    config.optimizer = common.optimizer(3e-3)
    config.optimizer.update({"warmup_updates": 50, "decay_updates": 550})
    config.evaluation = {
        "interval": 300,
        "episodes": 13,
        "concurrency": 4,
        "temperature": 0.4,  # Table 5
        "seed": 1,
    }
    config.devices = common.devices()
    config.runtime = {"num_updates": 600, "seed": 0}
    config.reporting = common.reporting()
    return config
