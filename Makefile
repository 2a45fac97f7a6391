SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VENV := .venv
PY := $(VENV)/bin/python
STAMPS := $(VENV)/.stamps
PIP_INSTALL := $(PY) -m pip install --quiet --quiet --disable-pip-version-check --no-input --no-deps
PYTEST_ARGS ?=
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)
STARTERS := smollm2:135m-instruct-q4_1 all-minilm:l6-v2
STARTER_MANIFESTS := $(foreach name,$(STARTERS),$(subst :,/,$(name)).json)
# Where the models are by default; with another folder in the configuration file, `pull` looks itself.
DATA_HOME := $(or $(XDG_DATA_HOME),$(HOME)/.local/share)
MODELS_DIR := $(or $(APPLIANCE_MODELS),$(DATA_HOME)/appliance/models)
UV_COMPILE := uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-package llama-cpp-python --custom-compile-command 'make lock'

.PHONY: help run install engine models test bench bench-peers check fmt lint types imports doctor wheel lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F '\t' '{printf "  make %-11s %s\n", $$1, $$2}'

run: install ## install what is missing, then open the appliance
	@$(PY) -m appliance

install: engine ## .venv, locked requirements, starter models, compiled and self-tested engine

engine: models
	@$(PY) -m appliance.engine.build

models: $(STAMPS)/package
	@for manifest in $(STARTER_MANIFESTS); do \
	  [ -f "$(MODELS_DIR)/manifests/$$manifest" ] || { $(PY) -m appliance pull $(STARTERS); break; }; \
	done

test: install $(STAMPS)/dev ## every test
	@$(PY) -m pytest $(PYTEST_ARGS)

check: lint types imports ## lint, format, types and layers; changes nothing

lint: $(STAMPS)/dev ## ruff, rules and format
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

types: install $(STAMPS)/dev ## mypy --strict
	@$(PY) -m mypy

imports: $(STAMPS)/dev ## import-linter: layers and owners of libraries
	@$(PY) $(VENV)/bin/lint-imports --no-logo

fmt: $(STAMPS)/dev ## format and fix what can be fixed
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

bench: install ## measure the engine with the starter model
	@$(PY) -m appliance bench engine

bench-peers: install ## compare the engine with llama.cpp's own programs, side by side
	@$(PY) -m benchmarks.peers build
	@$(PY) -m benchmarks.peers run --json peers.json --markdown peers.md --readme peers-readme.md

doctor: install ## check this machine and installation
	@$(PY) -m appliance doctor

wheel: $(STAMPS)/package ## dist/*.whl of the appliance itself
	@$(PY) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

lock: ## resolve requirements/*.txt again (maintainers; needs uv)
	@mkdir -p requirements
	@$(UV_COMPILE) pyproject.toml --group package -o requirements/runtime.txt
	@$(UV_COMPILE) pyproject.toml --group package --group dev -c requirements/runtime.txt -o requirements/dev.txt
	@$(UV_COMPILE) --group engine-build -o appliance/engine/build-requirements.txt

clean: ## remove .venv and caches of tools; models and compiled wheels stay
	@rm -rf $(VENV) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# A stamp is written when its step is done, so an interrupted step runs again.
ifeq ($(wildcard $(PY)),)
.PHONY: $(STAMPS)/venv
endif
$(STAMPS)/venv:
	@python=$$(for name in $(PYTHONS); do \
	  if "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then echo "$$name"; break; fi; \
	done); \
	if [ -z "$$python" ]; then \
	  echo "error: Python 3.11 or newer is needed; found $$(python3 --version 2>&1 || echo none)" >&2; \
	  echo "hint: install it, or name it: make run PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	  echo "creating $(VENV) with $$("$$python" --version)"; \
	  "$$python" -m venv --clear $(VENV) || { rm -rf $(VENV); \
	    echo "hint: the module venv is missing or broken; Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }; \
	fi
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/runtime: requirements/runtime.txt $(STAMPS)/venv
	@echo "installing locked requirements (about a minute)"
	@$(PIP_INSTALL) --require-hashes -r $<
	@touch $@

$(STAMPS)/dev: requirements/dev.txt $(STAMPS)/runtime $(STAMPS)/package
	@echo "installing locked development tools"
	@$(PIP_INSTALL) --require-hashes -r $<
	@touch $@

$(STAMPS)/package: pyproject.toml $(STAMPS)/runtime
	@$(PIP_INSTALL) --no-index --no-build-isolation --editable .
	@touch $@
