# Every target works on a fresh clone: the environment is built when it is missing or older than what describes it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PEERS := .venv-peers
ZOO := .venv-zoo
PUBLISHED := .venv-published
INTEGRATIONS := .venv-integrations
# Frameworks to prove: names of files in benchmarks/frameworks/requirements.
FRAMEWORKS ?= $(basename $(notdir $(wildcard benchmarks/frameworks/requirements/*.txt)))
# Recorded speech for `make published`; a folder of your own needs a subfolder for every speaker.
SPEECH ?= speech
# Published models to try: names in benchmarks/zoo, or all. Empty: a chosen few.
MODELS ?=
# Two test processes with one thread each: threads of two processes on the same cores only wait for each other.
JOBS ?= 2

.PHONY: setup demo test test-browser many check docs package format bench peers zoo published integrations clean
.DELETE_ON_ERROR:

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "leanrnn needs Python 3.11 or newer; name one with make PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing leanrnn and its tools into $(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	$(BIN)/leanrnn demo

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS)

# Pages in Chromium, which has to be installed: on Debian, apt-get install chromium chromium-driver.
test-browser: $(VENV)/.browser
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest tests/browser $(PYTEST_ARGS)

# The documentation as a site in build/site that opens without a network; every link is checked.
docs: $(VENV)/.docs
	$(BIN)/python -m tools.site

# Wheel and source archive in dist/, checked, and the wheel tried in an empty environment.
package: $(VENV)/.package
	$(BIN)/python -m tools.package

# Trainings and sweeps of several processes, some of which are killed; a server of PostgreSQL where it is installed.
many: $(VENV)/.many
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(BIN)/python -m pytest -m many tests/many $(PYTEST_ARGS)

# What some targets need besides, an extra of the project each, installed when it is first asked for.
$(VENV)/.browser $(VENV)/.docs $(VENV)/.package $(VENV)/.many: $(VENV)/.%: $(STAMP)
	@echo "installing the extra '$*' into $(VENV)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[$*]'
	@touch $@

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# One quiet run: nothing else should be running beside it. Each writes its result to results/.
bench: $(STAMP)
	$(BIN)/python -m benchmarks cost step
	$(BIN)/python -m benchmarks cost discover

# The comparison with other tools, in an environment of its own; writes results/peers.json and docs/compared.md.
peers: $(PEERS)/.installed
	OMP_NUM_THREADS=1 $(PEERS)/bin/python -m benchmarks peers

$(PEERS)/.installed: pyproject.toml constraints.txt benchmarks/peers/requirements.txt
	@test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e .
	@$(PEERS)/bin/python -m pip install -qq --disable-pip-version-check --no-deps -c constraints.txt -r benchmarks/peers/requirements.txt
	@touch $@

# Published models, in an environment of their own that gets the packages of the models asked for; `make zoo MODELS=all`
# (some 4 GB) also writes results/reach.json and docs/reach.md.
zoo: $(ZOO)/.installed
	@echo "installing what the models need into $(ZOO)"
	@$(ZOO)/bin/python -m benchmarks reach setup $(MODELS)
	$(ZOO)/bin/python -m benchmarks reach $(MODELS)

# onnx and onnxruntime in versions that fit what the models need.
$(ZOO)/.installed: pyproject.toml constraints.txt benchmarks/zoo/requirements.txt
	@test -x $(ZOO)/bin/python || $(PYTHON) -m venv $(ZOO)
	@echo "installing leanrnn into $(ZOO)"
	@$(ZOO)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -c benchmarks/zoo/requirements.txt -e '.[onnx]'
	@touch $@

# A published model with its real weights made smaller; writes results/published.json and docs/a-published-model.md.
published: $(PUBLISHED)/.installed
	@test -d $(SPEECH) || $(PUBLISHED)/bin/python -m benchmarks published speech $(SPEECH)
	OMP_NUM_THREADS=1 $(PUBLISHED)/bin/python -m benchmarks published train $(SPEECH)

$(PUBLISHED)/.installed: pyproject.toml constraints.txt benchmarks/published/requirements.txt
	@test -x $(PUBLISHED)/bin/python || $(PYTHON) -m venv $(PUBLISHED)
	@$(PUBLISHED)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e .
	@$(PUBLISHED)/bin/python -m pip install -qq --disable-pip-version-check --no-deps -c constraints.txt -r benchmarks/published/requirements.txt
	@touch $@

# Frameworks, each in an environment of its own: tests, then the programs of its page, killed and gone on with. Writes
# results/frameworks.json and the table in docs/frameworks.md.
integrations: $(FRAMEWORKS:%=integrations-%)

integrations-%: $(INTEGRATIONS)/%/.installed
	@test ! -f tests/frameworks/test_$(subst -,_,$*).py || OMP_NUM_THREADS=1 $(INTEGRATIONS)/$*/bin/python -m pytest -p no:cacheprovider tests/frameworks/test_$(subst -,_,$*).py
	$(INTEGRATIONS)/$*/bin/python -m benchmarks frameworks $*

.PRECIOUS: $(INTEGRATIONS)/%/.installed
$(INTEGRATIONS)/%/.installed: benchmarks/frameworks/requirements/%.txt pyproject.toml constraints.txt
	@test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	@echo "installing $* into $(@D)"
	@$(@D)/bin/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[onnx]' -r $< pytest hypothesis
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(ZOO) $(PUBLISHED) $(INTEGRATIONS) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis leanrnn-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
