# Every command a developer needs; `make` alone lists them. Works with GNU make 3.81 or newer.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The first that runs and is new enough. A name may be on PATH and fail, as the shims of pyenv do.
PYTHONS ?= python3.13 python3.12 python3.11 python3
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
EXTRAS := .[dev,studio,semantic]
PACKAGES := lockstitch.state lockstitch.tools lockstitch.graph lockstitch.studio
# Two workers, since CI has two cores; a file stays on one worker, since its fixtures build things once.
PYTEST_ARGS ?= -n 2 --dist loadfile

export PIP_DISABLE_PIP_VERSION_CHECK := 1

# `with-uv` and `with-pip` are the two ways of `setup`.
.PHONY: help setup with-uv with-pip demo test check lint fmt show dev drawing build lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-7s %s\n", $$1, $$2 }' Makefile

setup: $(READY) ## make the virtual environment .venv

# Through uv where it is there and reaches its registry, else through pip, which may be set up otherwise.
$(READY): pyproject.toml constraints.txt
	@echo "setting up $(VENV): about a minute, once"
	@if command -v uv >/dev/null 2>&1; then $(MAKE) --no-print-directory with-uv; else false; fi \
	  || $(MAKE) --no-print-directory with-pip
	@touch $(READY)

with-uv:
	@$(BIN)/python -c '$(NEW_ENOUGH)' 2>/dev/null || uv venv --quiet --clear --python '>=3.11,<3.14' $(VENV)
	@uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '$(EXTRAS)' pip

with-pip:
	@$(BIN)/python -c 'import pip; $(NEW_ENOUGH)' 2>/dev/null || { \
	  for python in $(PYTHONS); do \
	    if "$$python" -c 'import ensurepip, venv; $(NEW_ENOUGH)' >/dev/null 2>&1; then \
	      exec "$$python" -m venv --clear $(VENV); \
	    fi; \
	  done; \
	  echo "No Python 3.11 or newer with its venv module was found; tried: $(PYTHONS)." >&2; \
	  echo "Install one (Debian, Ubuntu: python3 and python3-venv), or: make setup PYTHONS=/path/to/python" >&2; \
	  exit 1; }
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '$(EXTRAS)'

demo: $(READY) ## watch a scripted model find and fix a real bug; needs no key
	@$(BIN)/lockstitch demo

test: $(READY) ## run the tests; PYTEST_ARGS="-k name" for some of them
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check: lint test ## all that CI runs

lint: $(READY) ## format, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	MYPYPATH=.types $(BIN)/mypy $(addprefix -p ,$(PACKAGES))
	$(BIN)/lint-imports

fmt: $(READY) ## format the code and sort its imports
	$(BIN)/ruff check --quiet --select I --fix .
	$(BIN)/ruff format .

show: $(READY) ## every figure with its goal; FULL=1 for the stated counts
	$(BIN)/python bench/show.py $(if $(FULL),--full)

# Without --n-jobs-per-worker there is one worker, and a node that waits for another run deadlocks.
dev: $(READY) ## LangGraph's server for Studio, at port 2024
	$(BIN)/langgraph dev --no-browser --no-reload --n-jobs-per-worker 8

drawing: $(READY) ## the graph as Mermaid, as the README shows it
	@$(BIN)/python -m lockstitch.graph.drawing

build: $(READY) ## the wheel, into dist/
	rm -rf build
	$(BIN)/python -m build --wheel

lock: $(READY) ## rewrite constraints.txt with the newest versions that fit
	rm -rf build/lock
	$(BIN)/python -m venv build/lock
	build/lock/bin/python -m pip install --quiet -e '$(EXTRAS)'
	{ grep '^#' constraints.txt; \
	  build/lock/bin/python -m pip freeze --all --exclude-editable --exclude pip; } > build/constraints.txt
	mv build/constraints.txt constraints.txt

clean: ## remove what these commands made, also .venv
	rm -rf $(VENV) build dist lockstitch.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find state tools graph studio tests bench -name __pycache__ -type d -prune -exec rm -rf {} +
