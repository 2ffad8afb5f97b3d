# Each target bootstraps .venv by itself: git, make and Python >= 3.11 are all a machine needs.
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The first interpreter that is new enough; `make PYTHON=/path/to/python test` chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

.PHONY: help bench test lint site wheel detector-table clean
help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "mlxcache needs Python 3.11 or newer and found none on PATH;" \
	  "install one or name it: make PYTHON=/path/to/python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dashboard]' --group dev
	@touch $@

bench: $(READY) ## measure the current commit: at most two minutes once everything is installed
	$(BIN)/mlxcache bench HEAD^! --rounds 2

test: $(READY) ## run the tests
	$(BIN)/python -m pytest

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

wheel: $(READY) ## build the wheel into dist/
	rm -rf dist
	$(BIN)/python -m build --wheel --outdir dist

detector-table: $(READY) ## remake docs/detector.md and .json (six minutes)
	PYTHONPATH=. $(BIN)/python tools/detector_table.py

clean: ## remove what make made (results/ stays)
	rm -rf $(VENV) .asv site dist
