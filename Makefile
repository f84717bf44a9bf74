# Start with `make run` and `make test`. Both install missing packages (on Debian, with apt-get).

CARGO  ?= cargo
PORT   ?= 6379
DIR    ?=
ARGS   ?=
ONLY   ?=
QUICK  ?=
SCALE  ?=
TIME   ?=
SEED   ?=
ALSO   ?=
INPUT  ?=
PREFIX ?= /usr/local
DESTDIR ?=
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
MODULE ?= $(TARGET)/release/libcrawlspace.so
TOOL   ?= $(TARGET)/release/crawlspace
SHARE  := $(TARGET)/share
# Inputs and seeds with which random tests failed; `fuzz` and `soak` add to them.
CORPUS := $(abspath redis-tests/corpus)

# The packages with the rules (the logic of the commands), which run without a server.
RULES := --package crawlspace $(addprefix --package crawlspace-,host compact cdx) --no-default-features

# All packages with tests: the rules, the client, the crates of the tool, and the live tests. (Always build this set:
# another set enables other features of its dependencies, which would then be built again.)
TESTED := $(RULES) $(addprefix --package crawlspace-,client retry warc fetch wacz index jobs serve urlfrontier cli) \
    --package redis-tests --features crawlspace-client/default

# Random tests use a fixed seed by default. SEED=7 sets another seed; SEED=random chooses a new one, and prints it.
# `fuzz`, `reshard`, `simulate` and `soak` choose a new seed by default.
ifeq ($(or $(SEED),$(if $(filter fuzz reshard simulate soak,$(MAKECMDGOALS)),random)),random)
override SEED := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
$(info SEED=$(SEED))
endif
ifneq ($(SEED),)
export SEED
export PROPTEST_RNG_SEED := $(SEED)
endif

# Use another server in `run` and `test`: make test REDIS_SERVER=/usr/bin/valkey-server
ifdef REDIS_SERVER
export REDIS_SERVER
endif

.DEFAULT_GOAL := help
.PHONY: help build install run demo test test-unit test-all test-docs test-peers test-servers test-monitoring portable dist test-packages test-dist share put lint simulate reshard bench fuzz soak clean

help: ## List all targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r target text; do \
	    printf '  %-13s %s\n' "$$target" "$$text"; done

build: ## Build the module (target/release/libcrawlspace.so), the `crawlspace` tool, and its manual pages and completions
	@scripts/need cc libclang
	$(CARGO) build --release --package crawlspace
	$(CARGO) build --release --package crawlspace-cli
	@$(MAKE) --no-print-directory share

# Writes the manual pages and shell completions of the tool.
share:
	@rm -rf '$(SHARE)' && mkdir -p '$(SHARE)/completions'
	@'$(TOOL)' man --out '$(SHARE)/man'
	@'$(TOOL)' completions bash >'$(SHARE)/completions/crawlspace'
	@'$(TOOL)' completions zsh >'$(SHARE)/completions/_crawlspace'
	@'$(TOOL)' completions fish >'$(SHARE)/completions/crawlspace.fish'

install: build ## Build and install the module, the tool, manual pages and completions (PREFIX=/usr/local, DESTDIR= for a package)
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

demo: ## Crawl a small site twice with wget, show the savings, serve both crawls over HTTP, and crawl several hosts politely (about a minute)
	@scripts/need cc libclang redis-server redis-cli wget
	@$(CARGO) build --release --package crawlspace
	@$(CARGO) build $(TESTED) --bin crawlspace --example demo --example polite
	@CRAWLSPACE_MODULE='$(MODULE)' '$(TARGET)/debug/examples/demo'
	@CRAWLSPACE_MODULE='$(MODULE)' '$(TARGET)/debug/examples/polite'

test: test-all ## Run every test: unit, property, live server, client, documentation (REDIS_SERVER=, SEED=)
	@echo "make test: everything passed"

# Tests that read randomly damaged records: 100 000 files, or the number in CRAWLSPACE_DAMAGES.
DAMAGE := --package crawlspace-warc --package crawlspace-serve --lib -- damage

# Tests of the rules only. They need neither libclang nor a server.
test-unit:
	@scripts/need cc python3
	@scripts/tests $(RULES)
	@$(CARGO) test --doc $(RULES)

# Tests of the tool that also run with packed data: imports whose result could depend on the storage (the
# other tests are about files, memory or the terminal), and the commands for frontiers.
PACKED_TOOL := cli=$(shell printf 'indexer::%s::,' crashes equality guards manifests removal revisits servers)indexer::browsertrix::,operators::chg::
# Tests that also run with packed frontiers, except tests that write to plain keys.
PACKED_FRONTIERS := chg=--skip,plain_clients::,--skip,stranded::,--skip,packed::,--skip,packing::

