# On a fresh Linux machine with Python >= 3.10, a C and a C++ compiler, every target makes its own
# virtual environment first.  `make demo` is the place to begin.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Whole files at a time, because many share what they start.  More processes than two processors,
# because many tests wait.
IN_PARALLEL := --numprocesses 4 --dist loadfile
# Compiled once, not in each of a thousand programs that leave no bytecode behind; nor does each
# process of pytest compile all tests, where the variable is set for everything (in containers).
COMPILED := $(BIN)/python -m compileall -q -j 0 gpuconf tests
# What the programs of tests import.  All of the environment's 17,500 files take 75 s of CPU.
SELDOM := /(tests|pip|mypyc?|setuptools|sphinx|docutils|debugpy|fontTools|narwhals|sklearn|tf_keras|tensorboard|lexers|snowballstemmer|distutils|ray/(rllib|data|serve|llm|dashboard|autoscaler))/
# Against the schemas that came with it: nothing is fetched.
SCHEMA := $(BIN)/check-jsonschema --quiet --builtin-schema vendor.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

# What works on Windows; the rest locks files and starts processes in ways that it lacks.
ON_WINDOWS := auto.py errors.py basics session planner profile backends machine/cards \
  machine/schedulers machine/policy.py batching images callbacks commands/explain commands/cli \
  support/failures support/reporting support/command_line.py

.PHONY: help demo test quick nightly card lint wheel pythons dist workflows generated notebooks transcripts pictures site bench matrix legacy slurm clusters containers models estimates batches gpu clean

help:
	@printf "%-18s%s\n" "make demo" "the main job, before and after, on the simulated GPU"
	@printf "%-18s%s\n" "make test" "every test that needs no GPU (TensorFlow on the simulated GPU included)"
	@printf "%-18s%s\n" "make quick" "the tests that start no TensorFlow (under a minute)"
	@printf "%-18s%s\n" "make nightly" "all of them, and studies that make test leaves out; a new TensorFlow for each program"
	@printf "%-18s%s\n" "make mutants" "break gpuconf line by line, and list what no test notices (FOLDERS=\"leases cli\")"
	@printf "%-18s%s\n" "make lint" "ruff, mypy --strict, and the forms of workflows, issue templates and CITATION.cff"
	@printf "%-18s%s\n" "make wheel" "build sdist and wheel, check them as an index does, try the wheel elsewhere"
	@printf "%-18s%s\n" "make pythons" "the wheel in clean Pythons 3.10 to 3.14, those that are found"
	@printf "%-18s%s\n" "make dist" "the same as make wheel, and keep both in dist/ for a release"
	@printf "%-18s%s\n" "make workflows" "the steps of .github/workflows in a fresh clone; SKIP='make (nightly|matrix)' leaves some out"
	@printf "%-18s%s\n" "make generated" "write anew what is made from the code: the reference of profile keys, the JSON Schemas"
	@printf "%-18s%s\n" "make transcripts" "run the pages' marked commands, and write what they print now (minutes)"
	@printf "%-18s%s\n" "make pictures" "draw the pictures of README and docs anew, from what the commands print now (minutes)"
	@printf "%-18s%s\n" "make site" "build the documentation site into build/site; a warning or a broken link fails"
	@printf "%-18s%s\n" "make notebooks" "run the notebooks of docs/notebooks on simulated GPUs, and write what they show now"
	@printf "%-18s%s\n" "make bench" "what import gpuconf.auto and the commands cost"
	@printf "%-18s%s\n" "make matrix" "acceptance on TensorFlow 2.15, PyTorch 2.4 and JAX 0.4.30 to the newest (an hour)"
	@printf "%-18s%s\n" "make legacy" "gpuconf run on TensorFlow 1.8 and 1.15 (needs Python 3.6 and 3.7)"
	@printf "%-18s%s\n" "make slurm" "real Slurm on this machine, with shards of a simulated GPU (needs root)"
	@printf "%-18s%s\n" "make clusters" "64 actors of Ray on 8 simulated GPUs: whether shares hold"
	@printf "%-18s%s\n" "make containers" "leases between real containers and this machine (needs Docker or Podman)"
	@printf "%-18s%s\n" "make models" "22 models trained on the CPU and on the simulated GPU (an hour or so)"
	@printf "%-18s%s\n" "make estimates" "estimated against measured peaks and largest batches (an hour or so)"
	@printf "%-18s%s\n" "make batches" "what batches that survive cost, and images per second (half an hour or so)"
	@printf "%-18s%s\n" "make gpu" "the acceptance on this machine's real GPU"

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "gpuconf needs Python 3.10 or newer; try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	touch $@

