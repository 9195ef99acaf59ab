# Every target sets up what it needs: `make demo` and `make test` work on a fresh machine with Python 3.11 or later.
PYTHON ?= python3
BIN := .venv/bin

# Where `make test-versions` runs the suite: a Python, and how old the releases of everything else are.
VERSIONS := 3.11-oldest 3.12-newest 3.13-newest

# What `make test-interpreted` runs.
INTERPRETED := tests/grow/test_boosting.py::test_every_split_is_the_best \
    tests/grow/test_boosting.py::test_certified_sums_are_those_of_enumeration tests/grow/test_categories.py tests/grow/test_chen.py tests/grow/test_regression.py tests/grow/test_split.py \
    tests/kernels/test_histograms.py tests/kernels/test_scanning.py tests/kernels/test_sorting.py tests/ensemble/test_reachable.py \
    tests/verification/test_ask.py tests/verification/test_boxes.py tests/verification/test_missing.py::TestOneTree \
    tests/verification/test_one_tree.py tests/verification/test_search_faults.py tests/verification/test_single_moves.py \
    tests/attacks/test_local_attacks.py::TestCoordinate::test_same_as_trying_every_value \
    tests/attacks/test_local_attacks.py::TestHeuristic::test_a_category_in_a_single_tree \
    tests/evaluation/test_ceiling.py tests/refinement/test_alternation.py tests/refinement/test_optimal.py \
    tests/threat/test_attack_rules.py::TestMeaning \
    -k "not (scikit_learn or large or threads or fresh_process or paper)"

.PHONY: demo reproduce test test-versions $(VERSIONS:%=test-%) test-interpreted fuzz lint bench-fit bench-paper bench-accuracy bench-treant bench-verify bench-memory bench-startup bench-heuristic bench-norms bench-hardening bench-black-box bench-search-settings bench-attackers bench-targets bench-regression bench-phishing bench-ensembles bench-stream bench-scale bench-dask-peers bench-lost-worker clean

demo: .venv/.user
	$(BIN)/hardwood demo

reproduce: .venv/.user
	$(BIN)/python -m paper

# One process runs the tests of a file, so that what these compile and share is made once.
test: .venv/.dev
	$(BIN)/python -m hardwood.warm --jobs 2
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-versions: $(VERSIONS:%=test-%)

# Each has an environment of its own, and kernels of its own: Numba stores one version's beside the sources.
$(VERSIONS:%=test-%): export NUMBA_CACHE_DIR = $(CURDIR)/.venv-$(@:test-%=%)/kernels
$(VERSIONS:%=test-%): test-%:
	@python=python$(firstword $(subst -, ,$*)); environment=.venv-$*; set -e; \
	if ! $$python --version > /dev/null 2>&1; then echo "$@ is skipped: there is no $$python that runs"; exit 0; fi; \
	test -x $$environment/bin/python || $$python -m venv $$environment; \
	$$environment/bin/python -m pip install --quiet --upgrade pip; \
	$$environment/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager \
	    $(if $(findstring oldest,$*),--constraint tests/oldest.txt) --editable '.[dev]'; \
	echo "$@: $$($$environment/bin/python --version) with the $(lastword $(subst -, ,$*)) releases"; \
	$$environment/bin/python -m hardwood.warm --jobs 2; \
	$$environment/bin/python -m pytest -n 2 --dist loadfile

# The kernels as plain Python: which of their lines tests reach, and every index checked. Few examples, small tables.
test-interpreted: .venv/.dev
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n 2 --cov=hardwood._kernels --cov-report=term $(INTERPRETED)

fuzz: .venv/.dev
	$(BIN)/python -m pytest -n 2 -m hypothesis --hypothesis-profile fuzz

lint: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench-fit bench-paper bench-accuracy bench-treant bench-verify bench-memory bench-startup bench-heuristic bench-norms bench-hardening bench-black-box bench-search-settings bench-attackers bench-targets bench-regression bench-phishing bench-ensembles bench-stream bench-scale bench-dask-peers bench-lost-worker: bench-%: .venv/.bench
	PYTHONPATH=. $(BIN)/python benchmarks/$(subst -,_,$(subst paper,paper_protocol,$*)).py

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/.user: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[all]'
	touch $@

.venv/.dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ .venv/.user

.venv/.bench: pyproject.toml benchmarks/requirements.txt | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[all]' --requirement benchmarks/requirements.txt
	touch $@ .venv/.user

clean:
	rm -rf .coverage .venv .venv-* demo-output reproduction benchmarks/results
	find src tests benchmarks paper -name __pycache__ -prune -exec rm -rf {} +
