# Everything runs in .venv, which `setup` fills from requirements.lock. Needs Python 3.11+ and make, no root.
SHELL := /bin/sh
.DEFAULT_GOAL := help

export UV_CACHE_DIR ?= $(CURDIR)/.uv-cache
export UV_SYSTEM_CERTS ?= 1
export UV_PYTHON_DOWNLOADS := never
# The theme prints an advertisement without it.
export NO_MKDOCS_2_WARNING := 1
unexport PYTHONDONTWRITEBYTECODE    # processes that start often would compile everything anew

bin := .venv/bin
uv := .uv/bin/uv
lock_flags := --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" --quiet --no-emit-package ptklib $(if $(UPGRADE),--upgrade)

# Quick tests of the rooms that need no server; `make test` runs them all.
quick := $(wildcard tests/architecture tests/scenarios tests/ptklib tests/ptkstore/domain tests/ptkstore/application)
# Those of the rules and curves that decide what may be spent.
covering := tests/ptkstore/domain tests/scenarios $(wildcard tests/ptklib/test_accounting_*.py) tests/contracts/test_ledger_machine.py
jobs ?= 2
docs_config := infra/docs/mkdocs.yml
soak_report := benchmarks/out/soak.json
topics := ptklib ledger allocator service sage budgeting draw_discard

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z%-]*:.*## / {printf "make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# --- setup ------------------------------------------------------------------------------------------------

# .venv/.stamp holds the directory .venv was made for; a moved or copied tree, or a lost interpreter, is set up anew.
stamp := .venv/.stamp
ifneq ($(shell cat $(stamp) 2>/dev/null && $(bin)/python -c pass 2>/dev/null || echo stale),$(CURDIR))
.PHONY: $(stamp)
endif

.PHONY: setup
setup: $(stamp) ## leave .venv with the locked dependencies
	@$(if $(filter setup,$(MAKECMDGOALS)),echo "setup: done",:)
$(stamp): requirements.lock pyproject.toml infra/uv.txt infra/setup
	@infra/setup

# --- the two commands -------------------------------------------------------------------------------------

.PHONY: demo
demo: setup ## run the main job end to end
	@$(bin)/ptk demo $(DEMO)

.PHONY: test
test: setup ## run all tests but the long ones (TESTS=path, jobs=1 for one process)
	@$(bin)/python -m pytest -n $(jobs) $(TESTS)

.PHONY: test-all
test-all: setup ## run the long tests, too; after `test` in the same call, those alone
	@$(bin)/python -m pytest -n $(jobs) -m "$(if $(filter test,$(MAKECMDGOALS)),long and )not soak" $(TESTS)

# --- while developing -------------------------------------------------------------------------------------

.PHONY: check
check: setup ## lint, types, import rules, docstrings; quick tests, unless `test` runs them in the same call
	@$(bin)/ruff check .
	@$(bin)/ruff format --check --quiet --output-format concise . || { echo "run: make format" >&2; exit 1; }
	@$(bin)/mypy
	@$(bin)/lint-imports --no-logo
ifeq ($(filter test,$(MAKECMDGOALS)),)
	@$(bin)/python -m pytest -n $(jobs) -m "not soak and not long and not real" $(quick)
endif

.PHONY: coverage
coverage: setup ## quick tests of domain and accounting; fails where they cover less than the floor
	@$(bin)/python -m pytest -n $(jobs) --cov --cov-report=term $(covering)

.PHONY: format
format: setup ## sort imports, format
	@$(bin)/ruff check --quiet --select I --fix .
	@$(bin)/ruff format .

.PHONY: soak
soak: setup ## long fault, statistical and fuzz tests; writes benchmarks/out/soak.json
	@$(bin)/python -m pytest -m soak -o timeout=7200 -o faulthandler_timeout=9000 --measurements=$(soak_report) $(TESTS)

