#!/usr/bin/env bash
# Sets up and runs every test, files side by side. Usage: bash scripts/test.sh [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh dev
workers=$(( $(nproc) < 8 ? $(nproc) : 8 ))
python -m pytest --numprocesses="$workers" --dist=loadfile "$@"
