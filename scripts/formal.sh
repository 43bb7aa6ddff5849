#!/usr/bin/env bash
# Runs the proofs, with their own solver packages.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ .venv/.ready-formal -ot pyproject.toml ] || [ ! -e .venv/.ready-formal ]; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[formal]'
    touch .venv/.ready-formal
fi
exec .venv/bin/python -m pytest -n 2 -m formal tests
