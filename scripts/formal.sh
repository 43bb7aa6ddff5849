#!/usr/bin/env bash
# Runs all proofs, the long ones too.
set -euo pipefail
cd "$(dirname "$0")/.."
exec .venv/bin/python -m pytest -n 2 tests/heddle_verif/test_formal.py
