# From a fresh clone, with nothing but Python 3.11+ and the package index:
#
#   make demo    run the main example      make demo ARGS="--help"
#   make test    run all tests             make test ARGS="-k join"
#   make quick   run all but the slow tests, in a minute
#   make routes  test the examples, with full route coverage of their graphs
#   make docs    build the site of the documentation, build/site/index.html
#   make bench   run the benchmarks        make lint    style, types and floors
#   make lock    update requirements.lock  make clean   remove generated files
#
# Variables: PYTHON (the interpreter to build the environment with), VENV (where), ARGS (passed on).

VENV  ?= .venv
DEMO  ?= -m examples.audit
BENCH ?= benchmarks/compare.py
ARGS  ?=

comma := ,
PY := $(VENV)/bin/python
# uv takes 5 s of processor time where pip takes 50. It does not read pip's configuration, so pip is the fallback.
# Bytecode is compiled on import: compiling all of litellm's dependencies would take as long as the rest.
PIP := $(PY) -m pip --disable-pip-version-check --quiet install --no-compile
LOCKED = --constraint requirements.lock --editable ".[$(EXTRAS)]"
INSTALL = $(PY) -m uv pip install --quiet --python $(PY) $(LOCKED) || { echo "Installing with pip"; $(PIP) $(LOCKED); }

# A real model needs the provider adapter; the demo with its mock does not.
DEMO_EXTRAS := demo$(if $(findstring --model,$(ARGS)),$(comma)litellm)
# pyright runs on node; if there is none, a package installs it.
NODE := $(if $(shell command -v node 2>/dev/null),,$(comma)node)
# The tests of pages use Chromium, if it is installed.
BROWSER := $(if $(shell command -v chromium 2>/dev/null),$(comma)browser)
TEST_EXTRAS = dev,demo,litellm$(NODE)$(BROWSER)

.DEFAULT_GOAL := help
.PHONY: help demo test quick routes docs bench lint format lock clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile | sed '/^Variables/q'

demo: $(VENV)/.has-demo $(if $(findstring litellm,$(DEMO_EXTRAS)),$(VENV)/.has-litellm)
	@$(PY) $(DEMO) $(ARGS)

# A test that hangs for five minutes dumps the stacks of all threads and fails. (Full searches take longer.)
LIMIT := -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true

# Bytecode is written even if that is disabled: many tests start programs, each of which would recompile graphrt.
test: $(VENV)/.has-test
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -n auto $(LIMIT) $(ARGS)

# For use during development. Three processes, because tests sometimes wait; more gain little, since each imports all tests.
quick: $(VENV)/.has-test
	@PYTHONDONTWRITEBYTECODE= HYPOTHESIS_PROFILE=dev $(PY) -m pytest -q -n 3 -m "not slow" $(LIMIT) $(ARGS)

# Route coverage of the examples. No other tests run their graphs, so these suffice.
ROUTES := --graphrt-cov=examples --graphrt-cov-fail-under=100
routes: $(VENV)/.has-test
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest -q -n auto tests/examples examples $(ROUTES) $(LIMIT) $(ARGS)

# Search and pages are plain files: a browser needs no server and no network. A warning fails the build.
docs: $(VENV)/.has-docs
	@$(PY) -m sphinx --quiet --jobs auto --fail-on-warning -d build/doctrees docs build/site $(ARGS)
	@echo "The site is build/site/index.html"

bench: $(VENV)/.has-test
	@$(PY) $(BENCH) $(ARGS)

lint: $(VENV)/.has-test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m pyright --pythonpath $(PY)
	PYTHONPATH=src $(PY) -m pyright --pythonpath $(PY) --verifytypes graphrt --ignoreexternal
	$(VENV)/bin/lint-imports

format: $(VENV)/.has-test
	$(PY) -m ruff check --fix-only .
	$(PY) -m ruff format .

# One file for all supported interpreters, with markers for their versions. It uses the newest versions.
lock: $(VENV)/.has-python
	@$(PY) -m uv pip compile --quiet --universal --upgrade --python-version 3.11 --all-extras --no-annotate \
	    --custom-compile-command "make lock" --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .venv-* .nox build dist htmlcov .coverage .coverage.* .graphrt_coverage.json .benchmarks
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The environment, with the versions in requirements.lock. Each step writes a stamp, and is repeated when pyproject.toml
# or the lock file has changed.

$(VENV)/.has-python:
	@found=; for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11 python; do \
	    if $$candidate -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
	        found=$$candidate; break; \
	    fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo "graphrt needs Python 3.11 or newer, with its venv module."; \
	    echo "  Found: $$(python3 --version 2>&1 || echo 'no python3')"; \
	    echo "  Fix: install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12"; \
	    exit 1; \
	fi; \
	echo "Creating $(VENV) with $$($$found --version)"; \
	$$found -m venv $(VENV)
	@$(PIP) uv || echo "There is no uv for this machine"
	@touch $@

$(VENV)/.has-demo: EXTRAS = demo
$(VENV)/.has-demo: $(VENV)/.has-python pyproject.toml requirements.lock
	@echo "Installing graphrt into $(VENV)"
	@$(INSTALL)
	@touch $@

$(VENV)/.has-litellm: EXTRAS = demo,litellm
$(VENV)/.has-litellm: $(VENV)/.has-demo pyproject.toml requirements.lock
	@echo "Installing the model provider adapter into $(VENV)"
	@$(INSTALL)
	@touch $@

$(VENV)/.has-docs: EXTRAS = docs
$(VENV)/.has-docs: $(VENV)/.has-python pyproject.toml requirements.lock
	@echo "Installing the documentation tools into $(VENV)"
	@$(INSTALL)
	@touch $@

$(VENV)/.has-test: EXTRAS = $(TEST_EXTRAS)
$(VENV)/.has-test: $(VENV)/.has-python pyproject.toml requirements.lock
	@echo "Installing graphrt and its development tools into $(VENV) (once, a minute or two)"
	@$(INSTALL)
	@# Once, so that the processes of a first run do not each compile the tests.
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest --collect-only -q >/dev/null
	@touch $@ $(VENV)/.has-demo $(VENV)/.has-litellm