# ALSO='make test-packages' runs this command, too.
test-all:
	@scripts/need cc libclang redis-server redis-cli postgresql openssl wget python3 python3-venv chromium
	@CRAWLSPACE_MODULE='$(MODULE)' scripts/tests --beside '$(CARGO) build --release --package crawlspace' $(TESTED) \
	    --packed dedupe=both:: --packed '$(PACKED_FRONTIERS)' --packed '$(PACKED_TOOL)' \
	    --also 'make test-docs' --also 'make demo' $(if $(ALSO),--also '$(ALSO)')

# The module has no documentation tests, and would be built for this.
test-docs:
	@$(CARGO) test --doc $(subst --package crawlspace --,--,$(TESTED))

# Tests that have a full size: those of third-party programs, and some others.
FULL_SIZES := peers:: packed_index_serves_plain_clients python_workers interrupted_request_is_repeated killed_server_continues
test-peers: ## Test third-party programs, writes and folders at full size: crawls of 2 000 pages by 8 processes, 10⁶ rows, 10 000 WARC files (half an hour; `make test` uses small sizes; SEED=)
	@scripts/need cc libclang redis-server redis-cli python3 python3-venv
	$(CARGO) build --release --package crawlspace
	@CRAWLSPACE_MODULE='$(MODULE)' CRAWLSPACE_PEERS=full scripts/tests $(TESTED) -- $(FULL_SIZES)

# Folder of linker inputs (scripts/portable), with which programs run on any C library.
PORTABLE := $(TARGET)/portable
# Builds the module as it is released.
portable:
	@scripts/need cc libclang binutils
	@scripts/need libunwind
	@scripts/portable '$(PORTABLE)'
	$(CARGO) rustc --release --package crawlspace --lib -- -L native='$(PORTABLE)'

# Servers as SUITE/PACKAGE of Debian: Redis 7.0, 8.0 and 8.6, Valkey 8.0, 8.1 and 9.1, Redict 7.3; also Redis 7.0 with musl,
# and Redis 7.0 with musl and unaligned memory, on which loading the module must fail with a message.
SERVERS ?= bookworm/redis-server trixie/redis-server experimental/redis-server \
    bookworm-backports/valkey-server trixie/valkey-server sid/valkey-server sid/redict musl/redis-server unaligned/redis-server
