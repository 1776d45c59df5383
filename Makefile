# The commands of the project. `make` alone lists them; the work itself is in scripts/.
SHELL := bash
.DEFAULT_GOAL := help
.PHONY: demo serve test docs lint lock bench bench-peers bench-growth bench-guard bench-figures fuzz clean help

demo: ## Set up what is missing, then see all of it on one machine in under two minutes (ARGS="--no-spark")
	@scripts/setup run
	@.venv/bin/eventhub demo $(ARGS)

serve: ## Set up what is missing, then keep a hub with demo data running at http://127.0.0.1:8080/ until Ctrl-C
	@scripts/setup run
	@.venv/bin/eventhub demo serve $(ARGS)

test: ## Set up what is missing, then run lint and all tests (ARGS="-k name" narrows pytest)
	@scripts/setup test
	@scripts/check
	@scripts/tests $(ARGS)

fuzz: ## Fuzz and simulate for a quarter of an hour or so, with other examples each time (TIMES=200 for longer)
	@scripts/setup test
	@EVENTHUB_FUZZ_TIMES=$(or $(TIMES),50) .venv/bin/python -m pytest tests/fuzz --timeout 0 $(ARGS)
	@.venv/bin/eventhub torture simulate --seeds 20000 --seed $$(date +%s)

docs: ## Build the documentation site into build/docs, with its reference made from the code
	@scripts/setup test
	@NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict
	@echo "Open build/docs/index.html"

lint: ## ruff, mypy strict and the layer contracts, without the tests
	@scripts/setup test
	@scripts/check

lock: ## Resolve the dependencies anew and write the lock files
	@scripts/lock

bench: ## Measure both engines (ARGS="--json" and others go to `eventhub bench`)
	@scripts/setup test
	@.venv/bin/eventhub bench $(ARGS)

bench-peers: ## Measure queues, webhooks and Spark beside their peers, for hours (benchmarks/README.md; ARGS="--engine sqlite --rounds 1" narrows)
	@scripts/setup test
	@benchmarks/setup
	@.venv/bin/python -m benchmarks.compare $(ARGS)
	@.venv/bin/python -m benchmarks.figures

bench-growth: ## Measure what an event costs with more of everything, for an hour (ARGS="--only keys --engine sqlite" narrows)
	@scripts/setup test
	@.venv/bin/python -m benchmarks.growth $(ARGS)
	@.venv/bin/python -m benchmarks.figures

bench-guard: ## Record how near Event Hub comes to the bare driver, which tests hold against every change (ARGS="--dry-run")
	@scripts/setup test
	@.venv/bin/python -m benchmarks.guard $(ARGS)

bench-figures: ## Fill the tables of the documentation from benchmarks/results
	@scripts/setup test
	@.venv/bin/python -m benchmarks.figures $(ARGS)

clean: ## Remove the environment and everything that was built
	rm -rf .venv .venv-peers {benchmarks,tests/openapi}/node/node_modules build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find src tests scripts -type d -name __pycache__ -prune -exec rm -rf {} +

help: ## List these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