.PHONY: bench
bench: setup ## all measurements; bench-<topic> for one of ptklib, ledger, ...; fails where a goal is missed (RECORD=1 records)
	@status=0; for topic in $(topics); do $(MAKE) --no-print-directory bench-$$topic || status=1; done; exit $$status

.PHONY: $(topics:%=bench-%)
$(topics:%=bench-%): bench-%: setup
	@if [ -f benchmarks/$*.py ]; then $(bin)/python benchmarks/$*.py$(if $(RECORD), && $(bin)/python -m benchmarks.record $*); \
	else echo "bench-$*: no measurements yet"; fi

bench-%:
	@echo "bench: there is no topic '$*'; topics are: $(topics)" >&2; exit 2

# Without --quiet, under which MkDocs counts no warning, and a broken link fails nothing.
.PHONY: docs
docs: setup ## build the documentation site into build/site; fails where a link or an anchor leads nowhere
	@said=$$($(bin)/mkdocs build --strict --config-file $(docs_config) 2>&1) || { echo "$$said" >&2; exit 1; }
	@echo "docs: build/site/index.html"

.PHONY: reference
reference: setup ## make the pages of docs/reference/ anew that come from the program
	@$(bin)/python -m infra.docs.reference

.PHONY: pictures
pictures: setup ## draw the drawings of docs/ anew; tests compare them with the script
	@$(bin)/python -m infra.docs.pictures

.PHONY: screenshots
screenshots: setup ## make the screenshots of the console in docs/figures/ anew, from generated data (needs chromium)
	@$(bin)/python -m infra.docs.screenshots >/dev/null
	@echo "screenshots: docs/figures/console*.png"

.PHONY: docs-serve
docs-serve: setup ## show the documentation site at http://127.0.0.1:8000, and changes of pages as they are saved
	@$(bin)/mkdocs serve --config-file $(docs_config)

# mike calls `mkdocs --quiet`, which counts no warnings, so that `docs` comes first.
ALIAS ?= latest
.PHONY: docs-version
docs-version: docs ## add the site as VERSION=1.2 to the branch gh-pages, as `latest`, too (ALIAS=name or empty); pushes nothing
	@test -n "$(VERSION)" || { echo "docs-version: say which, as in make docs-version VERSION=1.2" >&2; exit 2; }
	@said=$$(PATH="$(CURDIR)/$(bin):$$PATH" mike deploy --config-file $(docs_config) --update-aliases "$(VERSION)" $(ALIAS) 2>&1) || { echo "$$said" >&2; exit 1; }
	@$(if $(ALIAS),$(bin)/mike set-default --config-file $(docs_config) $(ALIAS),:)
	@echo "docs-version: $(VERSION) is on the branch gh-pages; git push origin gh-pages"

.PHONY: notebooks
notebooks: setup ## run examples/notebooks; fails where a cell fails or a stored output is stale (NOTEBOOKS="01 04", WRITE=1 stores)
	@$(bin)/python examples/notebooks/execute.py $(NOTEBOOKS) $(if $(WRITE),--write)

.PHONY: release-check
release-check: setup ## build both distributions into dist/ and check what a release needs
	@infra/release-check

.PHONY: lock
lock: setup ## solve the dependencies anew, keeping versions that still fit (UPGRADE=1: newest)
	@$(uv) pip compile infra/uv.in $(lock_flags) --output-file infra/uv.txt
	@$(uv) pip compile pyproject.toml --extra service --extra tracing --group dev $(lock_flags) --output-file requirements.lock
	@$(uv) pip compile pyproject.toml --extra service --extra tracing --group image $(lock_flags) \
		--constraint requirements.lock --output-file infra/image.lock
	@infra/setup

.PHONY: clean
clean: ## remove what setup and the tools made (PTK_HOME and benchmarks/out stay)
	@rm -rf .venv .uv .uv-cache .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	@find ptklib ptkstore workers tests benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +
