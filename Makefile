# One-word targets, alike by hand and in CI. `make help` lists them.

PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.installed

CASES  ?= 500
SEED   ?= 1
ARGS   ?=
FORM   ?= bare
PORT   ?=

# What is formatted, linted and type-checked. Parts that are not in the tree are left out.
SOURCES := $(wildcard src tests conformance scripts examples benchmarks)
TYPED   := $(wildcard src/kubesched tests conformance scripts benchmarks)

# The tests that stop a change to one form of a plugin's rule only: see docs/changing-a-rule.md.
LAWS := $(addprefix tests/property/,test_hook_laws.py test_fit_laws.py test_incremental_laws.py \
  test_nominated_rows.py test_pod_keys.py) tests/unit/plugins tests/unit/snapshot tests/unit/explanation

.DEFAULT_GOAL := help
.PHONY: help install pins wheels fmt lint types imports check test laws random-properties playground check-playground conformance fuzz-parity bench bench-short bench-drain schemas control-plane clean-control-plane real-cluster clean

help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z-]+:.*## / { printf "  %-19s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  Variables: PYTHON (an interpreter, 3.11 or newer), ARGS (more arguments for pytest),"
	@echo "  CASES and SEED (fuzz-parity), FORM and PORT (real-cluster)"

install: $(STAMP) ## Create .venv from the hashed pins, with kubesched in it, editable

$(STAMP): requirements/dev.txt pyproject.toml
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "kubesched needs Python 3.11 or newer, and there is no '$(PYTHON)' on the PATH:" \
	       "try make install PYTHON=/path/to/python3"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "kubesched needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1):" \
	       "try make install PYTHON=python3.12"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

pins: ## Resolve requirements/*.in again (needs pip-tools in .venv)
	@$(PY) -c 'import piptools' 2>/dev/null || { \
	  echo "pip-tools is not installed: $(PY) -m pip install pip-tools"; exit 1; }
	PYTHON=$(abspath $(PY)) scripts/pins

wheels: $(STAMP) ## See that all pins have wheels for x86_64 and aarch64, Python 3.11 to 3.14 (downloads them)
	$(PY) scripts/wheels.py $(ARGS)

fmt: $(STAMP) ## Format, and fix what the linter can fix
	$(PY) -m ruff format $(SOURCES)
	$(PY) -m ruff check --fix $(SOURCES)

lint: $(STAMP) ## Check format and lint rules
	$(PY) -m ruff format --check $(SOURCES)
	$(PY) -m ruff check $(SOURCES)

types: $(STAMP) ## Check types, strictly
	$(PY) -m mypy $(TYPED)

imports: $(STAMP) ## Check who imports whom
	PYTHONPATH=src $(VENV)/bin/lint-imports

check: lint types imports ## Format, lint, types and imports

# Tests start hundreds of programs: where nothing that is compiled may be kept, they take twice as long.
test: $(STAMP) ## Run all tests
	env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest -n auto --dist worksteal $(ARGS)

laws: $(STAMP) ## Check that all forms of every plugin's rule agree, at the boundaries (under a minute)
	env -u PYTHONDONTWRITEBYTECODE $(PY) -m pytest -q -n auto --dist worksteal $(LAWS) $(ARGS)

playground: $(STAMP) ## Run a small living cluster until Ctrl-C; more arguments in ARGS (--nodes, --plugin, ...)
	@scripts/playground $(VENV)/bin/kubesched $(ARGS)

check-playground: $(STAMP) ## See that the playground starts, runs a deployment and ends
	@scripts/playground $(VENV)/bin/kubesched --check

random-properties: $(STAMP) ## Run the property tests on random examples; SEED repeats a run
	@scripts/random-properties $(PY) $(if $(filter command line environment,$(origin SEED)),$(SEED))

conformance: $(STAMP) ## Compare with real Kubernetes: decisions, API, kubectl, upstream's specs (needs Go)
	@scripts/conformance $(PY)

control-plane: ## Build real Kubernetes v1.36.4 and its peers into the user's cache (needs Go, 20 minutes)
	@conformance/control-plane/build.sh

clean-control-plane: ## Remove what control-plane built, Go's modules and build cache for it included
	@conformance/control-plane/build.sh --clean

real-cluster: $(STAMP) ## Run a real cluster until Ctrl-C: FORM=bare (an API server) or whole, PORT
	@$(PY) conformance/real_cluster.py $(FORM) $(if $(PORT),--port $(PORT))

fuzz-parity: $(STAMP) ## Compare with the real kube-scheduler on random cases: CASES, SEED
	$(PY) conformance/fuzz_parity.py --cases $(CASES) --seed $(SEED)

bench: $(STAMP) ## Measure decisions a second, in memory; more arguments in ARGS (--short, --compare, ...)
	$(PY) benchmarks/run.py $(ARGS)

bench-short: $(STAMP) ## See that every benchmark's workload still drains; measures nothing
	$(PY) benchmarks/run.py --short
	$(PY) benchmarks/apiserver.py --short

bench-drain: $(STAMP) ## Race kube-scheduler on a real API server; more arguments in ARGS (--short, --write, ...)
	$(PY) benchmarks/drain_race.py $(ARGS)

schemas: $(STAMP) ## Write cluster/apiserver/data again: KUBECONFIG of a running kube-apiserver v1.36.4
	$(PY) conformance/schemas/generate.py --kubeconfig "$(KUBECONFIG)"

clean: ## Remove what the targets made, .venv included
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	rm -rf src/kubesched.egg-info
	find src tests conformance scripts -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
