# Everything a checkout needs beyond Python 3.10+, Rust and make is put in .venv by the targets below.
# All paths are relative, so the checkout may lie in a folder whose name has spaces.

PYTHON ?= python3
UV     ?= uv

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-builtin-rules

BIN := .venv/bin
# The same interpreter for every build of the extension, so that cargo does not rebuild it.
export PYO3_PYTHON := $(CURDIR)/.venv/bin/python
# As maturin sets it.
export PYO3_BUILD_EXTENSION_MODULE := 1
CARGO_TEST := cargo test --workspace --locked
# Files in order: by their numbers of tests, those of few and long ones would come last.
IN_PARALLEL := -n auto --dist loadfile --no-loadscope-reorder

# Their processes are many already, and some measure time: one after the other.
WITH_TORCH := .venv-torch/bin/python -m pytest tests/pytorch

RUST_SOURCES := $(shell find crates -name target -prune -o \( -name '*.rs' -o -name Cargo.toml \) -print) Cargo.toml Cargo.lock $(wildcard data/workloads/*.csv data/llm/models.csv data/llm/constants/*.json)
ifeq ($(and $(wildcard python/antiphon/_core*.so),$(wildcard python/antiphon/_core.pyi)),)
MISSING_EXTENSION := missing-extension
endif

.PHONY: help demo compiled test test-all fuzz mutants bench peers tables oracle torch lint lint-rust lint-python docs build site sdist wheel lock clean browser tools missing-extension

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: build ## compare every AllReduce on an 8x8 mesh; table here, report in out/demo.html
	@mkdir -p out
	$(BIN)/antiphon compare mesh:8x8 --bytes 64MiB --system tto --report out/demo.html

# Both count lines into one file; the second says whether they are enough.
test: compiled lint sdist torch ## lint, Rust tests, Python tests that reach 95 % of the package (what .ci/run does)
	$(CARGO_TEST)
	$(BIN)/python -m pytest $(IN_PARALLEL) --ignore tests/pytorch --cov --cov-report= --cov-fail-under=0
	$(WITH_TORCH) --cov --cov-append --cov-report=

test-all: compiled lint sdist torch ## test, with the longer sweeps
	ANTIPHON_SWEEPS=1 $(CARGO_TEST) -- --include-ignored
	PROPTEST_CASES=6400 $(CARGO_TEST) --test suite -- algorithms::random rails::any_orders
	PROPTEST_CASES=2560 cargo test -p antiphon-plan -p antiphon-sim --locked --lib -- configure:: tests::
	$(BIN)/python -m pytest $(IN_PARALLEL) --ignore tests/pytorch -m "slow or not slow" -o faulthandler_timeout=3600
	$(WITH_TORCH) -m "slow or not slow" -o faulthandler_timeout=3600

FUZZ_SECONDS ?= 3600

fuzz: ## random input and random schedules, each target for FUZZ_SECONDS (an hour)
	ANTIPHON_FUZZ_SECONDS=$(FUZZ_SECONDS) $(CARGO_TEST) --test suite -- fuzz:: proven:: --nocapture

mutants: ## change the proofs in every small way and see whether a test notices (needs cargo-mutants; hours)
	@cargo mutants --version >/dev/null 2>&1 || { echo "cargo-mutants is missing: cargo install --locked cargo-mutants"; exit 1; }
	cargo mutants -p antiphon-proof --cargo-arg=--release -o out -- --lib

bench: build ## time the core (cargo bench) and whatever benches/ holds
	cargo bench --workspace --features antiphon-plan/bench,antiphon-jobs/bench --locked
	@for script in benches/*.py; do \
	    if [ -f "$$script" ]; then echo "$$script"; $(BIN)/python "$$script" || exit 1; fi; \
	done

peers: build torch ## measure other programs that do the same work beside ours, and write docs/evidence/performance.md
	@test -d .venv-peers || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --target .venv-peers highspy==1.16.0
	PYTHONPATH=.venv-peers $(BIN)/python benches/peers.py --write $(PEERS)

tables: build .venv/requirements-dev.stamp ## write again what follows from declared parameters, and the tables of pages
	$(BIN)/python scripts/parameter_tables.py
	$(BIN)/python scripts/fidelity_table.py
	$(BIN)/python scripts/optimal_table.py
	$(BIN)/python scripts/library_table.py
	$(BIN)/python scripts/expect_table.py
	$(BIN)/python scripts/licences.py

oracle: ## compare data/scalesim with SCALE-Sim itself (installs it apart: about 550 MB)
	@test -x .venv-scalesim/bin/python || $(PYTHON) -m venv .venv-scalesim
	.venv-scalesim/bin/python -m pip install --quiet --disable-pip-version-check -r scripts/scalesim-requirements.txt
	.venv-scalesim/bin/python -W ignore scripts/scalesim_cycles.py data/scalesim/cycles.csv
	git diff --exit-code --stat data/scalesim/cycles.csv

# In two lanes, since most of these use one core.
lint: tools build .venv/requirements-dev.stamp ## formatting, clippy, ruff, mypy, pyright, type stubs, directions of imports
	cargo fmt --all --check
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	@$(MAKE) --no-print-directory lint-rust & lane=$$!; \
	    $(MAKE) --no-print-directory lint-python; python=$$?; wait $$lane && exit $$python

lint-rust:
	cargo clippy --workspace --all-targets --all-features --locked -- -D warnings
	$(BIN)/python -m mypy.stubtest antiphon._core

lint-python:
	$(BIN)/python -m mypy
	$(BIN)/basedpyright --warnings
	$(BIN)/lint-imports --no-logo

docs: build .venv/requirements-dev.stamp ## build the Rust documentation; run every snippet of the Markdown pages
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	$(BIN)/python -m pytest tests/test_docs.py

site: build .venv/requirements-dev.stamp ## build the documentation site, out/site/index.html; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open out/site/index.html"

build: .venv/extension.stamp ## .venv with the extension in it

# What was built and installed in .venv, in an environment that has PyTorch.
torch: build .venv-torch/requirements.stamp
	@cp -R .venv/lib/python3.*/site-packages/antiphon*.dist-info .venv/lib/python3.*/site-packages/antiphon*.pth \
	    .venv-torch/lib/python3.*/site-packages/

sdist: .venv/requirements-dev.stamp ## build a wheel from the source distribution alone, and use it
	scripts/check-sdist

wheel: .venv/requirements.stamp ## a wheel for this machine, in dist/
	$(BIN)/python -m maturin build --profile dist --locked --out dist

LOCK := $(UV) pip compile --universal --python-version 3.10 --generate-hashes --no-strip-extras --no-emit-index-url \
    --custom-compile-command "make lock" --quiet

# Extras are kept: without them pip before 23.3 looks for another version of what is pinned.
lock: ## remake requirements*.txt from their .in and pyproject.toml (needs uv)
	@command -v $(UV) >/dev/null 2>&1 || { echo "make lock needs uv: 'pip install uv', or UV=/path/to/uv"; exit 1; }
	$(LOCK) pyproject.toml requirements.in --output-file requirements.txt
	$(LOCK) pyproject.toml requirements.in requirements-dev.in --extra all --constraint requirements.txt --output-file requirements-dev.txt
	$(LOCK) pyproject.toml requirements-torch.in --extra torch --constraint requirements-dev.txt --output-file requirements-torch.txt

clean: ## remove everything the other targets made
	cargo clean
	rm -rf .venv .venv-peers .venv-scalesim .venv-torch out dist .coverage .coverage.* .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f python/antiphon/_core*.so python/antiphon/_core.pyi
	find $(wildcard python tests benches scripts examples) -name __pycache__ -prune -exec rm -rf {} +

.venv/python.stamp:
	@command -v cargo >/dev/null 2>&1 || { echo "cargo is missing: install Rust (rustup)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
	    || { echo "Antiphon needs Python 3.10 or newer; choose one with 'make PYTHON=python3.12 ...'"; exit 1; }
	@rm -rf .venv
	$(PYTHON) -m venv .venv || { echo "$(PYTHON) cannot make virtual environments (Debian: install python3-venv)"; exit 1; }
	@touch $@

# What is imported is compiled then; most of it never is.
INSTALL := -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r
PIP_INSTALL := $(BIN)/python $(INSTALL)

.venv/requirements.stamp: requirements.txt .venv/python.stamp
	$(PIP_INSTALL) requirements.txt
	@touch $@

.venv/requirements-dev.stamp: requirements-dev.txt .venv/requirements.stamp
	$(PIP_INSTALL) requirements-dev.txt
	@touch $@

.venv-torch/requirements.stamp: requirements-torch.txt .venv/python.stamp
	@rm -rf .venv-torch
	$(BIN)/python -m venv .venv-torch
	.venv-torch/bin/python $(INSTALL) requirements-torch.txt
	@# Compiled once, even where Python is told to write no bytecode: it halves the start of each of the tests' processes.
	@PYTHONDONTWRITEBYTECODE= .venv-torch/bin/python -c "import torch.distributed.run, torch.distributed.fsdp, \
	    torch.distributed.tensor.parallel, torch.testing._internal.common_distributed"
	@touch $@

# Cargo compiles while pip, which uses one core, fills .venv.
.venv/extension.stamp: .venv/python.stamp pyproject.toml scripts/stubs.py $(RUST_SOURCES) $(MISSING_EXTENSION)
	@cargo build -p antiphon-py --locked & compiling=$$!; $(MAKE) --no-print-directory .venv/requirements.stamp && wait $$compiling
	PIP_QUIET=1 $(BIN)/python -m maturin develop --locked
	@touch $@

# The same with the Rust tests, what tests need, and a browser.
compiled: tools .venv/python.stamp
	@$(CARGO_TEST) --no-run & compiling=$$!; $(MAKE) --no-print-directory .venv/requirements-dev.stamp browser .venv-torch/requirements.stamp && wait $$compiling
	@$(MAKE) --no-print-directory build

missing-extension:

tools:
	@cargo fmt --version >/dev/null 2>&1 || { echo "cargo fmt is missing: rustup component add rustfmt"; exit 1; }
	@cargo clippy --version >/dev/null 2>&1 || { echo "cargo clippy is missing: rustup component add clippy"; exit 1; }

browser:
	@scripts/ensure-browser
