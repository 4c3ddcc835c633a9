# What a contributor runs. `make` lists the targets.
TESTFLAGS ?=

.PHONY: help test lint vulnerabilities bench fmt setup image release reproducible apidiff

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

test: setup ## check everything: format, vet, all tests under the race detector, on real servers, and those of the modules benchmarks, compat/asynq and examples/backend
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	JOBS_PATIENCE=$${JOBS_PATIENCE:-3} go run ./internal/testenv/with go test -race -timeout 15m $(TESTFLAGS) ./...
	$(MAKE) -C benchmarks test TESTFLAGS='$(TESTFLAGS)'
	cd compat/asynq && go vet ./... && go test $(TESTFLAGS) ./...
	cd compat/riverdata/record && go vet ./...
	cd examples/backend && GOPROXY=off go vet ./... && GOPROXY=off go test $(TESTFLAGS) -run 'Broker|Conformance/Enqueue' ./...

# Versions are fixed here, so that a new linter is a commit of its own.
lint: ## look for mistakes that tests do not show; the first run builds the linter
	go run github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0 run --config .ci/golangci.yml ./...

vulnerabilities: ## look for known vulnerabilities in what programs would compile in
	go run golang.org/x/vuln/cmd/govulncheck@v1.1.4 ./...

bench: setup ## measure all backends
	go run ./internal/testenv/with go test -run '^$$' -bench . -benchmem -timeout 60m $(TESTFLAGS) ./...

image: ## build the images jobs-worker and jobsctl, of the worker and of the operator's command; needs Docker
	docker build $(IMAGEFLAGS) -f deploy/Dockerfile --target worker --build-arg VERSION=$$(git describe --always --dirty) -t jobs-worker .
	docker build $(IMAGEFLAGS) -f deploy/Dockerfile --target jobsctl --build-arg VERSION=$$(git describe --always --dirty) -t jobsctl .

release: ## build jobsctl for each platform into dist, with checksums and bills of materials; and the images, where Docker is
	.ci/release
	@if docker info >/dev/null 2>&1; then $(MAKE) image; else echo "there is no Docker: no images"; fi

reproducible: ## build jobsctl twice, in two directories, and compare the bytes
	.ci/release check

apidiff: ## compare the exported API with the last release's
	.ci/apidiff

fmt: ## format the code
	gofmt -w .

setup: ## install what the tests need and is missing (INSTALL=no refuses): redis-server, postgresql, pgbouncer, prometheus, chromium, gcc
	@.ci/setup
