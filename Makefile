# Every target sets up what it needs. CONTRIBUTING.md says what that is.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without bytecode every program that a test starts compiles the whole package first.
unexport PYTHONDONTWRITEBYTECODE
STAMP := $(VENV)/.installed-$(shell cat pyproject.toml requirements-dev.lock | sha256sum | cut -c1-16)

.PHONY: setup lint test contract e2e prove bench lab lab-build demo first-pod docs site locks clean

setup: $(STAMP)

$(STAMP):
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: setup
	$(BIN)/python -m pytest -m "not lab and not slow" --numprocesses 2

lab-build: setup
	$(BIN)/python -m lab build

# The real parts share a noisy machine: what failed is tried once more, by itself, and both results are printed.
# Two processes side by side, each with the clusters of one release; they wait more than they compute.
REAL = $(BIN)/python -m pytest -k '$(1)' -m "lab and not slow" -o cache_dir=$(VENV)/real-parts-$@
LATEST := 26.05
SAID = 2>&1 | sed --unbuffered 's/^/$@: /'
TWICE = set -o pipefail; ($(call REAL,$(1)) || $(call REAL,$(1)) --last-failed --last-failed-no-failures none) $(SAID)
# Which release, the report's name, what is run.
PROVE = set -o pipefail; $(BIN)/python -m pytest -k '$(1)' -m lab -p lab.proof --proof docs/proof/$(2).md $(3) $(SAID)

FENCES := tests/e2e/test_fences.py
PROVED := --ignore $(FENCES) tests/contract tests/e2e

.PHONY: prove-simulated prove-simulation prove-nodes prove-fences-latest prove-fences-rest
.PHONY: e2e-demo e2e-latest e2e-rest prove-latest prove-rest

e2e: lab-build
	$(MAKE) --no-print-directory --jobs 3 e2e-latest e2e-rest e2e-demo

e2e-latest:
	$(call TWICE,$(LATEST))

e2e-rest:
	$(call TWICE,not $(LATEST))

e2e-demo: setup
	set -o pipefail; $(BIN)/slurm-extender demo $(SAID)

prove: lab-build
	$(MAKE) --no-print-directory --jobs 2 prove-latest prove-rest
	$(MAKE) --no-print-directory --jobs 1 --keep-going prove-fences-latest prove-fences-rest
	$(BIN)/python -m tests.stateful --depth 4 --report docs/proof/core.md
	$(MAKE) --no-print-directory prove-simulated
	$(MAKE) --no-print-directory prove-simulation
	$(MAKE) --no-print-directory prove-nodes

prove-latest:
	$(call PROVE,$(LATEST),slurm-$(LATEST),$(PROVED))

prove-rest:
	$(call PROVE,not $(LATEST),slurm-24.11,$(PROVED))

# Fences race with slurmctld: one release after the other, and nothing beside them.
prove-fences-latest:
	$(call PROVE,$(LATEST),fences-$(LATEST),$(FENCES))

prove-fences-rest:
	$(call PROVE,not $(LATEST),fences-24.11,$(FENCES))

# Every crash, every lost answer: what the quick tests leave out.
prove-simulated: setup
	$(BIN)/python -m pytest -m "slow and not lab" --numprocesses 2

# What was run already is not run again, as long as it is the same commit; each process takes one seed after the other.
prove-simulation: setup
	$(BIN)/slurm-extender simulate --seeds 0:1000 --pods 10 --days 0.003 --slurm each --faults drawn --jobs 2 --report docs/proof/simulation.md \
		--state $(VENV)/simulation-$(shell git rev-parse --short HEAD).jsonl

prove-nodes: setup
	$(BIN)/slurm-extender simulate --seeds 0:50 --pods 40 --days 0.042 --slurm each --names each --foreign 6 --faults drawn --jobs 2 \
		--report docs/proof/nodes.md --state $(VENV)/nodes-$(shell git rev-parse --short HEAD).jsonl

bench: lab-build
	$(BIN)/python -m bench
	$(BIN)/python -m bench.real
	$(BIN)/python -m bench.simulated
	$(BIN)/python -m docs.generate.performance

lab: lab-build
	$(BIN)/python -m lab up

demo: setup
	$(BIN)/slurm-extender demo

first-pod: lab-build
	$(BIN)/python -m lab first-pod

docs: setup
	$(BIN)/python -m docs.generate

# Strict: a link to what is not there is an error.
site: setup
	$(BIN)/python -m docs.site

locks:
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra tracing pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra tracing pyproject.toml --group dev --output-file requirements-dev.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build
