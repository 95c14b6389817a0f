#!/usr/bin/env bash
# What to run before a commit: format, lint, types, and every test that is not slow.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/setup.sh dev
ruff format --check .
ruff check .
pyright
python -m pytest -m "not slow" "$@"
