# Every target sets up what it needs. CONTRIBUTING.md says what that is.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Without bytecode every program that a test starts compiles the whole package first.
unexport PYTHONDONTWRITEBYTECODE
STAMP := $(VENV)/.installed-$(shell cat pyproject.toml packaging/kubectl/pyproject.toml requirements-dev.lock | sha256sum | cut -c1-16)

.PHONY: setup lint test test-beside contract e2e prove bench lab lab-build lab-build-node lab-build-controllers lab-build-dra demo first-pod docs site locks clean

setup: $(STAMP)

$(STAMP):
	@echo 'Installing Python packages into $(VENV), once; this takes a minute or more.'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . -e packaging/kubectl
	rm -rf $(VENV)/lib/python3*/site-packages/kubectl_slurm  # a copy that the build makes, and that an edit would not reach
	touch $@

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/hadolint Dockerfile

# Nothing is left to chance: what is drawn is what the last run drew (tests/conftest.py), and sets have one order.
QUICK = PYTHONHASHSEED=0 $(BIN)/python -m pytest -m "not lab and not slow and not browser"
# Stolen, since what is dear lies side by side: a process that has its share of unit tests done takes of the simulations.
test: setup
	$(QUICK) --numprocesses 2 --dist worksteal

# Beside the real parts: what failed is tried once more, by itself, and both results are printed.
test-beside: setup
	rm -rf $(VENV)/quick-tests
	$(QUICK) --numprocesses 2 --dist worksteal -o cache_dir=$(VENV)/quick-tests || \
		{ [ $$? -eq 1 ] && $(QUICK) -o cache_dir=$(VENV)/quick-tests $(AGAIN); }

lab-build: setup
	$(BIN)/python -m lab build

# The parts that only suites with real kubelets need.
lab-build-node: setup
	$(BIN)/python -m lab build node

# The controllers that create gangs; only `make prove` needs them.
lab-build-controllers: setup
	$(BIN)/python -m lab build controllers

# The drivers that give containers their devices and CPUs: only `make prove` needs them.
lab-build-dra: setup
	$(BIN)/python -m lab build dra-example dra-driver-cpu

# The real parts share a noisy machine: what failed is tried once more, by itself, and both results are printed.
# Runs side by side, one for each release, of two processes each: each with clusters of its own, which it shares among
# the files that it takes up; and one process for sites with an older Kubernetes.
# What is chosen of the tests: an expression of names, and one of marks.
OTHERS := not kubelet and not controllers and not proved_kubernetes
REAL = $(BIN)/python -m pytest -k '$(1)' -m "lab and not slow and $(or $(3),$(OTHERS)) and $(2)" -o cache_dir=$(VENV)/real-parts-$@ $(REAL_PARTS)
# Where such tests are: to import all the others takes each process ten seconds.
REAL_PARTS := tests/contract tests/e2e tests/lab tests/manifests
BY_FILE := --numprocesses 2 --dist loadfile --no-loadscope-reorder
LATEST := 26.05
SAID = 2>&1 | sed --unbuffered 's/^/$@: /'
AGAIN := --last-failed --last-failed-no-failures none
# Only what this run itself saw fail, and only where it came to its end (1): of a run that was ended, or that hung, an
# older list of failures would make a success.
TWICE = set -o pipefail; rm -rf $(VENV)/real-parts-$@; \
	($(call REAL,$(1),$(2),$(4)) $(3) || { [ $$? -eq 1 ] && $(call REAL,$(1),$(2),$(4)) $(AGAIN); }) $(SAID)
# None where the lab has one minor alone.
OLDER := $(if $(word 2,$(wildcard lab/kubernetes/*/go.mod)),e2e-older)
# Which release, the report's name, what is run.
PROVED = $(BIN)/python -m pytest -k '$(1)' -m "lab and $(or $(4),$(OTHERS))" -p lab.proof --proof docs/proof/$(2).md -o cache_dir=$(VENV)/proof-$@ $(3)
PROVE = set -o pipefail; $(PROVED) $(SAID)
# What failed is tried once more, by itself; the page has both results.
PROVE_TWICE = set -o pipefail; rm -rf $(VENV)/proof-$@; \
	($(PROVED) $(BY_FILE) || { [ $$? -eq 1 ] && $(PROVED) $(AGAIN); }) $(SAID)

CONTROLLERS := tests/e2e/test_gang_controllers.py tests/e2e/test_coscheduling_controller.py tests/e2e/test_kueue_groups.py
# The minors that nothing but `make prove-kubernetes` builds.
MINORS := $(notdir $(patsubst %/go.mod,%,$(wildcard lab/kubernetes/proved/*/go.mod)))
ON_MINORS := tests/e2e tests/manifests tests/contract/kube

KUBELETS := tests/e2e/test_kubelets.py $(wildcard tests/e2e/test_kubelet_*.py) tests/lab/kubelet tests/contract/kubelet
FENCES := tests/e2e/test_fences.py
MANY_GANGS := tests/e2e/test_many_gangs.py
MATRICES := --ignore $(FENCES) --ignore $(MANY_GANGS) --ignore tests/e2e/test_operators_walk.py tests/contract tests/e2e tests/manifests

.PHONY: prove-kubernetes prove-simulated prove-simulation prove-gangs prove-nodes prove-adversary prove-hostile prove-console pictures prove-fences-latest prove-fences-rest
.PHONY: prove-walk prove-many-gangs e2e-demo e2e-kubelet e2e-latest e2e-rest e2e-older prove-kubelets prove-controllers prove-latest prove-rest

