# Works with python3 (3.11 or later) and make. Everything is installed into .venv; a second run finds it there.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/installed
SCENARIO ?= scenarios/slime_group_affinity.yaml

.PHONY: run setup lint test slow bench docs clean

run: setup  ## set up, run the main scenario, say where the picture is
	$(BIN)/windtunnel run $(SCENARIO)

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "windtunnel needs Python 3.11 or later; set PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(STAMP)

lint: setup  ## what the formatter, the linter and the type checker say
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint  ## set up, then all checks and the quick tests
	$(BIN)/python -m pytest -n auto

slow: setup  ## the tests that take minutes
	$(BIN)/python -m pytest -n auto -m slow

bench: setup  ## the numbers of docs/performance.md, measured here
	$(BIN)/python -m benchmarks

docs: setup  ## write docs/reference from the code
	$(BIN)/python docs/generate.py

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
