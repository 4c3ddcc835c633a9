# What a contributor runs. `make` lists the targets.
TESTFLAGS ?=

.PHONY: help test lint vulnerabilities bench fmt setup image release reproducible apidiff installable

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

# A program with the race detector sleeps a second at its end, unless it is told not to.
test: export GORACE ?= atexit_sleep_ms=0
# Compilers and tests spend a tenth less time if they collect garbage less often.
test: export GOGC ?= 400

# All with the race detector and with go vet as a part of the tests: so each package is compiled once. In an empty cache,
# compiling takes a third of the time. Without tables for debuggers, compiling takes a sixth less, and linking a third.
BUILDFLAGS = -race -gcflags=github.com/seed81422ce9/jobs/...=-dwarf=false -ldflags=-w
GOTEST = go test $(BUILDFLAGS) -vet=all $(TESTFLAGS)

# The packages whose tests take longest begin first, or one core would wait for them at the end.
LONGEST = ./backends/pgbroker ./cmd/jobsctl ./backends/redisbroker ./dashboard ./internal/integration ./backends/shardbroker ./workflow ./schedule

test: setup ## check everything: format, vet, all tests under the race detector, on real servers, and those of the modules benchmarks, compat/asynq and examples/backend
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	JOBS_PATIENCE=$${JOBS_PATIENCE:-3} go run $(BUILDFLAGS) ./internal/testenv/with $(GOTEST) -timeout 15m $(LONGEST) ./...
	cd benchmarks && $(GOTEST) ./...
	cd compat/asynq && $(GOTEST) ./...
	cd compat/riverdata/record && go vet -race ./...
	cd examples/backend && GOPROXY=off $(GOTEST) -run 'Broker|Conformance/Enqueue' ./...

# Versions are fixed here, so that a new linter is a commit of its own.
lint: ## look for mistakes that tests do not show; the first run builds the linter
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run --config .ci/golangci.yml ./...

vulnerabilities: ## look for known vulnerabilities in what programs would compile in
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

bench: setup ## measure all backends
	go run ./internal/testenv/with go test -run '^$$' -bench . -benchmem -timeout 60m $(TESTFLAGS) ./...

image: ## build the images jobs-worker and jobsctl, of the worker and of the operator's command; needs Docker
	docker build $(IMAGEFLAGS) -f deploy/Dockerfile --target worker --build-arg VERSION=$$(git describe --tags --always --dirty) -t jobs-worker .
	docker build $(IMAGEFLAGS) -f deploy/Dockerfile --target jobsctl --build-arg VERSION=$$(git describe --tags --always --dirty) -t jobsctl .

release: ## build jobsctl for each platform into dist, with checksums and bills of materials; and the images, where Docker is
	.ci/release
	@if docker info >/dev/null 2>&1; then $(MAKE) image; else echo "there is no Docker: no images"; fi

reproducible: ## build jobsctl twice, in two directories, and compare the bytes
	.ci/release check

apidiff: ## compare the exported API with the last release's
	.ci/apidiff

installable: ## install the module as others will get it, from a tag of a copy of the repository
	.ci/installable

fmt: ## format the code
	gofmt -w .

setup: ## install what the tests need and is missing (INSTALL=no prevents it): redis-server, postgresql, pgbouncer, prometheus, chromium-headless-shell, gcc
	@.ci/setup
