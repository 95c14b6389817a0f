r"""DivOPD on ScienceWorld: Embodied-Planner-R1 teaches Qwen2.5-1.5B-Instruct.

Paper: arXiv:2609.34838, Table 1 (ScienceWorld 1.5B), Table 3 (sampler, k = 4), Tables 4 to 6.
Claimed there: teacher 93.75, initial 21.48; DivOPD peak SR 78.91, final-five SR 76.09 +- 2.23;
vanilla peak 66.02, final-five 63.75 +- 2.49.
Ours: not run yet. The teacher's weights come from a directory of yours, TEACHER.

  python -m jopd.train --config=configs/scienceworld_1_5b.py --workdir=$WORKDIR \
      --config.teacher.checkpoint=$TEACHER
  python -m jopd.train --config=configs/scienceworld_1_5b.py:smoke --workdir=runs/smoke  # a CPU
"""

from ml_collections import ConfigDict

from configs import common


def get_config(variant: str = "divopd") -> ConfigDict:
    """The recipe; variants: divopd, divopd_base, vanilla, smoke."""
    return common.scienceworld_run(
        student="Qwen/Qwen2.5-1.5B-Instruct", first_pass_cap=4, variant=variant
    )
