#!/usr/bin/env bash
# Sets up and runs every test. Usage: bash scripts/test.sh [pytest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh dev
python -m pytest "$@"
