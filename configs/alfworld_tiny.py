r"""A tiny model learns one of ALFWorld's task types from the expert, on made games, on a CPU.

No row of a paper: it shows that environment, prompts, expert and learner fit together. The expert
looks for things as the model must; one step in ten is a random one, so that the model also sees how
one goes on from where it should not be.

  python -m jopd.sft --config=configs/alfworld_tiny.py --workdir=runs/alfworld_tiny
"""

from ml_collections import ConfigDict

from configs import common

MAX_PROMPT = 640  # a kitchen with all its cupboards, searched
MAX_RESPONSE = 16


def get_config(variant: str = "") -> ConfigDict:
    """Supervised learning; no variants."""
    if variant:
        raise ValueError(f"there are no variants, got {variant!r}")
    config = common.sft_run(max_prompt=MAX_PROMPT, max_response=MAX_RESPONSE, num_updates=500)
    config.env = common.alfworld()
    config.env.task_types = ("pick_and_place_simple",)
    config.env.expert = "searching"
    config.prompt = {"style": "alfworld_plain", "template_file": ""}
    config.rollout.horizon = 50
    config.demonstrations.random_action_rate = 0.1
    config.evaluation.update({"interval": 250, "episodes": 24})
    return config
