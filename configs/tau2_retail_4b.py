r"""On-policy distillation on tau2-bench retail: Qwen3-30B-A3B-Thinking-2507 teaches Qwen3-4B.

Paper: STRIDE, arXiv:2609.14636, Table 1 (row of full rollouts). Claimed there: teacher mean@16
46.1, student after 140 updates 47.7, 273.8 s an update on eight GPUs. The paper's customer is the
teacher; ours is scripted, so the figures do not compare. Ours: not run yet.

  bash scripts/install_tau2.sh .venv/bin/python
  python -m jopd.train --config=configs/tau2_retail_4b.py --workdir=$WORKDIR
  python -m jopd.train --config=configs/tau2_retail_4b.py:smoke --workdir=runs/smoke  # a CPU
  python -m jopd.train --config=configs/tau2_retail_4b.py:smoke --workdir=runs/smoke \
      --config.env.domain=telecom
"""

from ml_collections import ConfigDict

from configs import common


def get_config(variant: str = "vanilla") -> ConfigDict:
    """The recipe; variants: vanilla, divopd, divopd_base, smoke."""
    config = common.stride_run(
        student="Qwen/Qwen3-4B",
        teacher="Qwen/Qwen3-30B-A3B-Thinking-2507",
        horizon=50,
        num_updates=140,
    )
    config.env = common.tau2("retail")
    style = "tau2_plain" if variant == "smoke" else "tau2_chat"
    config.prompt = {"style": style, "template_file": ""}
    common.select_variant(config, variant)
    return config
