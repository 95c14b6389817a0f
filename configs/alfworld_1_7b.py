r"""DivOPD on ALFWorld: GiGPO-Qwen2.5-7B teaches Qwen3-1.7B.

Paper: arXiv:2609.34838, Table 1 (ALFWorld 1.7B), Table 3 (sampler, k = 4), Table 4 (optimizer),
Table 5.
Claimed there: teacher 87.86, initial 7.86; DivOPD peak SR 79.29, final-five SR 71.86 +- 7.29;
vanilla peak 77.86, final-five 74.00 +- 3.18.
Ours: not run yet. Without `data_dir` the games are made here, and results do not compare with the
paper's, which are on the official valid_seen games.

  python -m jopd.train --config=configs/alfworld_1_7b.py --workdir=$WORKDIR \
      --config.env.data_dir=$ALFWORLD_DATA
  python -m jopd.train --config=configs/alfworld_1_7b.py:smoke --workdir=runs/smoke  # a CPU
"""

from ml_collections import ConfigDict

from configs import common


def get_config(variant: str = "divopd") -> ConfigDict:
    """The recipe; variants: divopd, divopd_base, vanilla, smoke."""
    return common.alfworld_run(student="Qwen/Qwen3-1.7B", variant=variant)
