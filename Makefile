# The front door. Needs python3 (with venv) and make, nothing else.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.ready

.PHONY: setup demo test test-long chaos fuzz check lint bench lock coverage-table clean

setup: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Tachograph needs Python 3.11 or newer; this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "python3 lacks venv. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@sh scripts/system-packages || echo "continuing without the optional system packages; the tests that need them will skip"
	@touch $(STAMP)

demo: setup
	$(BIN)/tachograph --home .demo demo

test: setup
	$(BIN)/pytest -n 2 -m "not long"

test-long: setup
	$(BIN)/pytest -n 2

chaos: setup
	$(BIN)/python -m tests.chaos --kills 500 --power-cuts 200
	$(BIN)/pytest tests/chaos -m long --timeout 1200

fuzz: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check atheris
	$(BIN)/python -m fuzz --seconds 60

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy .
	$(BIN)/lint-imports

check: lint test

bench: setup
	$(BIN)/python -m benchmarks

lock: setup
	$(BIN)/python -m pip install --quiet --upgrade -e '.[dev]'
	$(BIN)/python -m pip freeze --exclude-editable | grep -iv '^tachograph' > requirements.lock

coverage-table: setup
	$(BIN)/python -m tests.coverage_table

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
