# Each target installs its own requirements. CONTRIBUTING.md lists them.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without bytecode, each program that a test starts compiles the whole package first.
unexport PYTHONDONTWRITEBYTECODE
STAMP := $(VENV)/.installed-$(shell cat pyproject.toml packaging/kubectl/pyproject.toml requirements-dev.lock | sha256sum | cut -c1-16)

.PHONY: setup lint test test-beside contract e2e prove bench lab lab-build lab-build-node lab-build-controllers lab-build-dra demo first-pod docs site locks clean

setup: $(STAMP)

$(STAMP):
	@echo 'Installing Python packages into $(VENV), once; this takes a minute or more.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e packaging/kubectl
	rm -rf $(VENV)/lib/python3*/site-packages/kubectl_slurm  # the build's copy, which would hide edits
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

# The fixed hash seed gives sets one order, and tests/conftest.py fixes the seeds of random inputs: runs are repeatable.
QUICK = PYTHONHASHSEED=0 $(BIN)/python -m pytest -m "not lab and not slow and not browser"
# Slow tests are neighbours in the list, so a process that is finished takes over tests of the other one (worksteal).
test: setup
	$(QUICK) --numprocesses 2 --dist worksteal

# For a run at the same time as the lab: failed tests run once more, alone, and both results are printed.
test-beside: setup
	rm -rf $(VENV)/quick-tests
	$(QUICK) --numprocesses 2 --dist worksteal -o cache_dir=$(VENV)/quick-tests || \
		{ [ $$? -eq 1 ] && $(QUICK) -o cache_dir=$(VENV)/quick-tests $(AGAIN); }

lab-build: setup
	$(BIN)/python -m lab build

# Build the parts that only the tests with real kubelets need.
lab-build-node: setup
	$(BIN)/python -m lab build node

# Build the controllers that create gangs. Only `make prove` needs them.
lab-build-controllers: setup
	$(BIN)/python -m lab build controllers

# Build the drivers that give containers their devices and CPUs. Only `make prove` needs them.
lab-build-dra: setup
	$(BIN)/python -m lab build dra-example dra-driver-cpu

# Tests with real components. Failed tests run once more, alone, because a loaded machine delays them; both results are
# printed. Each release of Slurm is one run of two processes. A process shares its clusters among its test files. Sites
# with an older Kubernetes have a run of one process.
# REAL selects tests by name, $(1), and by markers, $(2) and $(3). OTHERS leaves out tests that have runs of their own.
OTHERS := not kubelet and not controllers and not proved_kubernetes
REAL = $(BIN)/python -m pytest -k '$(1)' -m "lab and not slow and $(or $(3),$(OTHERS)) and $(2)" -o cache_dir=$(VENV)/real-parts-$@ $(REAL_PARTS)
# Only these folders have such tests. Importing all tests takes each process ten seconds.
REAL_PARTS := tests/contract tests/e2e tests/lab tests/manifests
BY_FILE := --numprocesses 2 --dist loadfile --no-loadscope-reorder
LATEST := 26.05
SAID = 2>&1 | sed --unbuffered 's/^/$@: /'
AGAIN := --last-failed --last-failed-no-failures none
# Repeat only failures of this run, and only if it completed (exit code 1). After an aborted run, an older list of
# failures would count as success.
TWICE = set -o pipefail; rm -rf $(VENV)/real-parts-$@; \
	($(call REAL,$(1),$(2),$(4)) $(3) || { [ $$? -eq 1 ] && $(call REAL,$(1),$(2),$(4)) $(AGAIN); }) $(SAID)
# Empty if the lab has only one minor of Kubernetes.
OLDER := $(if $(word 2,$(wildcard lab/kubernetes/*/go.mod)),e2e-older)
# Arguments: the expression of names, the name of the report, the tests, the expression of markers.
PROVED = $(BIN)/python -m pytest -k '$(1)' -m "lab and $(or $(4),$(OTHERS))" -p lab.proof --proof docs/proof/$(2).md -o cache_dir=$(VENV)/proof-$@ $(3)
PROVE = set -o pipefail; $(PROVED) $(SAID)
# Failed tests run once more, alone. The page has both results.
PROVE_TWICE = set -o pipefail; rm -rf $(VENV)/proof-$@; \
	($(PROVED) $(BY_FILE) || { [ $$? -eq 1 ] && $(PROVED) $(AGAIN); }) $(SAID)

CONTROLLERS := tests/e2e/test_gang_controllers.py tests/e2e/test_coscheduling_controller.py tests/e2e/test_kueue_groups.py
# The minors of Kubernetes that only `make prove-kubernetes` builds.
MINORS := $(notdir $(patsubst %/go.mod,%,$(wildcard lab/kubernetes/proved/*/go.mod)))
ON_MINORS := tests/e2e tests/manifests tests/contract/kube

