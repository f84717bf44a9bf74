# Two commands to know: `make run` and `make test`. Both install what is missing (Debian, by apt-get).

CARGO  ?= cargo
PORT   ?= 6379
DIR    ?=
ARGS   ?=
ONLY   ?=
QUICK  ?=
SCALE  ?=
TIME   ?=
SEED   ?=
INPUT  ?=
PREFIX ?= /usr/local
DESTDIR ?=
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
MODULE ?= $(TARGET)/release/libcrawlspace.so
TOOL   ?= $(TARGET)/release/crawlspace
SHARE  := $(TARGET)/share
# What random tests found before; `fuzz` and `soak` add to it.
CORPUS := $(abspath redis-tests/corpus)

# Everything that is built around the module. (Other sets of packages have other features of their dependencies, and
# would build those again.)
COMPANION := $(addprefix --package crawlspace-,client retry warc fetch wacz index jobs serve cli)

# The rules, without a server around them.
RULES := --package crawlspace $(addprefix --package crawlspace-,host compact cdx) --no-default-features

# Tests that draw numbers draw the same ones each time. SEED=7 makes it others, SEED=random a fresh one, which is
# printed; `fuzz`, `reshard`, `simulate` and `soak` take a fresh one by themselves.
ifeq ($(or $(SEED),$(if $(filter fuzz reshard simulate soak,$(MAKECMDGOALS)),random)),random)
override SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
$(info SEED=$(SEED))
endif
ifneq ($(SEED),)
export SEED
export PROPTEST_RNG_SEED := $(SEED)
endif

# Another server for `run` and `test`: make test REDIS_SERVER=/usr/bin/valkey-server
ifdef REDIS_SERVER
export REDIS_SERVER
endif

.DEFAULT_GOAL := help
.PHONY: help build install run demo test test-unit test-live test-peers test-servers test-monitoring portable dist test-packages test-dist share put lint simulate reshard bench fuzz soak clean

help: ## List what can be done here (this list)
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r target text; do \
	    printf '  %-13s %s\n' "$$target" "$$text"; done

build: ## Build the module (target/release/libcrawlspace.so), the `crawlspace` tool, and its manual pages and completions
	@scripts/need cc libclang
	$(CARGO) build --release --package crawlspace
	$(CARGO) build --release --package crawlspace-cli
	@$(MAKE) --no-print-directory share

# What the tool says of itself, as files.
share:
	@rm -rf '$(SHARE)' && mkdir -p '$(SHARE)/completions'
	@'$(TOOL)' man --out '$(SHARE)/man'
	@'$(TOOL)' completions bash >'$(SHARE)/completions/crawlspace'
	@'$(TOOL)' completions zsh >'$(SHARE)/completions/_crawlspace'
	@'$(TOOL)' completions fish >'$(SHARE)/completions/crawlspace.fish'

install: build ## Put all of that in place (PREFIX=/usr/local, DESTDIR= for a package)
	@$(MAKE) --no-print-directory put

