r"""DivOPD on ScienceWorld: Embodied-Planner-R1 teaches Qwen2.5-3B-Instruct.

Paper: arXiv:2609.34838, Table 1 (ScienceWorld 3B), Table 3 (sampler, k = 5), Tables 4 to 6.
Claimed there: teacher 93.75, initial 45.31; DivOPD peak SR 88.28, final-five SR 85.47 +- 2.49;
vanilla peak 85.55, final-five 80.78 +- 4.09.
Ours: not run yet. The teacher's weights come from a directory of yours, TEACHER.

  python -m jopd.train --config=configs/scienceworld_3b.py --workdir=$WORKDIR \
      --config.teacher.checkpoint=$TEACHER
  python -m jopd.train --config=configs/scienceworld_3b.py:smoke --workdir=runs/smoke  # a CPU
"""

from ml_collections import ConfigDict

from configs import common


def get_config(variant: str = "divopd") -> ConfigDict:
    """The recipe; variants: divopd, divopd_base, vanilla, smoke."""
    return common.scienceworld_run(
        student="Qwen/Qwen2.5-3B-Instruct", first_pass_cap=5, variant=variant
    )
