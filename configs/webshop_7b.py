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


def get_config(variant: str = "divopd") -> ConfigDict:
    """The recipe; variants: divopd, divopd_base, vanilla, smoke."""
    return common.webshop_run(student="Qwen/Qwen2.5-7B-Instruct", first_pass_cap=4, variant=variant)
