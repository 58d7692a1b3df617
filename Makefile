# Two commands on a fresh machine that has only Python 3.11 or later and make: `make demo` and `make test`.
# They share one environment, .venv; nothing is installed outside this folder. `make help` lists the rest.

PYTHON ?= python3
# the oldest SciPy has no wheels for Python 3.13 and later
OLDEST_PYTHON ?= python3.11
# `make lock LOCK_OPTIONS=--upgrade` moves every pin to its newest version; without it, pins that still fit stay
LOCK_OPTIONS ?=

BIN := .venv/bin
PIP_INSTALL := -m pip install --quiet
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
# hundreds of processes import the same modules: each would compile them anew where that is set
unexport PYTHONDONTWRITEBYTECODE
# glibc keeps the memory of arrays for the next ones; by itself it gives it back, and the kernel then clears it anew
export MALLOC_MMAP_THRESHOLD_ := 1000000000
export MALLOC_TRIM_THRESHOLD_ := 2000000000
export MALLOC_TOP_PAD_ := 67108864

WITH_NUMBA_CACHE = NUMBA_CACHE_DIR="$(CURDIR)/.cache/numba" && export NUMBA_CACHE_DIR &&

.DEFAULT_GOAL := help
ifndef TOGETHER
.NOTPARALLEL:
endif
.PHONY: help demo test lint types docs docs-serve collected unit coverage checked distributions release slow oldest bench experiments format lock clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name what; do printf '%-27s%s\n' "  $$name" "$$what"; done

demo: .venv/.runs ## set up .venv with the library alone, then run `doxa demo` on bundled real data
	@echo "Learning from two tables; the first time, functions are compiled for some tens of seconds ..."
	@$(WITH_NUMBA_CACHE) $(BIN)/doxa demo

# what keeps one core busy goes together; what is printed, target by target
test: lint ## set up .venv, then every check that CI runs
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target TOGETHER=yes distributions docs types collected
	@$(MAKE) --no-print-directory unit

lint: .venv/.ready ## style and format
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

# without searches for garbage, a quarter of its time: 2 GB in place of 1
types: .venv/.ready ## mypy, strict
	$(BIN)/python -c "import gc; gc.disable(); gc.enable = int; from mypy.main import main; main()"

docs: .venv/.ready ## build the documentation site into site/, from an empty folder, and check every link
	rm -rf site
	$(WITH_NUMBA_CACHE) $(BIN)/python -m sphinx -q -W --keep-going -E -c docs/_site -d .cache/site -b html docs site
	$(BIN)/python scripts/check_site.py site

docs-serve: docs ## the same, then show it on http://127.0.0.1:8000
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory site 8000

# what imports compile and how assertions are rewritten is kept: processes that begin together would all do it
collected: .venv/.ready
	$(WITH_NUMBA_CACHE) $(BIN)/python -m pytest --collect-only --quiet > /dev/null || true # `unit` tells what is wrong

unit: .venv/.ready ## tests and doctests
	$(WITH_NUMBA_CACHE) $(BIN)/python -m pytest -n auto --dist loadfile --durations=20

# apart from `unit`: watching every line takes a third of the time again
coverage: .venv/.ready ## the same, and the share of the lines that they run: 90% at the least
	$(WITH_NUMBA_CACHE) $(BIN)/python -m pytest -n auto --dist loadfile --cov

distributions: .venv/.ready ## build the wheel and the source distribution, install and try both in a clean environment
	$(BIN)/python scripts/check_distributions.py

release: coverage checked ## the same with every supported Python that is on this machine
	$(BIN)/python scripts/check_distributions.py --every-python

slow: .venv/.ready ## the long statistical checks
	$(WITH_NUMBA_CACHE) $(BIN)/python -m pytest -m slow -n auto --dist loadfile --durations=10

# machine code of its own: about a third more time than `unit`
checked: .venv/.ready ## tests, with an error where a compiled function uses an index outside its array
	NUMBA_CACHE_DIR="$(CURDIR)/.cache/checked" DOXA_CHECK_INDICES=1 $(BIN)/python -m pytest -n auto --dist loadfile

# without the README's examples: the digits they print belong to the locked versions
oldest: .venv-oldest/.ready ## tests with the oldest supported dependencies (needs Python 3.11)
	$(WITH_NUMBA_CACHE) .venv-oldest/bin/python -m pytest -n auto --dist loadfile --ignore=tests/project/test_readme.py --ignore=tests/report

