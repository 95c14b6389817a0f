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


def get_config(variant: str = "") -> ConfigDict:
    """Supervised learning; no variants."""
    if variant:
        raise ValueError(f"there are no variants, got {variant!r}")
    config = common.sft_run(max_prompt=MAX_PROMPT, max_response=MAX_RESPONSE, num_updates=600)
    config.env = common.alfworld()
    config.env.task_types = ("look_at_obj_in_light",)
    config.prompt = {"style": "alfworld_plain", "template_file": ""}
    config.demonstrations.random_action_rate = 0.25
    config.evaluation.update({"interval": 300, "episodes": 13})
    return config
