# Everything here works from a fresh clone with Python >= 3.11, make and network access to a package index.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PACKAGES := $(VENV)/.packages
READY := $(VENV)/.ready
# pip takes some 45 s longer for a hundred packages.
INSTALL := $(VENV)/bin/uv pip install --quiet --python $(RUN)
# tests/selection.py says what is kept together, and in which order. Tests wait a part of their time, so that three
# workers keep two cores busy.
TEST := $(RUN) -m pytest -n 3 --dist loadgroup --no-loadscope-reorder
GUEST := $(shell find sandboxes/guest/harness.py sandboxes/guest/wasm sandboxes/wasm/build sandboxes/wasm/encode.py -name '*.py' -o -name '*.wat' -o -name '*.wit')
PAGE := runner/results/reports/html/page.css $(wildcard runner/server/http/web/assets/* runner/server/http/web/build/*) hatch_build.py

DOCS := .venv-docs

# The tests start some hundred Pythons. Without bytecode each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help docs ready demo test test-all test-pythons test-newest test-vendors test-published check lint bench lock picture catalogue reference clean

help:
	@echo "make demo      score 200 real rows with a Python script inside WebAssembly"
	@echo "make test      run the tests of each commit; how many they leave out is told at their end"
	@echo "make test-all  run all tests"
	@echo "make test-pythons  run those of each commit on each Python from 3.11 on that is installed here"
	@echo "make test-vendors  compare scripts of other tools with these tools' own runners"
	@echo "make check     format and lint (ruff), types (mypy), the tests of each commit"
	@echo "make bench     print the figures of docs/performance.md, beside a baseline"
	@echo "make docs      build the pages as a site, in site/"
	@echo "make clean     remove the virtual environments and the site"

$(PACKAGES): pyproject.toml tests/requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit("evalcell needs Python 3.11 or newer; try: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	@echo "Setting up $(VENV): downloading, and building the sandbox's guest and the page of a server. A minute or so, once."
	@$(PYTHON) -m venv $(VENV)
	@awk '/^[^ #]/ { wanted = /^uv==/ } wanted' tests/requirements.txt > $(VENV)/uv.txt
	@$(RUN) -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.txt
	@$(INSTALL) --require-hashes -r tests/requirements.txt
	@touch $@

# Apart from the packages, so that lint and types are checked beside it.
$(READY): $(PACKAGES) $(GUEST) $(PAGE)
	@$(INSTALL) --no-deps --editable .
	@$(RUN) -c 'from sandboxes.wasm.native_code import compile_guest; compile_guest(print)'
	@touch $@

ready: $(READY)

demo: $(READY)
	@$(VENV)/bin/evalcell run json-similarity templates/json_distance/demo.jsonl

test: $(READY)
	$(TEST) --each-commit

test-all: $(READY)
	$(TEST)

test-pythons: $(READY)
	$(RUN) -m tests.pythons --each-commit

# What depends on the Python that evalcell runs under, on the newest there is. What has changed is tried on the other
# Python: here all take turns.
test-newest: $(READY)
	EVALCELL_TEST_SINCE=HEAD $(RUN) -m tests.pythons --newest --each-commit -n 2 -m "not slow" tests/templates tests/inputs/test_dataset*.py \
		$(foreach n,evaluator functions header mapping normalize rules,tests/*/test_$(n).py) \
		tests/sandboxes/test_harness.py tests/sandboxes/test_promises.py \
		-k "not e2b and not modal and not daytona and not vercel and not deno and not workers and not instance and not -B-"

# Each tool's package, in an environment of its own below .venv-vendors/; there is no network while a script runs.
test-vendors: $(READY)
	$(RUN) -m pytest -n 2 -rs tests/inputs/foreign/vendors/equal_rows.py tests/inputs/foreign/vendors/first_rows.py tests/inputs/foreign/vendors/in_tools.py \
		tests/inputs/foreign/vendors/in_trl.py tests/inputs/foreign/vendors/refusals.py tests/inputs/foreign/vendors/own_columns.py tests/inputs/foreign/vendors/as_published.py tests/inputs/foreign/vendors/as_clients.py tests/inputs/foreign/vendors/as_runners.py

# Those of them that run other projects' published scripts, unchanged.
test-published: $(READY)
	$(RUN) -m pytest -n 2 -rs tests/inputs/foreign/vendors/as_published.py

lint: $(PACKAGES)
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

check: lint test

bench: $(READY)
	$(RUN) -m benchmarks

lock: $(READY)  # after a change of the dependencies
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes --no-emit-index-url \
		--no-emit-package evalcell --custom-compile-command "make lock" --output-file tests/requirements.txt pyproject.toml
	$(VENV)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --output-file docs/requirements.txt docs/requirements.in

picture: $(READY)  # of a run and of the page, for the README; `python -m docs.page_picture FOLDER --all` takes each page
	$(RUN) docs/picture.py docs/run.svg
	$(RUN) -m docs.page_picture docs

catalogue: $(READY)  # after a change of a template: its part of docs/templates.md
	$(RUN) docs/catalogue.py

$(DOCS)/.ready: docs/requirements.txt $(PACKAGES)
	@$(VENV)/bin/uv venv --quiet --clear --python $(RUN) $(DOCS)
	@$(VENV)/bin/uv pip install --quiet --python $(DOCS)/bin/python --require-hashes -r docs/requirements.txt
	@touch $@

docs: $(DOCS)/.ready  # the site, in site/; --quiet would hide warnings from --strict
	@NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo "made site/index.html"

reference: $(READY)  # after a change of a command, an option or a docstring: docs/reference/cli.md, python.md and http.md
	$(RUN) docs/cli_reference.py
	$(RUN) docs/python_reference.py
	$(RUN) docs/http_reference.py

clean:
	rm -rf $(VENV) $(DOCS) site
