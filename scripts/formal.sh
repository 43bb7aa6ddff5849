#!/usr/bin/env bash
# Runs the proofs, with their own solver packages.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ .venv/.ready-formal -ot pyproject.toml ] || [ ! -e .venv/.ready-formal ]; then
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -e '.[formal]'
    touch .venv/.ready-formal
fi
if ! ls tests/test_formal*.py >/dev/null 2>&1; then
    echo "formal: there are no proofs in the tree yet" >&2
    exit 1
fi
exec .venv/bin/python -m pytest -n 2 tests/test_formal*.py
