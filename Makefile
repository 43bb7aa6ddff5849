# Verbs only; the work is done by the programs that they call. Setup is repeated only when pyproject.toml changed.
READY := .venv/.ready
DEMO := .venv/.ready_demo
DOCS := .venv/.ready_docs
.PHONY: help setup lint smoke test nightly soak formal mutate coverage check demo docs clean
HOURS ?= 8
SEED ?= 1
unexport PYTHONPATH PYTHONDONTWRITEBYTECODE     # of another tree; hundreds of processes import the same modules

help:; @echo "targets: setup lint smoke test nightly soak formal mutate coverage check demo docs clean"
setup: $(READY)
$(READY): pyproject.toml scripts/setup.sh; @scripts/setup.sh
$(DEMO): $(READY); @scripts/setup.sh demo
$(DOCS): $(READY); @scripts/setup.sh docs
lint: $(READY); @scripts/lint.sh
smoke: $(READY); @.venv/bin/python -m pytest -n 2 -m "smoke and not nightly" --durations=10 --durations-min=8 tests
test: $(DEMO) lint; @HEDDLE_COVERAGE_RUN=test .venv/bin/python -m pytest -n 2 -m "not nightly" --durations=40 --durations-min=8 tests
nightly: $(DEMO) $(DOCS); @HEDDLE_COVERAGE_RUN=nightly .venv/bin/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "nightly and not soak" --durations=400 --durations-min=5 tests
soak: $(READY) $(DOCS); @.venv/bin/python -m heddle_verif.soak --hours $(HOURS) --seed $(SEED)
formal: $(READY); @scripts/formal.sh
mutate: $(READY); @.venv/bin/python -m heddle_verif.mutation.mutate
coverage: $(READY); @.venv/bin/python -m heddle_verif.coverage report
check: $(READY); @.venv/bin/heddle bench check
demo: $(DEMO); @.venv/bin/python examples/digits.py
docs: $(DOCS); @scripts/docs.sh
clean:; @rm -rf build .pytest_cache .ruff_cache
