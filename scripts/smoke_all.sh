#!/usr/bin/env bash
# Runs `:smoke` of every recipe that trains: 3 updates and an evaluation with tiny models, on a CPU.
# Usage: bash scripts/smoke_all.sh [WORKDIR]      (default runs/smoke_all; what is done stays done)
set -euo pipefail
cd "$(dirname "$0")/.."
workdir="${1:-runs/smoke_all}"
mkdir -p "$workdir"
source scripts/setup.sh dev
for recipe in configs/*.py; do
  name="$(basename "$recipe" .py)"
  case "$name" in __init__ | common | *_tiny) continue ;; esac
  begun=$SECONDS
  python -m jopd.train --config="$recipe:smoke" --workdir="$workdir/$name" --resume=auto \
    > "$workdir/$name.log" 2>&1 || { tail -n 40 "$workdir/$name.log"; exit 1; }
  echo "$name: $(tail -n 1 "$workdir/$name.log") [$((SECONDS - begun)) s]"
done
