# Everything a developer or CI runs. It needs Python 3.11 or newer; `make test` brings the rest into .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# Of the real agents: empty for the newest, or `older`.
VERSIONS ?=
AGENTS := .agents$(addprefix -,$(VERSIONS))
MANIFEST := tests/agents/$(addsuffix /,$(VERSIONS))package.json
WEB    := .web
MEASURED := .measured
MUTANTS := .mutants
BENCH  := .bench
PEERS  := burr dbos langgraph pydantic-graph

.PHONY: test lint types layers unit coverage mutants test-agents test-cluster test-web demo docs bench bench-cluster bench-peers lock format clean

test: lint layers  ## all that must hold; the types are checked while the tests run, and what is wrong is shown after them
	@$(BIN)/mypy >$(VENV)/types.txt & types=$$!; \
	  $(MAKE) --no-print-directory unit; failed=$$?; \
	  wait $$types || failed=1; cat $(VENV)/types.txt; exit $$failed

$(READY): requirements-dev.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-dev.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	touch $(READY)

lint: $(READY)  ## style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)  ## the direction of imports
	$(BIN)/lint-imports

unit: $(READY)  ## unit and integration tests
	$(BIN)/pytest -n 3 --dist worksteal  # many tests wait for processes: one more than two cores

$(MEASURED)/.ready: $(READY) .ci/measuring.py
	$(PYTHON) -m venv --clear --without-pip $(MEASURED)
	for packages in $(MEASURED)/lib/python3*/site-packages; do \
	  cp .ci/measuring.py $$packages && echo "import measuring" >$$packages/measuring.pth; done
	sed "1s|/$(VENV)/|/$(MEASURED)/|" $(BIN)/awf >$(MEASURED)/bin/awf && chmod +x $(MEASURED)/bin/awf
	ln -s $(CURDIR)/$(BIN)/* $(MEASURED)/bin 2>/dev/null || true  # the other programs; what is there stays
	touch $(MEASURED)/.ready

coverage: $(MEASURED)/.ready  ## which branches of src/pipeline the tests take, in all processes that they start
	rm -f $(MEASURED)/data*
	$(MEASURED)/bin/python -m pytest -n 3 --dist worksteal
	$(BIN)/coverage combine --quiet --data-file=$(MEASURED)/data
	$(BIN)/coverage report --data-file=$(MEASURED)/data

$(MUTANTS)/.ready: $(READY)
	$(PYTHON) -m venv --clear $(MUTANTS)
	$(MUTANTS)/bin/python -m pip install --quiet --upgrade "pip>=25.1"  # the first that knows groups
	$(MUTANTS)/bin/python -m pip install --quiet --group mutants
	for packages in $(MUTANTS)/lib/python3*/site-packages; do \
	  echo "import site; site.addsitedir('$(CURDIR)/$(VENV)/$${packages#$(MUTANTS)/}')" >$$packages/rest.pth; done
	touch $(MUTANTS)/.ready

mutants: $(MUTANTS)/.ready  ## small mistakes in the decisions that must not be wrong: which of them no test sees
	rm -rf mutants
	$(MUTANTS)/bin/mutmut run --max-children 2
	$(MUTANTS)/bin/mutmut results

$(AGENTS)/.ready: pyproject.toml tests/agents/install.py $(MANIFEST)
	$(PYTHON) -m venv $(AGENTS)/venv
	$(AGENTS)/venv/bin/python -m pip install --quiet --upgrade "pip>=25.1"  # the first that knows groups
	$(AGENTS)/venv/bin/python -m pip install --quiet --no-deps --group real-agents
	$(AGENTS)/venv/bin/python tests/agents/install.py $(MANIFEST) $(AGENTS)
	touch $(AGENTS)/.ready

test-agents: $(READY) $(AGENTS)/.ready  ## the real agents against a model on loopback; VERSIONS=older tests older ones; installs about 2.5 GB
	PATH="$(CURDIR)/$(AGENTS)/bin:$$PATH" AWF_AGENT_VERSIONS="$(VERSIONS)" \
	  AWF_REQUIRED_AGENTS="claude codex gemini opencode pi $(if $(VERSIONS),,claude-agent-acp codex-acp pi-acp)" \
	  $(BIN)/pytest -n 2 tests/agents

$(VENV)/.cluster: $(READY)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"  # the first that knows groups
	$(BIN)/python -m pip install --quiet --group cluster
	touch $(VENV)/.cluster

test-cluster: $(VENV)/.cluster  ## the cluster at full size, on a Temporal server of this machine; about fifteen minutes
	AWF_CLUSTER_WORKFLOWS=200 AWF_CLUSTER_RUNS=200 AWF_CLUSTER_ROUNDS=2000 $(BIN)/pytest tests/cluster

bench-cluster: $(VENV)/.cluster  ## runs a second with 1, 2, 4 and 8 workers
	$(BIN)/python bench/cluster.py

$(WEB)/.ready: pyproject.toml tests/web/install.sh
	$(PYTHON) -m venv $(WEB)/venv
	$(WEB)/venv/bin/python -m pip install --quiet --upgrade "pip>=25.1"  # the first that knows groups
	$(WEB)/venv/bin/python -m pip install --quiet --no-deps --upgrade --target $(WEB)/packages --group web-tests
	sh tests/web/install.sh
	touch $(WEB)/.ready

test-web: $(READY) $(WEB)/.ready  ## the dashboard in a real Chromium; installs it where it is missing
	PYTHONPATH="$(CURDIR)/$(WEB)/packages" AWF_REQUIRED_BROWSER=1 $(BIN)/pytest -n 2 tests/web

demo: $(READY)  ## watch a run: a small project with defects, found and repaired
	$(BIN)/awf demo

docs: $(READY)  ## the parts of the documentation that follow from the program
	$(BIN)/python -m docs.generate

bench: $(READY)  ## what is measured; tests run each script in its smallest size
	$(BIN)/python bench/commands.py
	$(BIN)/python bench/validate.py
	$(BIN)/python bench/loop.py
	$(BIN)/python bench/rounds.py
	$(BIN)/python bench/rereview.py
	$(BIN)/python bench/identity.py
	$(BIN)/python bench/ledger.py
	$(BIN)/python bench/views.py
	$(BIN)/python bench/serve.py
	$(BIN)/python bench/shape.py
	$(BIN)/python bench/shape.py --walk
	$(MAKE) bench-peers

$(BENCH)/%/.ready: bench/peers/%.txt
	$(PYTHON) -m venv --clear $(BENCH)/$*
	$(BENCH)/$*/bin/python -m pip install --quiet --no-deps -r $<
	touch $@

bench-peers: $(READY) $(PEERS:%=$(BENCH)/%/.ready)  ## the review loop on other engines; FIGURES=--write keeps the figures
	$(BIN)/python -m bench.peers.run $(FIGURES)

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: $(READY)  ## choose versions anew
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	  --no-emit-find-links --no-annotate --no-header --group dev --output-file requirements-dev.lock pyproject.toml

clean:
	rm -rf $(VENV) .agents .agents-older $(WEB) $(MEASURED) $(MUTANTS) mutants $(BENCH) dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
