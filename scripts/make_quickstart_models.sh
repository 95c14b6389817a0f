#!/usr/bin/env bash
# Rebuilds the models that the quick start begins with, from expert demonstrations (about ten minutes).
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh
for role in teacher student; do
  variant=$([ "$role" = teacher ] && echo teacher || echo cold_start)
  rm -rf "runs/quickstart_$role"
  python -m jopd.sft --config="configs/quickstart.py:$variant" --workdir="runs/quickstart_$role"
  rm -rf "configs/quickstart_models/$role"
  cp -r "runs/quickstart_$role/model" "configs/quickstart_models/$role"
done
