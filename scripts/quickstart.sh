#!/usr/bin/env bash
# Sets up and runs the main job on the embedded WebShop: a student learns from a teacher, on a CPU.
# Usage: bash scripts/quickstart.sh [WORKDIR]      (default runs/quickstart; continues a stopped run)
set -euo pipefail
cd "$(dirname "$0")/.."
workdir="${1:-runs/quickstart}"
source scripts/setup.sh
python -m jopd.train --config=configs/quickstart.py --workdir="$workdir" --resume=auto
python scripts/plot_run.py "$workdir"