test-servers: portable ## Run the live tests of the module on each server in Debian's suites, and print a table of the results (SERVERS=sid/valkey-server …)
	@scripts/need musl-gcc redis-server redis-cli openssl wget python3 python3-venv
	@failed=; table=; export CRAWLSPACE_MODULE='$(MODULE)'; for server in $(SERVERS); do \
	    REDIS_SERVER=$$(FOLDER='$(TARGET)/servers' scripts/server $${server%/*} $${server#*/}) || \
	        { failed="$$failed $$server"; table="$$table$$server: not available\n"; continue; }; \
	    export REDIS_SERVER; version=$$($$REDIS_SERVER --version | sed -E 's/ server v=([^ ]*).*/ \1/'); echo "== $$server: $$version"; \
	    if [ $${server%/*} = unaligned ]; then \
	        verdict=$$(timeout 60 $$REDIS_SERVER --port 0 --unixsocket '$(TARGET)/servers/unaligned.sock' --loadmodule '$(MODULE)' | \
	            grep -o 'crawlspace did not load: .*' || echo 'FAILED: the module does not refuse to load'); \
	    else \
	        scripts/tests $(TESTED) --only redis-tests --packed dedupe=both:: \
	            --packed '$(PACKED_FRONTIERS)' | tee '$(TARGET)/server.log'; \
	        verdict=$$(grep -E 'tests passed in|^FAILED' '$(TARGET)/server.log' | sed -E 's/ in [0-9]+ runs.*//; s/ \(output.*//' | paste -sd' '); \
	    fi; \
	    table="$$table$$server: $$version: $$verdict\n"; case "$$verdict" in *FAILED* | '') failed="$$failed $$server";; esac; \
	done; printf "\n$$table"; \
	if [ -n "$$failed" ]; then echo "make test-servers: failures with$$failed"; exit 1; fi

dist: portable ## Build the release artifacts in dist/: Debian packages, container images, wheels, the JavaScript package, both programs, lists of their dependencies
	@scripts/need debhelper npm python3 python3-venv
	$(CARGO) rustc --release --package crawlspace-cli --bin crawlspace -- -L native='$(PORTABLE)'
	@server=$$(FOLDER='$(TARGET)/servers' scripts/server trixie redis-server) && \
	    MODULE='$(MODULE)' TOOL='$(TOOL)' SERVER="$$(dirname "$$server")" scripts/dist

# Suppressed: spell-checking binaries only yields false positives.
LINTIAN := lintian --allow-root --fail-on error,warning,info --display-info --suppress-tags spelling-error-in-binary

# Builds packages from the programs that `make test` has built, which takes seconds.
test-packages:
	@scripts/need binutils debhelper lintian python3
	@MODULE='$(MODULE)' TOOL='$(TARGET)/debug/crawlspace' OUT='$(TARGET)/packages' scripts/dist
	@$(LINTIAN) '$(TARGET)/packages'/*.deb

test-dist: ## Test the artifacts of `make dist`: packages in fresh Debian 12 and 13 roots, images, manifests (as root)
	@scripts/need cc binutils ip jq lintian mmdebstrap musl-gcc python3 python3-venv umoci
	@FOLDER='$(TARGET)/servers' scripts/server musl redis-server
	@$(LINTIAN) dist/*.deb
	@scripts/test-dist

test-monitoring: ## Test the alert rules with promtool, and each expression of the dashboard with Prometheus and a server under load (REDIS_SERVER=)
	@scripts/need cc libclang redis-server python3 prometheus prometheus-redis-exporter
	$(CARGO) build --release --package crawlspace
	@$(CARGO) build $(TESTED) --bin crawlspace
	@MODULE='$(MODULE)' TOOL='$(TARGET)/debug/crawlspace' scripts/monitoring

lint: ## Check formatting, clippy, documentation, and licences and advisories of the dependencies
	@scripts/need cc libclang
	@$(CARGO) fmt --version >/dev/null 2>&1 && $(CARGO) clippy --version >/dev/null 2>&1 || rustup component add rustfmt clippy
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings
	$(CARGO) clippy --package crawlspace --package crawlspace-host --package crawlspace-client --no-default-features -- -D warnings
	RUSTDOCFLAGS='-D warnings' $(CARGO) doc --workspace --no-deps
	@scripts/words
	@scripts/crates
	@scripts/deny

simulate: ## Fetch a million URIs in simulated time with workers that crash, stall and repeat requests (SEED=)
	@scripts/need cc libclang redis-server
	$(CARGO) build --release --package crawlspace
	CRAWLSPACE_MODULE='$(MODULE)' $(CARGO) run --release --package redis-tests --bin simulate

RESHARDS ?= 200
ANSWERS  ?= 100000
reshard: ## Move slots of a cluster under load, key by key and as a whole, and compare every reply with that of an idle server (RESHARDS=200, ANSWERS=100000, SEED=, REDIS_SERVER=)
	@scripts/need cc libclang redis-server
	$(CARGO) build --release --package crawlspace
	@CRAWLSPACE_MODULE='$(MODULE)' RESHARDS='$(RESHARDS)' ANSWERS='$(ANSWERS)' \
	    scripts/tests --package redis-tests --test server -- reshard::replies_are_correct_while_slots_move_under_load

bench: ## Measure against plain Redis and pywb and write docs/benchmarks/ and docs/benchmarks.md (ONLY=dedupe, chg, tags, import, federation, index, packages or one row, QUICK=1, SCALE=1)
	@scripts/need cc libclang redis-server redis-cli valgrind wrk python3 python3-venv
	$(CARGO) build --release --package crawlspace
	$(CARGO) build --release --package crawlspace-cli --package crawlspace-jobs --package crawlspace-urlfrontier --bins --example index_cache --example load
	MODULE='$(MODULE)' ONLY='$(ONLY)' QUICK='$(QUICK)' SCALE='$(SCALE)' $(CARGO) run --release --package redis-tests --bin bench -- $(ARGS)

# Number of fuzz targets, which share the time.
FUZZ_TARGETS := 15
fuzz: ## Fuzz files, requests and responses of other servers, and test the rules with new random cases (TIME=60 seconds in total, SEED=, INPUT= repeats one input)
	@scripts/need cc python3
	@$(if $(INPUT),:,CRAWLSPACE_PURGE_HISTORIES=4000 PROPTEST_CASES=2000 scripts/tests $(RULES))
	@$(if $(INPUT),:,CRAWLSPACE_DAMAGES=500000 scripts/tests $(DAMAGE))
	@seconds=$$(awk 'BEGIN { print $(or $(TIME),60) / $(FUZZ_TARGETS) }'); \
	TIME=$$seconds INPUT='$(abspath $(INPUT))' CORPUS='$(CORPUS)' $(CARGO) test --package crawlspace-serve --test serve -- --nocapture fuzz::

# Choose the number of access-control requests so that they take about TIME: 10⁶ in ten minutes.
soak: ## Test random histories, kill -9, damaged payloads and HTTP mutations with new seeds; failing seeds are added to redis-tests/corpus (TIME=600 seconds, SEED=, REDIS_SERVER=)
	@scripts/need cc libclang redis-server redis-cli python3
	$(CARGO) build --release --package crawlspace
	@CRAWLSPACE_MODULE='$(MODULE)' CORPUS='$(CORPUS)' KILLS=200 DAMAGES=50000 CRAWLSPACE_GATE_CASES=$$(($(or $(TIME),600) * 5000 / 3)) \
	    scripts/tests $(TESTED) --soak $(or $(TIME),600)

clean: ## Remove everything that was built
	$(CARGO) clean