KUBELETS := tests/e2e/test_kubelets.py $(wildcard tests/e2e/test_kubelet_*.py) tests/lab/kubelet tests/contract/kubelet
FENCES := tests/e2e/test_fences.py
MANY_GANGS := tests/e2e/test_many_gangs.py
MATRICES := --ignore $(FENCES) --ignore $(MANY_GANGS) --ignore tests/e2e/test_operators_walk.py tests/contract tests/e2e tests/manifests

.PHONY: prove-kubernetes prove-simulated prove-simulation prove-gangs prove-nodes prove-adversary prove-hostile prove-console pictures prove-fences-latest prove-fences-rest
.PHONY: prove-walk prove-many-gangs e2e-demo e2e-kubelet e2e-latest e2e-rest e2e-older prove-kubelets prove-controllers prove-latest prove-rest

# Fewer garbage collections: they take a fifth of the CPU time of Kubernetes' programs, and memory is sufficient.
e2e-latest e2e-rest e2e-older: export GOGC := 400

# Run two at a time: with more, components miss their timeouts on a machine with two cores.
e2e: lab-build lab-build-node
	$(MAKE) --no-print-directory --jobs 2 e2e-latest e2e-rest e2e-demo e2e-kubelet $(OLDER)

e2e-latest:
	$(call TWICE,$(LATEST),not older_kubernetes,$(BY_FILE))

e2e-rest:
	$(call TWICE,not $(LATEST),not older_kubernetes,$(BY_FILE))

e2e-older:
	$(call TWICE,,older_kubernetes)

# Run one process, so that the nodes of each release start once.
e2e-kubelet:
	$(call TWICE,,lab,,kubelet)

e2e-demo: setup
	set -o pipefail; $(BIN)/slurm-extender demo $(SAID)

# Write the steps of a new operator and their durations into the page. Run nothing else at the same time.
prove-walk: lab-build
	set -o pipefail; $(BIN)/python -m pytest -m lab -p lab.proof --proof-part docs/proof/install.md tests/e2e/test_operators_walk.py $(SAID)

# Place two hundred gangs, one release after the other. Run nothing else: the test takes a sample every 50 ms.
prove-many-gangs: lab-build
	set -o pipefail; $(BIN)/python -m pytest -m lab -p lab.proof --proof-part docs/proof/gangs.md -o faulthandler_timeout=3600 $(MANY_GANGS) $(SAID)

prove: lab-build lab-build-node
	$(MAKE) --no-print-directory --jobs 2 prove-latest prove-rest
	$(MAKE) --no-print-directory --jobs 1 --keep-going prove-fences-latest prove-fences-rest
	$(MAKE) --no-print-directory prove-many-gangs
	$(MAKE) --no-print-directory prove-kubelets
	$(MAKE) --no-print-directory prove-walk
	$(MAKE) --no-print-directory prove-controllers
	$(MAKE) --no-print-directory prove-kubernetes
	$(BIN)/python -m tests.stateful --depth 4 --report docs/proof/core.md
	$(MAKE) --no-print-directory prove-simulated
	$(MAKE) --no-print-directory prove-simulation
	$(MAKE) --no-print-directory prove-gangs
	$(MAKE) --no-print-directory prove-nodes
	$(MAKE) --no-print-directory prove-hostile
	$(MAKE) --no-print-directory prove-console
	$(MAKE) --no-print-directory prove-adversary

prove-latest:
	$(call PROVE_TWICE,$(LATEST),slurm-$(LATEST),$(MATRICES))

prove-rest:
	$(call PROVE_TWICE,not $(LATEST),slurm-24.11,$(MATRICES))

# Test the fences, one release after the other, with nothing else running. A failure is not repeated: an overlap counts.
prove-fences-latest:
	$(call PROVE,$(LATEST),fences-$(LATEST),$(FENCES))

prove-fences-rest:
	$(call PROVE,not $(LATEST),fences-24.11,$(FENCES))

# Run real processes in containers, with nothing else running. A failure is not repeated.
prove-kubelets: lab-build-node lab-build-dra
	$(call PROVE,,kubelets,-o faulthandler_timeout=3600 $(KUBELETS),kubelet)

