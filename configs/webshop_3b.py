r"""DivOPD on WebShop: GiGPO-Qwen2.5-7B teaches Qwen2.5-3B-Instruct.

Paper: arXiv:2609.34838, Table 1 (WebShop 3B), Table 3 (sampler, k = 5), Tables 4 and 5.
Claimed there: teacher 85.94, initial 1.56; DivOPD peak SR 78.12, final-five SR 67.81 +- 3.96;
vanilla peak 60.94, final-five 43.44 +- 13.02.
Ours: not run yet.

  python -m jopd.train --config=configs/webshop_3b.py --workdir=$WORKDIR
  python -m jopd.train --config=configs/webshop_3b.py:vanilla --workdir=$WORKDIR
  python -m jopd.train --config=configs/webshop_3b.py:smoke --workdir=runs/smoke  # CPU, a minute
"""

from ml_collections import ConfigDict

from configs import common


def get_config(variant: str = "divopd") -> ConfigDict:
    """The recipe; variants: divopd, divopd_base, vanilla, smoke."""
    return common.webshop_run(student="Qwen/Qwen2.5-3B-Instruct", first_pass_cap=5, variant=variant)
