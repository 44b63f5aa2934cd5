# Rootport's commands. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MACHINES := examples/machines
JOBS ?= auto
# One more than there are processors: tests on a real node wait most of the time.
CLUSTER_JOBS ?= $(shell echo $$(($$(nproc) + 1)))
SECONDS_EACH ?= 60
PROTOS := $(wildcard kubeletplugin/protocol/*.proto)
STUBS := $(PROTOS:.proto=_pb2.py)

CLUSTER := $(BIN)/python -m tests.support.cluster
COMPILED_TESTS := $(addprefix tests/unit/driver/,allocator explain lint pairs simulation modes)

.PHONY: help venv run test compiled test-compiled test-cluster matrix check fuzz bench cluster cluster-build cluster-down docs format lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(VENV)/.installed $(STUBS) ## make ./.venv with `rootport` and the development tools in it

# Everything comes from the lock file by hash.
$(VENV)/.installed: pyproject.toml requirements-dev.lock
	@$(PYTHON) -c 'import sys; sys.exit("Rootport needs Python 3.11 or newer; this is %d.%d: try make PYTHON=python3.11" % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	@echo "making $(VENV) (once, about a minute)"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

# rootport itself is installed editable and without a build environment of its own, so that no unlocked package is ever
# fetched; that makes the gRPC stubs too (setup.py), so a changed .proto file installs it anew.
$(STUBS) &: $(PROTOS) setup.py $(VENV)/.installed
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STUBS)

run: venv ## allocate the examples on two real machines (and an FPGA server), without a cluster; CDI files go to ./out
	@$(BIN)/rootport simulate --topology $(MACHINES)/aws-p4d.24xlarge.yaml --topology $(MACHINES)/azure-nd-h100-v5.yaml \
	  --topology $(MACHINES)/fpga-server.yaml --gpu-model azure-nd-h100-v5=H100 --nodes 5 \
	  --vfs-per-nic azure-nd-h100-v5-3=2 --nic-speed aws-p4d.24xlarge=100 --nic-speed azure-nd-h100-v5-3=400 \
	  --gpu-policies examples/policies/strategies.yaml --device-policies examples/policies/device-policies.yaml --claims examples --out out

test: check ## format, lint, types, layers, and the tests that need no cluster: minutes
	@$(BIN)/pytest -n $(JOBS) -m "not cluster and not slow"

# As a wheel has it: where build/compiled comes before this folder, Python finds the extension modules first.
compiled: venv
	@rm -rf build
	@ROOTPORT_COMPILE=required $(BIN)/pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir build/compiled .
	@$(BIN)/python -m zipfile -e build/compiled/*.whl build/compiled

test-compiled: compiled ## compile the allocator as for a wheel, and run the tests that depend on it on that (needs a C compiler)
	@ROOTPORT_COMPILE=required $(BIN)/pytest -n $(JOBS) -o pythonpath="build/compiled ." -m "not cluster and not slow" $(COMPILED_TESTS)

test-cluster: cluster-build ## the other tests, most on a real cluster; KUBERNETES=v1.36.3 takes another version
	@$(BIN)/pytest -n $(CLUSTER_JOBS) -m "cluster or slow"

matrix: venv ## see what works on each version of Kubernetes, and make the table of docs/operator/versions.md (as root; long)
	@$(BIN)/python -m tests.matrix

check: venv ## format, lint, types and layers only
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: venv ## let ruff format and fix what it can
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

# A failure names the seed: `make fuzz SEED=...` makes the same inputs again.
fuzz: SEED := $(or $(SEED),$(shell od -An -N4 -tx4 /dev/urandom | tr -d ' '))
fuzz: venv ## give the readers made-up input, SECONDS_EACH seconds each; what fails is kept in tests/fuzz/corpus
	@echo "ROOTPORT_FUZZ_SEED=$(SEED)"
	@ROOTPORT_FUZZ_SECONDS=$(SECONDS_EACH) ROOTPORT_FUZZ_SEED=$(SEED) $(BIN)/pytest -n $(JOBS) -m fuzz

bench: compiled cluster-build ## measure everything: offline tools, plugin, 1,000 nodes, kube-scheduler, explain
	@$(BIN)/python -m tests.bench.bench
	@$(BIN)/python -m tests.bench.plugin_memory_bench
	@KUBERNETES=v1.36.3 $(BIN)/python -m tests.bench.scheduler_bench
	@KUBERNETES=v1.37.2 $(BIN)/python -m tests.bench.scheduler_bench
	@$(BIN)/python -m tests.bench.cluster_bench
	@$(BIN)/python -m tests.bench.install_bench
	@$(BIN)/python -m tests.bench.interface_bench
	@PYTHONPATH=build/compiled:. $(BIN)/python -P -m tests.bench.allocator_bench
	@$(BIN)/python -m tests.bench.allocator_bench --one-node
	@$(BIN)/python -m tests.bench.explain_bench
	@$(BIN)/python -m tests.bench.devices_bench
	@$(BIN)/python -m tests.bench.start_bench
	@$(BIN)/python -m tests.bench.demand_bench
	@$(BIN)/python -m tests.bench.placement_bench

cluster: venv ## start a cluster with one real node and Rootport on it (as root), and leave it running
	@$(CLUSTER) up

cluster-down: venv ## end what `make cluster` started
	@$(CLUSTER) down

cluster-build: venv ## build Kubernetes and the test images into the cache (once, about a quarter of an hour)
	@$(CLUSTER) build

docs: venv ## build the documents as a site into ./site, for a browser: site/index.html
	@$(BIN)/python -m tools.site

lock: venv ## resolve the lock files anew from pyproject.toml (needs pip-tools)
	@PYTHON=$(PYTHON) bash tools/lock.sh

clean: ## remove .venv, ./out, ./site, the gRPC stubs and caches
	rm -rf $(VENV) out site build kubeletplugin/protocol/*_pb2* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
