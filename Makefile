# Every target does its own set-up. `make help` lists them.
SHELL := /bin/bash
PYTHON ?= $(firstword $(shell command -v python3.11 python3.12 python3.13 python3 2>/dev/null))
VENV := .venv
RUN := $(VENV)/bin
UV_VERSION := 0.13.9
READY := $(VENV)/.ready
CONFORMANCE := .build/conformance
CONFORMANCE_READY := $(CONFORMANCE)/.ready

.PHONY: help setup rehearsal test faults fuzz audit conformance conformance-lock check lint types lock pr clean deploy destroy deploy-local destroy-local local-cloud-tools

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

test: setup node_modules/.ready ## Fast tests (under 5 minutes on 2 cores)
	@$(RUN)/pytest -n 2 --dist loadfile -m "not slow"

slow: local-cloud-tools $(CONFORMANCE_READY) ## The slow proofs
	@$(RUN)/pytest -m slow

conformance: setup $(CONFORMANCE_READY) ## The SageMaker SDK, MLflow and Strands against a rehearsal
	@$(RUN)/pytest -m slow tests/conformance

faults: setup ## Play 1,024 rollouts while everything fails that can, and count what is lost
	@$(RUN)/python -m benchmarks.faults
	@$(RUN)/python -m benchmarks.key_rotation

fuzz: setup ## Twenty times as many hostile inputs as the fast tests try
	@$(RUN)/pytest -n 2 tests/fuzz --hypothesis-profile=thorough

audit: setup ## Look up every locked dependency in the advisory database (AUDIT=--strict)
	@$(RUN)/python -m tests.security.audit $(AUDIT)

lint: setup ## Style
	@$(RUN)/ruff check . && $(RUN)/ruff format --check .

types: setup ## Types
	@$(RUN)/pyright

check: lint types ## Style and types

lock: setup ## Refresh the lock file's exports
	@$(RUN)/uv lock --quiet
	@$(RUN)/uv export --quiet --frozen --only-group agent --no-emit-project --no-header -o agent/requirements.txt

pr: check test slow ## All that CI runs

CDK := node_modules/.bin/cdk
CDK_READY := node_modules/.ready
LOCAL_CLOUD := .local-cloud/venv
LOCAL_CLOUD_READY := $(LOCAL_CLOUD)/.ready
ENV ?= dev
CDK_OPTIONS ?=

$(CDK_READY): package.json package-lock.json
	@npm ci --silent --no-audit --no-fund --ignore-scripts
	@touch $@

$(LOCAL_CLOUD_READY): rehearsal/local_cloud/requirements.txt $(READY)
	@$(RUN)/uv venv --quiet --allow-existing -p $(RUN)/python $(LOCAL_CLOUD)
	@$(RUN)/uv pip sync --quiet -p $(LOCAL_CLOUD)/bin/python --require-hashes $<
	@touch $@

$(CONFORMANCE_READY): tests/conformance/requirements.txt $(READY)
	@$(RUN)/uv venv --quiet --allow-existing -p $(RUN)/python $(CONFORMANCE)
	@$(RUN)/uv pip sync --quiet -p $(CONFORMANCE)/bin/python --require-hashes $<
	@touch $@

conformance-lock: setup ## Pin anew what the conformance tests install
	@cd tests/conformance && $(CURDIR)/$(RUN)/uv pip compile --quiet --universal --python-version 3.11 \
		--generate-hashes --no-header -o requirements.txt requirements.in

deploy: setup $(CDK_READY) ## Deploy to AWS: ENV=dev CDK_OPTIONS="-c run_id=run-2"
	@$(CDK) deploy --all -c env=$(ENV) $(CDK_OPTIONS)

destroy: setup $(CDK_READY) ## Remove from AWS all that was deployed: ENV=dev
	@$(CDK) destroy --all -c env=$(ENV) $(CDK_OPTIONS)

local-cloud-tools: setup $(CDK_READY) $(LOCAL_CLOUD_READY) ## Install what the local cloud needs

deploy-local: local-cloud-tools ## Deploy to an account on this machine and train there
	@$(RUN)/python -m rehearsal.local_cloud deploy -- $(CDK_OPTIONS)

destroy-local: local-cloud-tools ## Remove all of it again and show that nothing is left
	@$(RUN)/python -m rehearsal.local_cloud destroy

clean: ## Remove what the targets made
	rm -rf $(VENV) .build runs cdk.out node_modules .local-cloud
