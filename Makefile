# `make help` lists everything. `run` and `test` share one build: exactly the same flags, so nothing is built twice.

SWIFT ?= swift
# SwiftPM hands a package's traits to the compiler in the order of a hash table, which is another one in each run, and
# then builds Hummingbird anew: with one order for all runs it does not.
BUILD := SWIFT_DETERMINISTIC_HASHING=1 $(SWIFT) build
# A first build is what people wait for: each module as a whole and once, nothing for a debugger, and LLVM does not check
# what the compiler hands it. Behind a change `EDIT=1` is quicker: file by file, with all of that, in a folder of its own.
WHOLE := -debug-info-format none -Xswiftc -whole-module-optimization -Xswiftc -num-threads -Xswiftc $$(nproc)
WHOLE += -Xswiftc -no-emit-module-separately-wmo -Xswiftc -Xfrontend -Xswiftc -disable-llvm-verify
FLAGS := --configuration debug $(if $(EDIT),--scratch-path .build-edit,$(WHOLE))
CLANG := CLANG="$$(dirname "$$(realpath "$$(command -v $(SWIFT))")")/clang" CC="$(CURDIR)/scripts/clang.sh"
BUILD_DEBUG := $(if $(EDIT),,$(CLANG)) $(BUILD) $(FLAGS)
# SwiftPM would read all packages once more to tell where its products are.
BUILT := $(if $(EDIT),.build-edit,.build)/debug
# A folder of its own: a release build and a debug build do not wait for each other.
RELEASE := --configuration release --static-swift-stdlib --scratch-path .build-release
# All symbols are bound at the start and the tables read-only from then on; C guards its stack frames, as Swift does.
RELEASE += -Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now -Xlinker -z -Xlinker noexecstack
RELEASE += -Xcc -fstack-protector-strong
# No table of symbols for other programs, packed addresses (glibc 2.36), and of ICU's 34 MB the part that is used.
ICU := .build-release/icu.flags
RELEASE += -Xlinker --no-export-dynamic -Xlinker -z -Xlinker pack-relative-relocs $$(cat $(ICU))
# No function that nothing calls, and no tables for exceptions, which nothing here throws (scripts/no-unwinding.ld).
RELEASE += -Xswiftc -Xfrontend -Xswiftc -function-sections -Xcc -ffunction-sections -Xlinker scripts/no-unwinding.ld
OPTIONS ?=
SOURCES := Package.swift Plugins Sources Tools Tests

.DEFAULT_GOAL := help
.PHONY: help dependencies python-tools build run test release package image package-check bench bench-compare model
.PHONY: soak campaign campaign-check fuzz-api test-threads fuzz-decoders fuzzers wire-messages cluster cluster-down
.PHONY: docs format lint clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# What only tests need, from PyPI, into a folder of its own.
python-tools: dependencies
	@scripts/install-python-tools.sh

dependencies: ## Install the Debian packages that are missing
	@scripts/install-dependencies.sh

build: dependencies ## Build everything, tests included
	$(BUILD_DEBUG) --build-tests

run: dependencies ## Build, and show two peered relays pass a message (OPTIONS=--exit: and end)
	$(BUILD_DEBUG) --product relay
	@exec $(BUILT)/relay demo $(OPTIONS)

test: build python-tools ## Run all tests, with real PostgreSQL, Redis, TLS and several processes (OPTIONS=--filter NAME)
	@$(if $(OPTIONS),$(SWIFT) test $(FLAGS) --skip-build $(OPTIONS),scripts/run-tests.sh $(BUILT))

test-threads: dependencies ## Run the unit and store tests under the thread sanitizer (FILTER=)
	@SWIFT=$(SWIFT) scripts/test-threads.sh $(if $(FILTER),--filter '$(FILTER)')

$(ICU): scripts/small-icu.py
	@scripts/small-icu.py $@

release: dependencies $(ICU) ## Build for production: optimised, with Swift's own libraries inside
	$(BUILD) $(RELEASE) --product relay
	@scripts/check-hardening.sh "$$($(BUILD) $(RELEASE) --show-bin-path)/relay"

package: release ## Make a Debian package of the release build (PACKAGE_REVISION=1)
	@scripts/build-package.sh "$$($(BUILD) $(RELEASE) --show-bin-path)/relay" .build-release/package

image: release ## Make an OCI image of the release build, without a container engine (as root)
	@rm -rf .build-release/image
	@scripts/build-image.sh "$$($(BUILD) $(RELEASE) --show-bin-path)/relay" .build-release/image

package-check: release ## Install, start, upgrade and purge the package in a Debian tree, and run the image (as root)
	@scripts/check-package.sh "$$($(BUILD) $(RELEASE) --show-bin-path)/relay"

bench: release ## Measure a release build against real PostgreSQL and Redis
	$(BUILD) $(RELEASE) --product relay-bench
	@$$($(BUILD) $(RELEASE) --show-bin-path)/relay-bench $(OPTIONS)

