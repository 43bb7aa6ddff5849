# Verbs only; the work is done by the programs that they call. Setup is repeated only when pyproject.toml changed.
READY := .venv/.ready
.PHONY: help setup lint test nightly soak formal mutate coverage check demo docs clean
HOURS ?= 8
SEED ?= 1

help:; @echo "targets: setup lint test nightly soak formal mutate coverage check demo docs clean"
setup: $(READY)
$(READY): pyproject.toml scripts/setup.sh; @scripts/setup.sh
lint: $(READY); @scripts/lint.sh
test: lint; @HEDDLE_COVERAGE_RUN=test .venv/bin/python -m pytest -n 2 -m "not nightly" --durations=40 --durations-min=8 tests
nightly: $(READY); @HEDDLE_COVERAGE_RUN=nightly .venv/bin/python -m pytest -n 2 -m "not soak" --durations=100 --durations-min=20 tests
soak: $(READY); @.venv/bin/python -m heddle_verif.soak --hours $(HOURS) --seed $(SEED)
formal: $(READY); @scripts/formal.sh
mutate: $(READY); @.venv/bin/python -m heddle_verif.mutation.mutate
coverage: $(READY); @.venv/bin/python -m heddle_verif.coverage report
check: $(READY); @.venv/bin/heddle bench check
demo: $(READY); @.venv/bin/python examples/digits.py
docs: $(READY); @scripts/docs.sh
clean:; @rm -rf build .pytest_cache .ruff_cache
