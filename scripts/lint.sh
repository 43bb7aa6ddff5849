#!/usr/bin/env bash
# Style of the code, the direction of imports, and types; says nothing when all is well.
set -euo pipefail
cd "$(dirname "$0")/.."
.venv/bin/ruff check --quiet hdl sim verif tests examples
if ! found=$(PYTHONPATH=hdl:sim:verif .venv/bin/lint-imports --no-cache --no-logo 2>&1); then
    printf '%s\n' "$found"
    exit 1
fi
if ! found=$(.venv/bin/mypy --no-color-output --no-error-summary 2>&1); then
    printf '%s\n' "$found"
    exit 1
fi
