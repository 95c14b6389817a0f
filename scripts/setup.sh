#!/usr/bin/env bash
# Makes .venv with jopd in it, once per state of what it installs. Usage: source scripts/setup.sh [EXTRA]
set -euo pipefail
extra="${1:-}"
if ! [ -x .venv/bin/python ]; then
  python="$(command -v python3.11 || command -v python3)"
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "jopd needs Python 3.11 or newer; $python is $("$python" --version)" >&2
    exit 1
  }
  echo "Making .venv ..."
  "$python" -m venv .venv
fi
stamp=".venv/installed-${extra:-core}-$(cat pyproject.toml scripts/install_tau2.sh | cksum | cut -d' ' -f1)"
if ! [ -e "$stamp" ]; then
  echo "Installing jopd${extra:+[$extra]} into .venv (a few minutes) ..."
  .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".${extra:+[$extra]}"
  if [ "$extra" = dev ]; then
    bash scripts/install_tau2.sh .venv/bin/python  # as an extra it would bring 130 packages along
    if (type g++ && type cmake && type make) > /dev/null 2>&1; then
      .venv/bin/python -m pip install --quiet --disable-pip-version-check -e ".[alfworld]"
    else
      echo "ALFWorld is left out, and its tests with it: it needs g++, cmake and make" >&2
    fi
  fi
  touch "$stamp"
fi
export PATH="$PWD/.venv/bin:$PATH"
