# `make eval` and `make test` are all the set-up there is; each makes its own environment if it isn't there.
#   PYTHON=python3.12   the interpreter that environments are made with
#   PYTEST="-k score"   more arguments for pytest

PYTHON ?= python3
PYTEST ?=

EVAL := .venv/bin
TEST := .venv-test/bin
MADE_OF := setup.cfg pyproject.toml constraints.txt
SOURCES := $(wildcard yanami_dataset yanami_metric tests benchmarks docs examples loading_scripts)
SCRIPTS := $(shell grep -ls '__main__' benchmarks/*.py)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
MAKEFLAGS += --no-print-directory

.PHONY: eval test test-slow test-all quality style bench example clean help

help:
	@echo 'make eval      the three baselines on the mini bench, judged, scored, with a report'
	@echo 'make test      quality and all tests but the slow ones'
	@echo 'make test-slow the slow tests alone'
	@echo 'make test-all  quality and all tests'
	@echo 'make quality   ruff, mypy, import-linter'
	@echo 'make style     formats the code and mends what ruff can'
	@echo 'make bench     runs the benchmarks'
	@echo 'make example   renders examples/report.html and the pictures of it anew'
	@echo 'make clean     removes caches and build products; environments and runs stay'

eval: .venv/.made
	@$(EVAL)/yanami eval

test: quality .venv-test/.browser
	@$(TEST)/python -m pytest -q -m 'not slow' $(PYTEST)

test-slow: .venv-test/.browser
	@$(TEST)/python -m pytest -q -m slow $(PYTEST)

test-all: quality .venv-test/.browser
	@$(TEST)/python -m pytest -q $(PYTEST)

quality: .venv-test/.made
	@$(TEST)/ruff check --quiet $(SOURCES)
	@$(TEST)/ruff format --quiet --check $(SOURCES) || { echo 'not formatted; make style mends it:'; \
	  $(TEST)/ruff format --check $(SOURCES); exit 1; }
	@$(TEST)/mypy
	@found=$$($(TEST)/lint-imports --no-logo) || { echo "$$found"; exit 1; }

style: .venv-test/.made
	@$(TEST)/ruff format $(SOURCES)
	@$(TEST)/ruff check --fix $(SOURCES)

bench: .venv-test/.made
	@set -e; for script in $(SCRIPTS); do echo "== $$script"; $(TEST)/python $$script; done

example: .venv-test/.browser
	@rm -rf build/example
	@$(TEST)/yanami eval --model baseline:copy-last --history gt,self --limit 8 --out build/example --quiet
	@$(TEST)/yanami report build/example --inline --quiet
	@cp build/example/report.html examples/report.html
	@$(TEST)/python docs/pictures.py

clean:
	@rm -rf build dist *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .import_linter_cache
	@find $(SOURCES) -name __pycache__ -prune -exec rm -rf {} +

.venv/.made: $(MADE_OF)
	@$(call environment,.venv,.)

.venv-test/.made: $(MADE_OF)
	@$(call environment,.venv-test,.[dev])

# $(1) a folder, $(2) what pip installs into it; the stamp is written last, so an interrupted installation starts over
define environment
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "yanami needs Python 3.11 or later, got %d.%d; use make PYTHON=..." % sys.version_info[:2])'
echo 'installing into $(1), which takes a minute the first time'
$(1)/bin/python -m pip --version > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(1)
$(1)/bin/python -m pip install --quiet -c constraints.txt -e '$(2)'
touch $(1)/.made
endef

# Debian's Chromium where it is or can be had, Playwright's own elsewhere
.venv-test/.browser: .venv-test/.made
	@[ -x /usr/bin/chromium ] || { \
	  command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ] && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -qq -y chromium > /dev/null; \
	} || $(TEST)/playwright install chromium
	@touch $@