bench-compare: release ## Compare with the release build of BASE=REV, in turn (OPTIONS= of relay-bench, ROUNDS=1)
	@test -n "$(BASE)" || { echo "make bench-compare: say BASE=REV"; exit 64; }
	$(BUILD) $(RELEASE) --product relay-bench
	@bin="$$($(BUILD) $(RELEASE) --show-bin-path)"; scripts/bench-compare.py "$(BASE)" --bench "$$bin/relay-bench" \
	  --relay "$$bin/relay" --rounds $(or $(ROUNDS),1) -- $(OPTIONS)

model: dependencies ## Fill the tables and pictures of docs/scale.md; hold measured figures against it (FILE=, OPTIONS=)
	$(BUILD_DEBUG) --product relay-model
	@$(BUILT)/relay-model validate $(or $(FILE),Tools/RelayModel/points.json) $(OPTIONS)
	@$(BUILT)/relay-model plots

soak: build release ## Kill processes, servers and connections under 100,000 messages (MESSAGES=, DEVICES=, SEED=)
	RELAY_TEST_BINARY="$$($(BUILD) $(RELEASE) --show-bin-path)/relay" RELAY_SOAK_MESSAGES=$(or $(MESSAGES),100000) \
	  RELAY_SOAK_DEVICES=$(or $(DEVICES),500) RELAY_SOAK_SEED=$(SEED) $(SWIFT) test $(FLAGS) --skip-build --filter ChaosTests

# Hours, or minutes; ten minutes where neither is said.
CAMPAIGN_MINUTES := $(or $(MINUTES),$(if $(HOURS),$(shell expr $(HOURS) \* 60),10))

campaign: release ## Two operators through generated faults, judged by a model (HOURS= or MINUTES=, SEED=, DEVICES=, LANES=, PAUSE=, REDUCE=, FAULTS=, FOLDER=)
	$(BUILD) $(RELEASE) --product relay-campaign
	@exec $$($(BUILD) $(RELEASE) --show-bin-path)/relay-campaign --minutes $(CAMPAIGN_MINUTES) \
	  $(if $(SEED),--seed $(SEED)) $(if $(DEVICES),--devices $(DEVICES)) $(if $(LANES),--lanes $(LANES)) \
	  $(if $(PAUSE),--pause $(PAUSE)) $(if $(REDUCE),--reduce $(REDUCE)) $(if $(FAULTS),--faults $(FAULTS)) \
	  --folder $(or $(FOLDER),$(CURDIR)/.build/campaign)

campaign-check: build ## Show that the campaign's judge finds each fault that is planted in a debug build
	RELAY_CAMPAIGN_CHECK=1 $(SWIFT) test $(FLAGS) --skip-build --no-parallel --filter ClusterTests.PlantedFaultTests

# The seconds are for each decoder. All that a run finds stays in .build-fuzz, and the next one goes on from there.
fuzz-decoders: fuzzers ## Fuzz every decoder of bytes from outside (SECONDS=10, ONLY=json,yaml, RUNS=, SEED=, KEEP=1, INPUT=)
	@scripts/fuzz-decoders.py .build-fuzz --seconds $(or $(SECONDS),10) $(if $(ONLY),--only $(ONLY)) \
	  $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS)) $(if $(INPUT),--input $(INPUT)) $(if $(KEEP),--keep)

# Beside a debug build: it takes from there what is not fuzzed.
fuzzers: build
	@scripts/build-fuzzer.py $(dir $(BUILT)) .build-fuzz

fuzz-api: python-tools ## Ask a running relay everything that docs/openapi.yaml allows (URL=http://127.0.0.1:8080)
	@scripts/fuzz-api.sh $(or $(URL),http://127.0.0.1:8080)

wire-messages: ## Generate the protobuf messages anew, after a .proto file has changed
	@scripts/generate-wire-messages.sh

cluster: dependencies ## Start two operators on PostgreSQL and Redis, two relay processes each behind HAProxy
	$(BUILD_DEBUG) --product relay
	@RELAY_BINARY=$(CURDIR)/$(BUILT)/relay cluster/up.sh

cluster-down: ## Stop the cluster and remove all of it
	@cluster/down.sh

docs: dependencies ## Build the documentation of the client library, RelayClient, in .build/docs
	@$(CLANG) SWIFT=$(SWIFT) scripts/build-docs.sh $(FLAGS)

format: ## Lay the sources out anew
	$(SWIFT) format --in-place --parallel --recursive $(SOURCES)

lint: ## Say what `format` would change, and check the documents, and the scripts where shellcheck is installed
	$(SWIFT) format lint --strict --parallel --recursive $(SOURCES)
	@if command -v shellcheck >/dev/null; then shellcheck -x cluster/*.sh scripts/*.sh deploy/debian/relay.postrm .ci/run; \
	  else echo "shellcheck is not installed: the scripts were not checked"; fi
	@scripts/lint-docs.py
	@scripts/house-figures.py --check

clean: ## Remove what was built
	rm -rf .build .build-release .build-fuzz .build-threads .build-compare
