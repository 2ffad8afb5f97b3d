# Each target bootstraps .venv by itself: git, make and Python >= 3.11 are all a machine needs.
.DEFAULT_GOAL := help
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
HERE := $(dir $(lastword $(MAKEFILE_LIST)))
# The first interpreter that is new enough, and known before the newest: some releases of MLX have no wheel for that; `make PYTHON=/path/to/python test` chooses another.
PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)

# What the targets of CI work on; `make compare BASE=main`
RESULTS ?= results
RESULTS_BRANCH ?= benchmark-results
RESULTS_COMMIT ?=
BASE ?= main
OUT ?= comparison.json
# A pull request's comparison: ratios within one process and memory, which a hosted runner repeats; seconds it does not.
PR_BENCH ?= ratios|decode\.Relative|prefill\.Relative|footprint
# Minutes after which it ends with a verdict of what it has
BUDGET ?= 20
# More arguments of `mlxcache bench` for `make releases`
BENCH_ARGS ?=
# Where the site is served, for links in feeds and issues; known by itself on GitHub. The environment may name another.
ifeq ($(SITE),)
ifeq ($(GITHUB_SERVER_URL),https://github.com)
SITE := https://$(firstword $(subst /, ,$(GITHUB_REPOSITORY))).github.io/$(lastword $(subst /, ,$(GITHUB_REPOSITORY)))/
endif
endif

.PHONY: help setup workflows results-tree count compare confirm notify rehearse proof-small proof-large proof-counts bench releases test lint site notebook pictures wheel numbers mutants detector-table model-table clean counts
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

# What `make counts` counts of a commit, each with both paths where it has them: a step that is taken again and one that goes on,
# caches beside bare MLX and mlx-lm's, a chunk, the options of reading, a ring's lap, attention, the adapter, the controls.
COUNTED ?= decode\.Decode\.time_step\(.int(32|64)., 128, 1024\)|instructions\.|prefill\.Prefill\.time_chunk\(.*, 128, 128\)|positions\.Positions\.time_read_32_layers\(.*, 1\)|ring\.Lap\.time_lap\(256\)|attend\.Attend\.time_layer\(.*, 1, 8\)|control\.Control\.time_(python|mlx)
counts: $(READY) ## count the instructions of the current commit's steps (COUNTED), where a counter is installed
	$(BIN)/mlxcache bench HEAD^! --count '$(COUNTED)' --results "$(RESULTS)"

# One of each minor release that installs beside Python 3.11 and has what the suite needs.
MLX ?= 0.26.5,0.27.1,0.28.0,0.29.4,0.30.6,0.31.2,0.32.4
releases: $(READY) ## measure the current commit on a list of MLX releases: make MLX=0.30.6,0.32.4 releases
	$(BIN)/mlxcache bench HEAD^! --mlx $(MLX) --rounds 2 --results "$(RESULTS)" \
	  --bench '^(control|decode|prefill|positions|ring|growth|footprint)\.' $(BENCH_ARGS)

test: $(READY) ## run the tests
	$(BIN)/python -m pytest

lint: $(READY) ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

workflows: $(READY) ## zizmor and actionlint
	$(BIN)/zizmor --offline --quiet .github/workflows
	$(BIN)/actionlint -no-color

results-tree: ## the branch of results, or an empty folder, in results-tree/ (RESULTS_COMMIT names a state of it)
	@sh "$(HERE)tools/results_tree.sh" "$(RESULTS_BRANCH)" "$(RESULTS_COMMIT)"

# 1, 3 and 4 are verdicts, which the output has; 2 is "it could not be done".
VERDICTS = { status=$$?; case $$status in 1|3|4) ;; *) exit $$status ;; esac; }

# What a pull request is counted by, on Linux, where two commits take two minutes: the step with both paths.
PR_COUNT ?= ^decode\.(Decode\.)?time_step(\(.int(32|64)., 128, 1024\))?$$
count: $(READY) ## BASE against HEAD, counted in instructions, into OUT: the first answer
	$(BIN)/mlxcache machine --write >/dev/null
	$(BIN)/mlxcache compare "$(BASE)" HEAD --measure --count '$(PR_COUNT)' --results "$(RESULTS)" --format json > "$(OUT)" || $(VERDICTS)

compare: $(READY) ## BASE against HEAD, measured in turn, into OUT; fails only if it could not be done
	$(BIN)/mlxcache machine --write >/dev/null
	$(BIN)/mlxcache compare "$(BASE)" HEAD --measure --bench '$(PR_BENCH)' --budget $(BUDGET) \
	  --results "$(RESULTS)" --format json > "$(OUT)" || $(VERDICTS)

confirm: $(READY) ## measure this machine's candidates in RESULTS again
	$(BIN)/mlxcache machine --write >/dev/null
	$(BIN)/mlxcache regressions --confirm --repo . --results "$(RESULTS)" || $(VERDICTS)

notify: $(READY) ## open, rewrite and close the issues of confirmed regressions in RESULTS
	$(BIN)/mlxcache notify --repo . --results "$(RESULTS)" --page "$(SITE)" --apply

rehearse: $(READY) ## run every workflow's steps in a scratch clone, on each Python that is there (SHORT=1: the short form)
	$(BIN)/python -m tools.rehearse $(if $(SHORT),--short)

proof-small: $(READY) ## plant slowdowns in a clone and see that the chain names them (minutes)
	$(BIN)/python tools/proof.py --size small

proof-large: $(READY) ## the same with 34 of them among 270 quiet commits (an hour or two; goes on in .asv/proof)
	$(BIN)/python tools/proof.py --size large --folder .asv/proof

proof-counts: $(READY) ## twenty slowdowns of one per cent, counted (an hour; goes on in .asv/proof-counts)
	$(BIN)/python tools/proof_counts.py --folder .asv/proof-counts

wheel: $(READY) ## build the wheel into dist/
	rm -rf dist
	$(BIN)/python -m build --wheel --outdir dist

site: $(READY) ## the static site of RESULTS, in site/; asv's own pages of results/ beside it, in site/asv
	-@[ "$(RESULTS)" != results ] || $(BIN)/asv publish
	$(BIN)/mlxcache dashboard --results "$(RESULTS)" --repo . --out site --address "$(SITE)"

notebook: $(READY) ## run the notebooks on results/ and keep their outputs
	cd notebooks && ../$(BIN)/jupyter execute --inplace perf_history.ipynb any_project.ipynb

pictures: site ## remake the screenshots in docs/images (needs Chromium and its driver)
	$(BIN)/python tools/site_pictures.py site docs/images --view 'b=decode.Decode.time_step;head_dim=64,128&x=param&of=context'

numbers: $(READY) ## fill in the numbers of README and docs from results/
	PYTHONPATH=. $(BIN)/python tools/fill_numbers.py

# Other places, a random sample of all lines: make MUTANTS='--sample 60 --seed 7 mlxcache/kv' mutants
MUTANTS ?=
mutants: $(READY) ## change the lines that differ from main wrongly, one at a time, and see that a test notices
	$(BIN)/python -m tools.mutants $(MUTANTS)

detector-table: $(READY) ## remake docs/detector.md and .json (some minutes)
	$(BIN)/python -m tools.detector_table

model-table: $(READY) ## remake docs/models.md: mlx-lm's models that run on the caches (five minutes)
	PYTHONPATH=. $(BIN)/python -m tools.model_table docs/models.md

clean: ## remove what make made (results/ stays)
	rm -rf $(VENV) .asv site dist
