r"""On-policy distillation on tau2-bench retail: Qwen3-30B-A3B-Thinking-2507 teaches Qwen3-4B.

Paper: STRIDE, arXiv:2609.14636, Table 1 (row of full rollouts). Claimed there: teacher mean@16
46.1, student after 140 updates 47.7, 273.8 s an update on eight GPUs. The paper's customer is the
teacher, which `:model_customer` also has; the default customer is scripted, and its figures do not
compare. Ours: not run yet.

  bash scripts/install_tau2.sh .venv/bin/python
  python -m jopd.train --config=configs/tau2_retail_4b.py --workdir=$WORKDIR
  python -m jopd.train --config=configs/tau2_retail_4b.py:model_customer --workdir=$WORKDIR
  python -m jopd.train --config=configs/tau2_retail_4b.py:smoke --workdir=runs/smoke  # a CPU
  python -m jopd.train --config=configs/tau2_retail_4b.py:smoke --workdir=runs/smoke \
      --config.env.domain=telecom
  python -m jopd.train --config=configs/tau2_retail_4b.py:model_customer_smoke --workdir=runs/smoke

Another model plays the customer with --config.customer.model.checkpoint=PATH.
"""

from ml_collections import ConfigDict

from configs import common

WITH_MODEL_CUSTOMER = {"model_customer": "vanilla", "model_customer_smoke": "smoke"}


def get_config(variant: str = "vanilla") -> ConfigDict:
    """The recipe; variants: vanilla, divopd, divopd_base, smoke.

    With the teacher as the customer: model_customer (vanilla), model_customer_smoke.
    """
    config = common.stride_run(
        student="Qwen/Qwen3-4B",
        teacher="Qwen/Qwen3-30B-A3B-Thinking-2507",
        horizon=50,
        num_updates=140,
    )
    config.env = common.tau2("retail")
    if variant in WITH_MODEL_CUSTOMER:
        config.env.user = "model"
        config.customer = common.teacher_as_customer(
            slots=64, max_prompt=16_384, max_message=8_192, dtype="bfloat16"
        )
    method = WITH_MODEL_CUSTOMER.get(variant, variant)
    style = "tau2_plain" if method == "smoke" else "tau2_chat"
    config.prompt = {"style": style, "template_file": ""}
    common.select_variant(config, method)
    return config
