r"""DivOPD on ALFWorld: GiGPO-Qwen2.5-7B teaches Qwen3-4B.

Paper: arXiv:2609.34838, Table 1 (ALFWorld 4B), Table 3 (sampler, k = 4), Table 4 (optimizer),
Table 5.
Claimed there: teacher 87.86, initial 26.43; DivOPD peak SR 91.43, final-five SR 88.00 +- 2.74;
vanilla peak 86.43, final-five 84.57 +- 1.48.
Ours: not run yet. Without `data_dir` the games are made here, and results do not compare with the
paper's, which are on the official valid_seen games.

  python -m jopd.train --config=configs/alfworld_4b.py --workdir=$WORKDIR \
      --config.env.data_dir=$ALFWORLD_DATA
  python -m jopd.train --config=configs/alfworld_4b.py:smoke --workdir=runs/smoke  # a CPU
"""

from ml_collections import ConfigDict

from configs import common


def get_config(variant: str = "divopd") -> ConfigDict:
    """The recipe; variants: divopd, divopd_base, vanilla, smoke."""
    return common.alfworld_run(student="Qwen/Qwen3-4B", variant=variant)