# Place gangs of the real controllers of JobSet, LeaderWorkerSet and others, one release after the other.
prove-controllers: lab-build lab-build-controllers
	$(call PROVE,,controllers,$(CONTROLLERS),controllers)

# Test other minors of Kubernetes: the first Pod, gates, gangs, causes, preemption, uninstall, rights, all components.
# Building a minor that is not in the cache takes about ten minutes.
prove-kubernetes: lab-build
	$(BIN)/python -m lab build $(MINORS:%=kubernetes-%)
	$(call PROVE_TWICE,,kubernetes,$(ON_MINORS),proved_kubernetes)

# Run the slow tests, with every crash and every lost answer, and repeat the quick tests with new random inputs.
prove-simulated: setup
	$(BIN)/python -m pytest -m "slow and not lab" --numprocesses 2
	$(BIN)/python -m pytest -m "not lab and not slow" --hypothesis-profile anew --numprocesses 2 tests/http tests/unit

# Results are stored by commit, so another run of the same commit resumes. Each process runs one seed after the other.
prove-simulation: setup
	$(BIN)/slurm-extender simulate --seeds 0:1000 --pods 10 --days 0.003 --slurm each --faults drawn --jobs 2 --report docs/proof/simulation.md \
		--state $(VENV)/simulation-$(shell git rev-parse --short HEAD).jsonl

prove-gangs: setup
	$(BIN)/slurm-extender simulate --seeds 0:1000 --pods 4 --nodes 5 --days 0.004 --gangs 5 --slurm each --faults drawn --jobs 2 \
		--report docs/proof/gang-seeds.md --state $(VENV)/gangs-$(shell git rev-parse --short HEAD).jsonl

prove-nodes: setup
	$(BIN)/slurm-extender simulate --seeds 0:50 --pods 40 --days 0.042 --slurm each --names each --foreign 6 --faults drawn --jobs 2 \
		--report docs/proof/nodes.md --state $(VENV)/nodes-$(shell git rev-parse --short HEAD).jsonl

# Fuzz for ten minutes, guided by coverage, and repeat the quick property tests with new random inputs.
prove-hostile: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-fuzz.lock
	$(BIN)/python -m tests.fuzz --report docs/proof/hostile.md
	$(BIN)/python -m pytest -m "not lab" --hypothesis-profile anew --numprocesses 2 tests/hostile

# Test the console in Chromium. If it is missing, install Debian's package, as root.
prove-console: setup
	command -v chromium || { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends chromium; }
	$(BIN)/python -m pytest -m browser tests/browser

# Take new screenshots for the pages.
pictures: setup
	CONSOLE_PICTURES=docs/pictures $(BIN)/python -m pytest -m browser tests/browser -k queue

# Fail if a flood delays another namespace too much, or drains a node on which it has no Pod.
prove-adversary: lab-build
	$(BIN)/python -m bench.real adversary; met=$$?; $(BIN)/python -m docs.generate.performance && exit $$met

bench: lab-build
	$(BIN)/python -m bench
	$(BIN)/python -m bench.real
	$(BIN)/python -m bench.simulated
	$(BIN)/python -m docs.generate.performance

lab: lab-build
	$(BIN)/python -m lab up

demo: setup
	$(BIN)/slurm-extender demo

# Build one file for this platform and a manifest for krew. SITE is the address from which the archive is served.
SITE := https://example.org/slurm-extender
.PHONY: kubectl-plugin
kubectl-plugin: setup
	$(BIN)/python -m image.plugin --out dist --site $(SITE)

# Write everything that a release publishes into dist/, and push nothing.
.PHONY: release
release: setup
	$(BIN)/python -m image.release --out dist --site $(SITE)

# Build one Slurm, one Kubernetes and kwok if they are not in the cache, and print the seconds of each.
first-pod: setup
	$(BIN)/python -m lab first-pod

docs: setup
	$(BIN)/python -m docs.generate

# Build the pages. A broken link is an error.
site: setup
	$(BIN)/python -m docs.site

# uv resolves the versions for the lock files. No other target needs it.
UV := 0.13.9

$(BIN)/uv-$(UV): | setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV)
	ln -sf uv $@

locks: $(BIN)/uv-$(UV)
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra certificates --extra tracing pyproject.toml --output-file requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --extra certificates --extra tracing pyproject.toml --group dev --output-file requirements-dev.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --group fuzz --output-file requirements-fuzz.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build
