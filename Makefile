# Fleet RLM: everything a person or a pipeline runs, by name. `make help` lists it.
PYTHON ?= python3
VENV := .venv
UV := .tools/bin/uv
RUN := $(VENV)/bin
export UV_PROJECT_ENVIRONMENT := $(VENV)
export LITELLM_LOCAL_MODEL_COST_MAP := True

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format types imports protos stubs check bench clean

help: ## List the targets.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(UV): bootstrap.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fleet: error: $(PYTHON) must be Python 3.11 or later; set PYTHON=…" >&2; exit 2; }
	$(PYTHON) -m venv --clear .tools
	.tools/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r bootstrap.txt
	@touch $(UV)

$(VENV)/.ready: $(UV) pyproject.toml uv.lock
	$(UV) sync --quiet --frozen --all-extras --dev --python $(PYTHON)
	@touch $(VENV)/.ready

setup: $(VENV)/.ready ## Make the virtual environment from the lock file.

demo: setup ## Answer two questions about real documents, without a key or a service to install.
	$(RUN)/fleet ask --profile local "What does each of these licences say about patents, and how do they differ?" \
	  --attach examples/licenses/Apache-2.0.txt --attach examples/licenses/GPL-3.txt \
	  --attach examples/licenses/LGPL-3.txt --attach examples/licenses/MPL-2.0.txt
	$(RUN)/fleet ask --profile local "Which month was the wettest, and how many days had more than 20 mm?" \
	  --attach examples/tables/seattle-weather.csv

test: setup ## Run every test.
	$(RUN)/python -m pytest

lint: setup ## Check style.
	$(RUN)/ruff check .
	$(RUN)/ruff format --check .

format: setup ## Apply the style.
	$(RUN)/ruff check --fix .
	$(RUN)/ruff format .

types: setup ## Check types.
	$(RUN)/mypy

imports: setup ## Check who imports whom.
	$(RUN)/lint-imports

protos: setup ## Check the contracts: style, and compatibility with main.
	$(RUN)/buf lint
	$(RUN)/buf format --diff --exit-code
	@if git rev-parse --verify --quiet HEAD >/dev/null; then $(RUN)/buf breaking --against '.git#ref=HEAD'; fi

stubs: setup ## Generate the stubs from the contracts.
	PATH="$(CURDIR)/$(RUN):$$PATH" $(RUN)/python protos/generate.py

check: lint types imports protos ## Everything but the tests.

bench: setup ## Measure against peers; the first run downloads the Deno peer's parts.
	$(UV) sync --quiet --frozen --all-extras --dev --group bench --python $(PYTHON)
	PATH="$(CURDIR)/$(RUN):$$PATH" $(RUN)/python -m bench --results bench/results.md

clean: ## Remove what the targets above made.
	rm -rf $(VENV) .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis
