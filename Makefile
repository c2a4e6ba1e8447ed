# `make help` lists everything. `run` and `test` share one build: exactly the same flags, so nothing is built twice.

SWIFT ?= swift
# SwiftPM hands a package's traits to the compiler in the order of a hash table, which is another one in each run, and
# then builds Hummingbird anew: with one order for all runs it does not.
BUILD := SWIFT_DETERMINISTIC_HASHING=1 $(SWIFT) build
FLAGS := --configuration debug
# A folder of its own: a release build and a debug build do not wait for each other.
RELEASE := --configuration release --static-swift-stdlib --scratch-path .build-release
OPTIONS ?=
SOURCES := Package.swift Sources Tests

.DEFAULT_GOAL := help
.PHONY: help dependencies python-tools build run test release bench soak fuzz wire-messages cluster cluster-down format lint clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What only tests need, from PyPI, into a folder of its own.
python-tools: dependencies
	@scripts/install-python-tools.sh

dependencies: ## Install the Debian packages that are missing
	@scripts/install-dependencies.sh

build: dependencies ## Build everything, tests included
	$(BUILD) $(FLAGS) --build-tests

run: dependencies ## Build, and show two peered relays pass a message (OPTIONS=--exit: and end)
	$(BUILD) $(FLAGS) --product relay
	@exec $$($(BUILD) $(FLAGS) --show-bin-path)/relay demo $(OPTIONS)

test: build python-tools ## Run all tests, with real PostgreSQL, Redis, TLS and several processes (OPTIONS=--filter NAME)
	@$(if $(OPTIONS),$(SWIFT) test $(FLAGS) --skip-build $(OPTIONS),SWIFT=$(SWIFT) scripts/run-tests.sh $(FLAGS))

release: dependencies ## Build for production: optimised, with Swift's own libraries inside
	$(BUILD) $(RELEASE) --product relay

bench: release ## Measure a release build against real PostgreSQL and Redis
	$(BUILD) $(RELEASE) --product relay-bench
	@$$($(BUILD) $(RELEASE) --show-bin-path)/relay-bench $(OPTIONS)

soak: build release ## Kill processes, servers and connections under 100,000 messages (MESSAGES=, DEVICES=, SEED=)
	RELAY_TEST_BINARY="$$($(BUILD) $(RELEASE) --show-bin-path)/relay" RELAY_SOAK_MESSAGES=$(or $(MESSAGES),100000) \
	  RELAY_SOAK_DEVICES=$(or $(DEVICES),500) RELAY_SOAK_SEED=$(SEED) $(SWIFT) test $(FLAGS) --skip-build --filter ChaosTests

fuzz: python-tools ## Ask a running relay everything that docs/openapi.yaml allows (URL=http://127.0.0.1:8080)
	@scripts/fuzz-api.sh $(or $(URL),http://127.0.0.1:8080)

wire-messages: ## Generate the protobuf messages anew, after a .proto file has changed
	@scripts/generate-wire-messages.sh

cluster: dependencies ## Start two operators on PostgreSQL and Redis, two relay processes each behind HAProxy
	$(BUILD) $(FLAGS) --product relay
	@RELAY_BINARY=$$($(BUILD) $(FLAGS) --show-bin-path)/relay cluster/up.sh

cluster-down: ## Stop the cluster and remove all of it
	@cluster/down.sh

format: ## Lay the sources out anew
	$(SWIFT) format --in-place --parallel --recursive $(SOURCES)

lint: ## Say what `format` would change, and check the scripts where shellcheck is installed
	$(SWIFT) format lint --strict --parallel --recursive $(SOURCES)
	@if command -v shellcheck >/dev/null; then shellcheck -x cluster/*.sh scripts/*.sh .ci/run; \
	  else echo "shellcheck is not installed: the scripts were not checked"; fi

clean: ## Remove what was built
	rm -rf .build .build-release
