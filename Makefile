# `make demo` and `make test` set everything up by themselves; Python >= 3.11 is all they need.
PY := .venv/bin/python
# R is compared with where it is installed (DPSTATS_REQUIRE_R=1 makes its absence a failure)
TEST_EXTRAS := test$(if $(shell which R 2>/dev/null),$(shell echo ,r))

.PHONY: demo test test-fast mutants lint docs bench bench-full clean

demo:
	@tools/setup.sh arrow,plot
	@$(PY) examples/diamonds.py

# two workers share two cores: a thread of OpenBLAS for each of both waits for the other's
test test-fast mutants: export OPENBLAS_NUM_THREADS ?= 1

test:
	@tools/setup.sh $(TEST_EXTRAS)
	$(PY) -m pytest -n 2 --dist worksteal -q

# without the tests that are marked slow: one to two minutes on two cores, once kernels are compiled
test-fast:
	@tools/setup.sh $(TEST_EXTRAS)
	$(PY) -m pytest -n 2 --dist worksteal -q -m "not slow"

# mistakes that the tests must catch; some of them: make mutants MUTANTS="ols-exact-count gdp-curve"
mutants:
	@tools/setup.sh test
	$(PY) tests/mutants/run.py $(MUTANTS)

# BENCH="--data DIR --publish": with the data that are not shipped; results into benchmarks/results and docs/
bench:
	@tools/setup.sh bench
	$(PY) benchmarks/run.py $(BENCH)

bench-full:
	@tools/setup.sh bench
	$(PY) benchmarks/run.py --full $(BENCH)

# the site, into build/site; a warning is an error
docs:
	@tools/setup.sh test,docs
	$(PY) docs/site/build.py

lint:
	@tools/setup.sh test
	$(PY) -m ruff check dpstats tests benchmarks examples vignettes docs tools noxfile.py
	$(PY) -m ruff format --check dpstats tests benchmarks examples vignettes docs tools noxfile.py
	$(PY) -m mypy
	$(PY) tools/check_r.py

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