bench: .venv/.ready ## every script in benchmarks/
	$(WITH_NUMBA_CACHE) export PYTHONPATH=tests && for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

experiments: .venv/.ready ## every script in experiments/: the papers' tables and figures again
	$(WITH_NUMBA_CACHE) for script in experiments/*.py; do echo "== $$script"; $(BIN)/python "$$script" || exit 1; done

format: .venv/.ready ## rewrite the sources in the house format
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

# extras stay in the pins: without them pip takes the newest release of coverage[toml], finds no hash for it, and stops
lock: .venv-lock/.ready ## regenerate the locked requirements from pyproject.toml
	.venv-lock/bin/uv pip compile --quiet pyproject.toml --extra dev --extra docs --universal --python-version 3.11 --generate-hashes --no-strip-extras \
		--no-annotate --custom-compile-command 'make lock' $(LOCK_OPTIONS) --output-file requirements/dev.lock
	.venv-lock/bin/uv pip compile --quiet pyproject.toml requirements/demo.in --universal --python-version 3.11 --generate-hashes --no-strip-extras \
		--constraint requirements/dev.lock --no-annotate --custom-compile-command 'make lock' --output-file requirements/demo.lock
	.venv-lock/bin/uv pip compile --quiet pyproject.toml requirements/oldest.in --resolution lowest-direct --python-version 3.11 \
		--only-binary :all: --no-annotate --custom-compile-command 'make lock' $(LOCK_OPTIONS) --output-file requirements/oldest.txt

clean: ## remove everything that make makes
	rm -rf .venv .venv-oldest .venv-lock .cache .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist site docs/reference
	find src tests scripts benchmarks experiments docs -name __pycache__ -type d -prune -exec rm -rf {} +

# In both environments bytecode is made of what is imported, when it is.  This one has the library and what it needs,
# for the demonstration.
.venv/.runs: pyproject.toml requirements/demo.lock
	@$(call require_python,$(PYTHON),PYTHON)
	@echo "1 of 3: an environment in .venv ..."
	@test -e .venv/.ready || $(PYTHON) -m venv .venv
	@echo "2 of 3: the libraries that doxa calls, some 150 MB to fetch ..."
	@test -e .venv/.ready || $(BIN)/python $(PIP_INSTALL) --no-compile --require-hashes -r requirements/demo.lock
	@echo "3 of 3: doxa itself ..."
	@test -e .venv/.ready || $(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

.venv/.ready: pyproject.toml requirements/dev.lock requirements/networks.txt scripts/fetch_page_assets.py
	@$(call require_python,$(PYTHON),PYTHON)
	@echo "Setting up .venv with the locked dependencies (once; a minute or two) ..."
	@$(PYTHON) -m venv .venv
	@$(BIN)/python $(PIP_INSTALL) --no-compile --require-hashes -r requirements/dev.lock
	@$(BIN)/python $(PIP_INSTALL) --no-compile --require-hashes --no-deps -r requirements/networks.txt
	@$(BIN)/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@$(BIN)/python scripts/fetch_page_assets.py --tests --site --optional
	@touch $@

.venv-oldest/.ready: pyproject.toml requirements/oldest.txt requirements/networks.txt
	@$(call require_python,$(OLDEST_PYTHON),OLDEST_PYTHON)
	@echo "Setting up .venv-oldest with the oldest supported dependencies ..."
	@$(OLDEST_PYTHON) -m venv .venv-oldest
	@.venv-oldest/bin/python $(PIP_INSTALL) --only-binary :all: -r requirements/oldest.txt
	@.venv-oldest/bin/python $(PIP_INSTALL) --require-hashes --no-deps -r requirements/networks.txt
	@.venv-oldest/bin/python $(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

.venv-lock/.ready:
	@$(call require_python,$(PYTHON),PYTHON)
	@$(PYTHON) -m venv .venv-lock
	@.venv-lock/bin/python $(PIP_INSTALL) 'uv>=0.5'
	@touch $@

# $(call require_python,command,variable): stop with a kind message unless the command is Python 3.11 or later.
define require_python
$(1) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	echo "doxa needs Python 3.11 or later, and '$(1)' is $$(command -v $(1) >/dev/null && $(1) --version 2>&1 || echo not there)." >&2; \
	echo "Name another one: make $(MAKECMDGOALS) $(2)=/path/to/python3.11" >&2; exit 1; }
endef