put: share
	install -D -m 755 '$(TOOL)' '$(DESTDIR)$(PREFIX)/bin/crawlspace'
	install -D -m 755 '$(MODULE)' '$(DESTDIR)$(PREFIX)/lib/redis/modules/libcrawlspace.so'
	install -d '$(DESTDIR)$(PREFIX)/share/man/man1'
	install -m 644 '$(SHARE)/man'/*.1 '$(DESTDIR)$(PREFIX)/share/man/man1'
	install -D -m 644 '$(SHARE)/completions/crawlspace' '$(DESTDIR)$(PREFIX)/share/bash-completion/completions/crawlspace'
	install -D -m 644 '$(SHARE)/completions/_crawlspace' '$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_crawlspace'
	install -D -m 644 '$(SHARE)/completions/crawlspace.fish' '$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/crawlspace.fish'

run: ## Run a Redis server with the module (PORT=6379, DIR= to keep the data, ARGS= for the server, REDIS_SERVER=)
	@scripts/need cc libclang redis-server redis-cli
	@$(CARGO) build --release --package crawlspace
	@exec env PORT='$(PORT)' DIR='$(DIR)' ARGS='$(ARGS)' MODULE='$(MODULE)' scripts/run

demo: ## Crawl a small site twice with wget and see what the second crawl saves; then politely; and serve both crawls over HTTP (under a minute)
	@scripts/need cc libclang redis-server redis-cli wget
	@$(CARGO) build --release --package crawlspace
	@$(CARGO) build $(COMPANION) --package redis-tests --bin crawlspace --example demo --example polite
	@CRAWLSPACE_MODULE='$(MODULE)' '$(TARGET)/debug/examples/demo'
	@CRAWLSPACE_MODULE='$(MODULE)' '$(TARGET)/debug/examples/polite'

test: test-unit test-live demo ## Run every test: unit, property, live server, client, documentation (REDIS_SERVER=, SEED=)
	@echo "make test: everything passed"

# Crates that read records, for tests that damage them: 100 000 files, or the number in CRAWLSPACE_DAMAGES.
DAMAGE := --package crawlspace-warc --package crawlspace-serve --lib -- damage

# The rules alone, and damaged records: no libclang, no server, about twenty seconds.
test-unit:
	@scripts/need cc python3
	@scripts/tests $(RULES)
	@scripts/tests $(DAMAGE)
	@$(CARGO) test --doc $(RULES)

# Imports that may leave another index where it is packed. (The others are about files, memory, the terminal.)
PACKED_IMPORTS := cli=$(shell printf 'indexer::%s::,' crashes equality guards manifests removal revisits servers)indexer::browsertrix::
# Frontiers are packed in these, except where a test says that it writes to plain keys.
PACKED_FRONTIERS := chg=--skip,plain_clients::,--skip,stranded::,--skip,packed::,--skip,packing::

test-live:
	@scripts/need cc libclang redis-server redis-cli postgresql openssl wget python3 python3-venv chromium
	$(CARGO) build --release --package crawlspace
	@CRAWLSPACE_MODULE='$(MODULE)' scripts/tests $(COMPANION) --package redis-tests --packed dedupe=both:: --packed '$(PACKED_FRONTIERS)' --packed '$(PACKED_IMPORTS)'
	@$(CARGO) test --doc $(COMPANION) --package redis-tests

test-peers: ## Programs of others at full size: crawls of 2 000 pages by 8 processes, 10⁶ rows page by page, 1 000 captures of WACZ files (some minutes; `make test` does the same in small; SEED=)
	@scripts/need cc libclang redis-server redis-cli python3 python3-venv
	$(CARGO) build --release --package crawlspace
	@CRAWLSPACE_MODULE='$(MODULE)' CRAWLSPACE_PEERS=full scripts/tests $(COMPANION) --package redis-tests -- peers::

# What `dist` links programs with, so that they run with any C library.
PORTABLE := $(TARGET)/portable
# The module as it is released.
portable:
	@scripts/need cc libclang binutils
	@scripts/need libunwind
	@scripts/portable '$(PORTABLE)'
	$(CARGO) rustc --release --package crawlspace --lib -- -L native='$(PORTABLE)'

# SUITE/PACKAGE of Debian: Redis 7.0, 8.0 and 8.6, Valkey 8.0, 8.1 and 9.1, Redict 7.3; and Redis 7.0 with musl, once with
# memory as the module needs it, and once without, where it must say so in place of loading.
SERVERS ?= bookworm/redis-server trixie/redis-server experimental/redis-server \
    bookworm-backports/valkey-server trixie/valkey-server sid/valkey-server sid/redict musl/redis-server unaligned/redis-server
test-servers: portable ## The live tests of the module on each server that Debian's suites have, and a table of them (SERVERS=sid/valkey-server …)
	@scripts/need musl-gcc redis-server redis-cli openssl wget python3 python3-venv
	@failed=; table=; export CRAWLSPACE_MODULE='$(MODULE)'; for server in $(SERVERS); do \
	    REDIS_SERVER=$$(FOLDER='$(TARGET)/servers' scripts/server $${server%/*} $${server#*/}) || \
	        { failed="$$failed $$server"; table="$$table$$server: cannot be had here\n"; continue; }; \
	    export REDIS_SERVER; version=$$($$REDIS_SERVER --version | sed -E 's/ server v=([^ ]*).*/ \1/'); echo "== $$server: $$version"; \
	    if [ $${server%/*} = unaligned ]; then \
	        verdict=$$(timeout 60 $$REDIS_SERVER --port 0 --unixsocket '$(TARGET)/servers/unaligned.sock' --loadmodule '$(MODULE)' | \
	            grep -o 'crawlspace did not load: .*' || echo 'FAILED: the module says nothing against it'); \
	    else \
	        scripts/tests $(COMPANION) --package redis-tests --only redis-tests | tee '$(TARGET)/server.log'; \
	        verdict=$$(grep -E 'tests passed in|^FAILED' '$(TARGET)/server.log' | sed -E 's/ in [0-9]+ runs.*//; s/ \(output.*//' | paste -sd' '); \
	    fi; \
	    table="$$table$$server: $$version: $$verdict\n"; case "$$verdict" in *FAILED* | '') failed="$$failed $$server";; esac; \
	done; printf "\n$$table"; \
	if [ -n "$$failed" ]; then echo "make test-servers: failures with$$failed"; exit 1; fi

dist: portable ## Make what is released in dist/: Debian packages, images of containers, the two programs alone, what they are made of
	@scripts/need debhelper python3
	$(CARGO) rustc --release --package crawlspace-cli --bin crawlspace -- -L native='$(PORTABLE)'
	@server=$$(FOLDER='$(TARGET)/servers' scripts/server trixie redis-server) && \
	    MODULE='$(MODULE)' TOOL='$(TOOL)' SERVER="$$(dirname "$$server")" scripts/dist

# Every three bytes of a program are a misspelt word to it.
LINTIAN := lintian --allow-root --fail-on error,warning,info --display-info --suppress-tags spelling-error-in-binary

# Of what `make test` has built, so that it takes seconds.
test-packages:
	@scripts/need binutils debhelper lintian python3
	@MODULE='$(MODULE)' TOOL='$(TARGET)/debug/crawlspace' OUT='$(TARGET)/packages' scripts/dist
	@$(LINTIAN) '$(TARGET)/packages'/*.deb

test-dist: ## Prove what `make dist` made: packages in fresh Debian 12 and 13 roots, images, manifests (as root)
	@scripts/need cc binutils ip jq lintian mmdebstrap musl-gcc python3 python3-venv umoci
	@FOLDER='$(TARGET)/servers' scripts/server musl redis-server
	@$(LINTIAN) dist/*.deb
	@scripts/test-dist

test-monitoring: ## The alert rules by promtool, and each expression of the dashboard against a real Prometheus and a server under load (REDIS_SERVER=)
	@scripts/need cc libclang redis-server python3 prometheus prometheus-redis-exporter
	$(CARGO) build --release --package crawlspace
	@$(CARGO) build $(COMPANION) --package redis-tests --bin crawlspace
	@MODULE='$(MODULE)' TOOL='$(TARGET)/debug/crawlspace' scripts/monitoring

lint: ## Formatting, clippy, documentation, licences and advisories of the dependencies
	@scripts/need cc libclang
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --package crawlspace --package crawlspace-host --no-default-features --all-targets -- -D warnings
	$(CARGO) clippy --package crawlspace-client --no-default-features -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps
	@scripts/words
	@scripts/crates
	@scripts/deny

simulate: ## Fetch a million URIs in simulated time with workers that crash, stall and do things twice (SEED=)
	@scripts/need cc libclang redis-server
	$(CARGO) build --release --package crawlspace
	CRAWLSPACE_MODULE='$(MODULE)' $(CARGO) run --release --package redis-tests --bin simulate

RESHARDS ?= 200
ANSWERS  ?= 100000
reshard: ## Move slots of a cluster under load, key by key and as a whole, and compare every answer with that of a server at rest (RESHARDS=200, ANSWERS=100000, SEED=, REDIS_SERVER=)
	@scripts/need cc libclang redis-server
	$(CARGO) build --release --package crawlspace
	CRAWLSPACE_MODULE='$(MODULE)' RESHARDS='$(RESHARDS)' ANSWERS='$(ANSWERS)' \
	    $(CARGO) test --package redis-tests --test server -- --nocapture reshard::no_answer_is_wrong

bench: ## Measure against plain Redis and pywb and write docs/benchmarks/ and docs/benchmarks.md (ONLY=dedupe, chg, tags, import, federation, index or one row, QUICK=1, SCALE=1)
	@scripts/need cc libclang redis-server redis-cli valgrind wrk python3 python3-venv
	$(CARGO) build --release --package crawlspace
	$(CARGO) build --release --package crawlspace-cli --package crawlspace-jobs --bins --example index_cache
	MODULE='$(MODULE)' ONLY='$(ONLY)' QUICK='$(QUICK)' SCALE='$(SCALE)' $(CARGO) run --release --package redis-tests --bin bench -- $(ARGS)

# Time is shared by this many targets.
FUZZ_TARGETS := 15
fuzz: ## Change files, requests and answers of other servers until something breaks, and try the rules with fresh cases (TIME=60 seconds in all, SEED=, INPUT= for one again)
	@scripts/need cc python3
	@$(if $(INPUT),:,CRAWLSPACE_PURGE_HISTORIES=4000 PROPTEST_CASES=2000 scripts/tests $(RULES))
	@$(if $(INPUT),:,CRAWLSPACE_DAMAGES=500000 scripts/tests $(DAMAGE))
	@seconds=$$(awk 'BEGIN { print $(or $(TIME),60) / $(FUZZ_TARGETS) }'); \
	TIME=$$seconds INPUT='$(abspath $(INPUT))' CORPUS='$(CORPUS)' $(CARGO) test --package crawlspace-serve --test serve -- --nocapture fuzz::

# Requests at the gate take about as long as that: 10⁶ in ten minutes.
soak: ## Random histories, kill -9, damaged payloads, HTTP mutations, with fresh seeds; finds go to redis-tests/corpus (TIME=600 seconds, SEED=, REDIS_SERVER=)
	@scripts/need cc libclang redis-server redis-cli python3
	$(CARGO) build --release --package crawlspace
	@CRAWLSPACE_MODULE='$(MODULE)' CORPUS='$(CORPUS)' CRAWLSPACE_GATE_CASES=$$(($(or $(TIME),600) * 5000 / 3)) \
	    scripts/tests $(COMPANION) --package redis-tests --soak $(or $(TIME),600)

clean: ## Remove everything that was built
	$(CARGO) clean
