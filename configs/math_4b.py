r"""Full OPD on math problems, one reply each: Qwen3-8B teaches a fine-tuned Qwen3-4B-Base.

Paper: STRIDE, arXiv:2609.14636, sections 5.5 and 7 (math), Table 4 (full OPD).
Claimed there: mean@8 of 45.8 on AIME 2025 and 54.6 on AIME 2024 after at most 160 updates.
Ours: not run yet. Bring your own: the student, STUDENT (Qwen3-4B-Base after 500 updates on
reasoning traces), and the problems, TRAIN (dapo-math-17k) and EVAL (AIME), as JSON or JSONL.
Departs from the paper: updates are asynchronous, and AIME's two years in one file give one mean.

  python -m jopd.train --config=configs/math_4b.py --workdir=$WORKDIR \
      --config.student.checkpoint=$STUDENT \
      --config.env.problems_file=$TRAIN --config.env.eval_problems_file=$EVAL
  python -m jopd.train --config=configs/math_4b.py:smoke --workdir=runs/smoke  # a CPU
"""

from ml_collections import ConfigDict

from configs import common

MAX_PROMPT = 1024  # 1K
MAX_RESPONSE = 30 * 1024  # 30K


def get_config(variant: str = "vanilla") -> ConfigDict:
    """The recipe; variants: divopd, divopd_base, vanilla (the paper's full OPD), smoke."""
    config = common.paper_run(
        student="Qwen3-4B-Base-sft",
        teacher="Qwen/Qwen3-8B",
        horizon=1,
        first_pass_cap=1,  # a rollout has one turn
        num_updates=160,
        eval_episodes=60,  # AIME 2024 and 2025
    )
    config.env = common.maths()
    style = "math_plain" if variant == "smoke" else "math_chat"
    config.prompt = {"style": style, "template_file": ""}
    limits = {"max_prompt": MAX_PROMPT, "max_response": MAX_RESPONSE}
    config.rollout.update({f"{name}_tokens": limit for name, limit in limits.items()})
    config.engine = common.engine(slots=64, **limits, dtype="bfloat16", reuse_prefixes=False)
    config.scorer.update({"cache_rows": 16, "max_context": sum(limits.values())})
    config.learner.update({"rows_per_micro_batch": 1, "row_length": 32_768})
    config.composer.batch_size = 48
    config.loss.reduction = "token-mean"
    config.optimizer = common.optimizer(2e-6)
    config.evaluation.interval = 20
    config.evaluation.samples_per_task = 8  # mean@8
    config.evaluation.temperature = 0.6  # the paper does not give it
    common.select_variant(config, variant)
    if variant == "smoke":
        config.rollout.horizon = 1
        config.evaluation.samples_per_task = 2
    return config