$(VENV)/.demo: $(VENV)/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

$(VENV)/.installed: $(VENV)/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[dev]'
	touch $@

$(VENV)/.dev: $(VENV)/.installed
	-$(BIN)/python -m compileall -q -j 0 -x '$(SELDOM)' $(VENV)/lib
	touch $@ $(VENV)/.demo $(VENV)/.docs

$(VENV)/.docs: $(VENV)/.python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

demo: $(VENV)/.demo
	$(BIN)/gpuconf demo
	@echo; echo "now try: $(BIN)/gpuconf plan, or: . $(BIN)/activate"

test: $(VENV)/.dev
	$(COMPILED)
	$(PYTEST) -m 'not gpu and not nightly' $(IN_PARALLEL)

quick: $(VENV)/.dev
	$(COMPILED)
	$(PYTEST) -m 'not gpu and not slow and not nightly' --numprocesses 2 --dist loadfile

# With a new TensorFlow for each program, and more examples of what hypothesis tries.
nightly: $(VENV)/.dev
	$(COMPILED)
	FRESH=1 $(PYTEST) -m 'not gpu' --hypothesis-profile nightly $(IN_PARALLEL)

FOLDERS ?= leases
mutants: $(VENV)/.dev
	$(BIN)/python -m tests.mutants $(FOLDERS)

# The simulated GPU and its kernel bridge, for which no test then waits.
card: $(VENV)/.installed
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m gpuconf.simcard build

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin gpuconf
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 --follow-imports silent \
	  $(addprefix gpuconf/,$(ON_WINDOWS))
	$(SCHEMA)github-workflows .github/workflows/*.yml
	$(SCHEMA)github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml
	$(SCHEMA)github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA)dependabot .github/dependabot.yml
	$(SCHEMA)citation-file-format CITATION.cff

wheel: $(VENV)/.dev
	$(BIN)/python -m tests.packaging.check_wheel

pythons: $(VENV)/.dev
	$(BIN)/python -m tests.packaging.check_pythons

# What a release uploads; RELEASING.md says when.
dist: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m tests.packaging.check_wheel --keep dist

SKIP ?=
workflows: $(VENV)/.dev
	$(BIN)/python -m tests.packaging.run_workflows $(if $(SKIP),--skip '$(SKIP)')

generated: $(VENV)/.dev
	$(BIN)/python docs/generate.py

notebooks: $(VENV)/.dev
	$(BIN)/python docs/run_notebooks.py

transcripts: $(VENV)/.dev
	$(BIN)/python docs/transcripts.py

pictures: $(VENV)/.dev
	$(BIN)/python docs/pictures/draw.py

site: $(VENV)/.docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -q -b html -d build/doctrees docs build/site
	@echo "open build/site/index.html"

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.timing import
	$(BIN)/python -m benchmarks.timing commands

matrix: $(VENV)/.dev
	$(BIN)/python -m tests.acceptance.matrix
	$(BIN)/python -m tests.acceptance.framework_matrix
	$(BIN)/python -m tests.acceptance.xla_matrix

legacy: $(VENV)/.dev
	$(BIN)/python -m tests.acceptance.legacy

slurm: $(VENV)/.dev
	$(BIN)/python -m gpuconf.simcard run --total 8192MiB --used 1024MiB --context 450MiB -- \
	  $(BIN)/python -m tests.acceptance.slurm

clusters: $(VENV)/.dev
	$(BIN)/python -m benchmarks.ray_cluster

containers: $(VENV)/.dev
	$(BIN)/python -m tests.acceptance.containers

models: $(VENV)/.dev
	$(BIN)/python -m benchmarks.training.trained_models

estimates: $(VENV)/.dev
	$(BIN)/python -m benchmarks.estimate peaks
	$(BIN)/python -m benchmarks.estimate batches

batches: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet opencv-python-headless
	$(BIN)/python -m benchmarks.batching
	$(BIN)/python -m benchmarks.streaming

gpu: $(VENV)/.dev
	$(BIN)/python -m pytest -m gpu
	$(BIN)/python -m tests.acceptance --card real --write docs/real-gpu.md
	$(BIN)/python -m benchmarks.estimate_on_gpu --write docs/real-gpu-estimates.md

clean:
	rm -rf $(VENV) .venv-* .frameworks dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
