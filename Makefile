# Two commands to know: `make run` and `make test`. Both install what is missing (Debian, by apt-get).

CARGO  ?= cargo
PORT   ?= 6379
DIR    ?=
ARGS   ?=
ONLY   ?=
QUICK  ?=
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
MODULE ?= $(TARGET)/release/libcrawlspace.so

# Another server for `run` and `test`: make test REDIS_SERVER=/usr/bin/valkey-server
ifdef REDIS_SERVER
export REDIS_SERVER
endif

.DEFAULT_GOAL := help
.PHONY: help build run demo test test-unit test-live lint simulate bench clean

help: ## List what can be done here (this list)
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r target text; do \
	    printf '  %-10s %s\n' "$$target" "$$text"; done

build: ## Build the module (target/release/libcrawlspace.so) and the `crawlspace` tool
	@scripts/need cc libclang
	$(CARGO) build --release --package crawlspace --package crawlspace-client

run: ## Run a Redis server with the module (PORT=6379, DIR= to keep the data, ARGS= for the server, REDIS_SERVER=)
	@scripts/need cc libclang redis-server redis-cli
	@$(CARGO) build --release --package crawlspace
	@exec env PORT='$(PORT)' DIR='$(DIR)' ARGS='$(ARGS)' MODULE='$(MODULE)' scripts/run

demo: ## Crawl a small site twice with wget and see what the second crawl saves; then politely (under a minute)
	@scripts/need cc libclang redis-server redis-cli wget
	@$(CARGO) build --release --package crawlspace
	@$(CARGO) build --package crawlspace-client --bin crawlspace --example demo --example polite
	@CRAWLSPACE_MODULE='$(MODULE)' '$(TARGET)/debug/examples/demo'
	@CRAWLSPACE_MODULE='$(MODULE)' '$(TARGET)/debug/examples/polite'

test: test-unit test-live demo ## Run every test: unit, property, live server, client, documentation (REDIS_SERVER=)
	@echo "make test: everything passed"

# The rules alone: no libclang, no server, about a second.
test-unit:
	@scripts/need cc
	$(CARGO) test --no-fail-fast --package crawlspace --package crawlspace-cdx --no-default-features

test-live:
	@scripts/need cc libclang redis-server redis-cli postgresql openssl wget python3 python3-venv
	$(CARGO) build --release --package crawlspace
	CRAWLSPACE_MODULE='$(MODULE)' $(CARGO) test --no-fail-fast --package crawlspace-client --package redis-tests

lint: ## Formatting, clippy, documentation, licences and advisories of the dependencies
	@scripts/need cc libclang
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --package crawlspace --no-default-features --all-targets -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps
	@scripts/deny

simulate: ## Fetch a million URIs in simulated time with workers that crash, stall and do things twice (SEED=)
	@scripts/need cc libclang redis-server
	$(CARGO) build --release --package crawlspace
	CRAWLSPACE_MODULE='$(MODULE)' $(CARGO) run --release --package redis-tests --bin simulate

bench: ## Measure against plain Redis and write docs/benchmarks.md (ONLY=dedupe, chg or tags, QUICK=1)
	@scripts/need cc libclang redis-server redis-cli
	$(CARGO) build --release --package crawlspace
	MODULE='$(MODULE)' ONLY='$(ONLY)' QUICK='$(QUICK)' $(CARGO) run --release --package redis-tests --bin bench

clean: ## Remove everything that was built
	$(CARGO) clean
