r"""One easy kind of ScienceWorld task with a tiny Qwen3-shaped model, learnt from gold paths.

No row of a paper: it shows that prompts, actions and simulator fit together. Trained on the
first half of the kind's variations, evaluated on the others. Measured: see the README.

  python -m jopd.sft --config=configs/scienceworld_tiny.py --workdir=runs/scienceworld_tiny
"""

from ml_collections import ConfigDict

from configs import common

MAX_PROMPT = 448
MAX_RESPONSE = 24


def get_config(variant: str = "") -> ConfigDict:
    """Supervised learning; no variants."""
    if variant:
        raise ValueError(f"there are no variants, got {variant!r}")
    config = common.sft_run(max_prompt=MAX_PROMPT, max_response=MAX_RESPONSE, num_updates=400)
    config.env = common.scienceworld()
    config.env.task_types = ("lifespan-shortest-lived",)
    config.prompt = {"style": "scienceworld_plain", "template_file": ""}
    config.rollout.horizon = 12
    config.evaluation.update({"interval": 200, "episodes": 62, "concurrency": 4})
    return config
