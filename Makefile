# What a contributor runs. `make` lists the targets.
TESTFLAGS ?=

.PHONY: help test bench fmt servers

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

test: servers ## check everything: format, vet, all tests under the race detector, on real servers
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	go vet ./...
	go run ./internal/testenv/with go test -race -timeout 15m $(TESTFLAGS) ./...

bench: servers ## measure all backends
	go run ./internal/testenv/with go test -run '^$$' -bench . -benchmem -timeout 60m $(TESTFLAGS) ./...

fmt: ## format the code
	gofmt -w .

servers: ## install the test servers (redis-server, postgresql, pgbouncer) where they are missing
	@scripts/install-servers
