# Everything that a developer or CI runs. Tools come from tools/install into .bin/, nothing is installed globally.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)

# Test binaries find grpcurl and envoy here too.
export PATH := $(CURDIR)/.bin:$(PATH)

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Build rlsd and serve the rules in examples/
	@cat examples/try.txt
	.bin/rlsd serve --config examples/

.PHONY: build
build: ## Build .bin/rlsd
	go build -ldflags "-X main.version=$(VERSION)" -o .bin/rlsd ./cmd/rlsd

.PHONY: gen
gen: ## Generate gen/ from proto/
	@tools/install buf protoc-gen-go protoc-gen-go-grpc
	@mkdir -p gen
	.bin/buf build --as-file-descriptor-set -o gen/descriptors.binpb
	@find gen -name '*.pb.go' -delete
	.bin/buf generate

.PHONY: check
check: fmt-check lint gen-check vet tidy-check ## Everything but the tests: format, linters, fresh gen/, vet, go.mod

.PHONY: fmt
fmt: ## Format Go and proto files
	@tools/install golangci-lint buf
	.bin/golangci-lint fmt
	.bin/buf format -w

.PHONY: fmt-check
fmt-check:
	@tools/install golangci-lint buf
	.bin/golangci-lint fmt --diff
	.bin/buf format --diff --exit-code

.PHONY: lint
lint: ## Run the linters on Go and proto files
	@tools/install golangci-lint buf
	.bin/golangci-lint run
	.bin/buf lint

.PHONY: gen-check
gen-check: gen
	@git --no-pager diff --exit-code -- gen || { echo "gen/ is stale: run make gen and commit it" >&2; exit 1; }
	@new=$$(git ls-files --others --exclude-standard -- gen); \
	if [[ -n $$new ]]; then echo "not committed in gen/:" $$new >&2; exit 1; fi

.PHONY: vet
vet:
	go vet ./...

.PHONY: tidy-check
tidy-check:
	go mod tidy -diff
	go -C tools mod tidy -diff

.PHONY: test
test: test-unit test-differential test-mutants e2e ## Run all tests; those whose Redis or Envoy is missing are skipped, or fail if CI=true
	@tools/install redis envoy grpcurl || echo "The tests that need what is missing were skipped."

.PHONY: test-unit
test-unit: test-tools ## Run the unit and store tests with the race detector
	@tools/timed "unit and store tests" go test -race -count=1 $$(go list ./... | grep -v /e2e)

.PHONY: test-differential
test-differential: test-tools ## Compare Go, Lua and exact arithmetic on many steps, without the race detector
	@RLSD_STEPS=100000 tools/timed "differential tests" go test -count=1 -run Twins ./internal/store/redis

.PHONY: test-mutants
test-mutants: test-tools ## Plant every seventh of the faults that make mutants plants
	@RLSD_MUTANTS=7 tools/timed "planted faults" go test -count=1 -timeout 30m -run TestMutants ./internal/algo/mutants

.PHONY: twins
twins: test-tools ## The same on ten million steps of each algorithm, which takes long
	RLSD_STEPS=10000000 go test -count=1 -timeout 60m -run Twins ./internal/store/redis

.PHONY: mutants
mutants: test-tools ## Plant faults in the algorithms, one at a time, and want a test to notice each (half an hour)
	RLSD_MUTANTS=1 go test -count=1 -timeout 90m -v -run TestMutants ./internal/algo/mutants

.PHONY: e2e
e2e: test-tools ## Run the end-to-end tests: a real Envoy, grpcurl, rlsd as a process
	@tools/timed "end-to-end tests" go test -count=1 ./e2e/...

.PHONY: test-tools
test-tools:
	@tools/install redis envoy grpcurl || [[ $${CI:-} != true ]]

.PHONY: bench
bench: build ## Benchmark the algorithms and the embedded store, then CPU per decision against a bare server
	go test -run '^$$' -bench . -benchmem ./internal/algo/... ./internal/store/memory/...
	tools/bench

.PHONY: clean
clean: ## Remove .bin/ and .cache/
	rm -rf .bin .cache