# What Kubernetes' programs spend on freeing memory, a fifth of their CPU, is better spent: memory is plentiful here.
e2e-latest e2e-rest e2e-older: export GOGC := 400

# Two at a time: with more, two cores are too busy for parts that wait for each other by the clock.
e2e: lab-build lab-build-node
	$(MAKE) --no-print-directory --jobs 2 e2e-latest e2e-rest e2e-demo e2e-kubelet $(OLDER)

e2e-latest:
	$(call TWICE,$(LATEST),not older_kubernetes,$(BY_FILE))

e2e-rest:
	$(call TWICE,not $(LATEST),not older_kubernetes,$(BY_FILE))

e2e-older:
	$(call TWICE,,older_kubernetes)

# One process: each release's nodes are up once.
e2e-kubelet:
	$(call TWICE,,lab,,kubelet)

e2e-demo: setup
	set -o pipefail; $(BIN)/slurm-extender demo $(SAID)

# The steps of a new operator and their seconds go into the page; nothing beside them.
prove-walk: lab-build
	set -o pipefail; $(BIN)/python -m pytest -m lab -p lab.proof --proof-part docs/proof/install.md tests/e2e/test_operators_walk.py $(SAID)

# Two hundred gangs, one release after the other: samples of a twentieth of a second leave no room beside them.
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

# Fences race with slurmctld: one release after the other, and nothing beside them. No second try: an overlap counts.
prove-fences-latest:
	$(call PROVE,$(LATEST),fences-$(LATEST),$(FENCES))

prove-fences-rest:
	$(call PROVE,not $(LATEST),fences-24.11,$(FENCES))

# Real processes: nothing beside them, and no second try.
prove-kubelets: lab-build-node lab-build-dra
	$(call PROVE,,kubelets,-o faulthandler_timeout=3600 $(KUBELETS),kubelet)

# Gangs of the real controllers of JobSet, LeaderWorkerSet and others, one release after the other.
prove-controllers: lab-build lab-build-controllers
	$(call PROVE,,controllers,$(CONTROLLERS),controllers)

# Other minors of Kubernetes, some ten minutes of building for each where the cache lacks it: the first Pod, gates, gangs,
# causes, preemption, uninstall, rights, and every component.
prove-kubernetes: lab-build
	$(BIN)/python -m lab build $(MINORS:%=kubernetes-%)
	$(call PROVE_TWICE,,kubernetes,$(ON_MINORS),proved_kubernetes)

# Every crash, every lost answer: what the quick tests leave out. And what they draw once and for all, drawn anew.
prove-simulated: setup
	$(BIN)/python -m pytest -m "slow and not lab" --numprocesses 2
	$(BIN)/python -m pytest -m "not lab and not slow" --hypothesis-profile anew --numprocesses 2 tests/http tests/unit

# What was run already is not run again, as long as it is the same commit; each process takes one seed after the other.
prove-simulation: setup
	$(BIN)/slurm-extender simulate --seeds 0:1000 --pods 10 --days 0.003 --slurm each --faults drawn --jobs 2 --report docs/proof/simulation.md \
		--state $(VENV)/simulation-$(shell git rev-parse --short HEAD).jsonl

prove-gangs: setup
	$(BIN)/slurm-extender simulate --seeds 0:1000 --pods 4 --nodes 5 --days 0.004 --gangs 5 --slurm each --faults drawn --jobs 2 \
		--report docs/proof/gang-seeds.md --state $(VENV)/gangs-$(shell git rev-parse --short HEAD).jsonl

prove-nodes: setup
	$(BIN)/slurm-extender simulate --seeds 0:50 --pods 40 --days 0.042 --slurm each --names each --foreign 6 --faults drawn --jobs 2 \
		--report docs/proof/nodes.md --state $(VENV)/nodes-$(shell git rev-parse --short HEAD).jsonl

# Ten minutes of inputs that are guided by the lines that they reach, and what the quick tests draw, drawn anew.
prove-hostile: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-fuzz.lock
	$(BIN)/python -m tests.fuzz --report docs/proof/hostile.md
	$(BIN)/python -m pytest -m "not lab" --hypothesis-profile anew --numprocesses 2 tests/hostile

# The console in a browser, which is installed for that alone: Debian's package, as root.
prove-console: setup
	command -v chromium || { apt-get update --quiet && apt-get install --yes --quiet --no-install-recommends chromium; }
	$(BIN)/python -m pytest -m browser tests/browser

# New screenshots for the pages.
pictures: setup
	CONSOLE_PICTURES=docs/pictures $(BIN)/python -m pytest -m browser tests/browser -k queue

# Fails where a flood delays another namespace too much, or drains a node that it has no Pod on.
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

# One file for this platform, and a manifest for krew; SITE is the address at which the archive will be served.
SITE := https://example.org/slurm-extender
.PHONY: kubectl-plugin
kubectl-plugin: setup
	$(BIN)/python -m image.plugin --out dist --site $(SITE)

# Everything that a release publishes, into dist/; nothing is pushed.
.PHONY: release
release: setup
	$(BIN)/python -m image.release --out dist --site $(SITE)

# Builds one Slurm, one Kubernetes and kwok where the cache lacks them, and prints the seconds of each.
first-pod: setup
	$(BIN)/python -m lab first-pod

docs: setup
	$(BIN)/python -m docs.generate

# Strict: a link to what is not there is an error.
site: setup
	$(BIN)/python -m docs.site

# The program that resolves; no other target and no lock needs it.
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
