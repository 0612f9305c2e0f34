# Every target does its own set-up. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3 2>/dev/null))
VENV := .venv
RUN := $(VENV)/bin
UV_VERSION := 0.13.9
READY := $(VENV)/.ready

.PHONY: help setup rehearsal test check lint types lock pr clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

setup: $(READY) ## Create .venv from the lock file

$(READY): uv.lock pyproject.toml
	@test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(RUN)/uv || $(RUN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@VIRTUAL_ENV= UV_PROJECT_ENVIRONMENT=$(VENV) $(RUN)/uv sync --frozen --quiet
	@touch $@

rehearsal: setup ## Rehearse the whole training job on this machine, without AWS
	@$(RUN)/mtrl rehearse

test: setup ## Fast tests (under 5 minutes on 2 cores)
	@$(RUN)/pytest -n 2 --dist loadfile -m "not slow"

slow: setup ## The slow proofs
	@$(RUN)/pytest -m slow

lint: setup ## Style
	@$(RUN)/ruff check . && $(RUN)/ruff format --check .

types: setup ## Types
	@$(RUN)/pyright

check: lint types ## Style and types

lock: setup ## Refresh the lock file's exports
	@$(RUN)/uv lock --quiet
	@$(RUN)/uv export --quiet --frozen --only-group agent --no-emit-project --no-header -o agent/requirements.txt

pr: check test slow ## All that CI runs

clean: ## Remove what the targets made
	rm -rf $(VENV) .build runs cdk.out
