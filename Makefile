# Everything works from a fresh clone: each target first makes sure that the set-up is there and up to date.
SHELL := /bin/sh
GRAFTSMITH := .venv/bin/graftsmith
PYTEST := .venv/bin/python -m pytest
unexport PYTHONDONTWRITEBYTECODE # else each test run and each service that it starts compiles everything anew

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench real weak lock clean

help: ## show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

setup: ## make .venv and install what the sandbox needs (does nothing when done)
	@scripts/setup

demo: setup ## label an issue on the embedded GitHub and watch it become a proven pull request
	@$(GRAFTSMITH) demo

test: setup ## check style, types and layers, then run all tests
	@$(MAKE) --no-print-directory check
	@.venv/bin/python tests/support/fetch_descriptions.py
	@$(PYTEST) -q -n 2 --dist loadgroup

check: setup ## ruff, mypy and the import contracts only
	@.venv/bin/ruff check . && .venv/bin/ruff format --check -q .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-cache

bench: setup ## benchmarks, as ratios in one run
	@.venv/bin/python -m bench.webhook
	@.venv/bin/python -m bench.service
	@.venv/bin/python -m bench.engine
	@.venv/bin/python -m bench.index_speed --together .venv/lib/python3*/site-packages/openai .venv/lib/python3*/site-packages/sqlalchemy
	@.venv/bin/python -m bench.localization --own

real: setup ## three released packages, each with an upstream bug fixed and proven (needs a package registry)
	@.venv/bin/python tests/real/run.py

weak: setup ## ten runs with a real model that is far too weak: each must end well (needs a package registry)
	@.venv/bin/python tests/real/weak.py

lock: ## write requirements.lock anew from pyproject.toml (needs uv)
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --no-strip-extras --upgrade -q -o requirements.lock

clean: ## remove what setup and the tests made
	rm -rf .venv .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
