# The front door: each target is a line of `make help`. The work is done by meson (build),
# tests/run.py (check) and the programs themselves.

prefix ?= /usr/local
DESTDIR ?=
SECONDS ?= 60
MINUTES ?= 2
PYTHON  := /usr/bin/python3

BUILD_PACKAGES := gcc libc6-dev make meson ninja-build pkg-config libxxhash-dev liblmdb-dev libssl-dev \
	libhiredis-dev
CHECK_PACKAGES := $(BUILD_PACKAGES) binutils python3 libcmocka-dev libseccomp-dev spin redis-server \
	clang clang-format libclang-rt-14-dev openssl nftables iproute2 groff-base \
	python3-dev python3-numpy python3-pytest python3-mesonpy python3-pip
TORCH_PACKAGES := python3-torch

.PHONY: help deps deps-torch quickstart build python check install compare model-full fuzz \
	deps-check release debug tsan clang soak

help:
	@echo 'make quickstart   install what is missing, build, run a small station on a 1 GiB pool'
	@echo 'make build        release build: build/cenote, build/cenoted, build/libcenote.so'
	@echo 'make python       the Python package: build/src/python/cenote'
	@echo 'make check        all checks; SUITE=unit and ONLY=NAME narrow them, LIST=1 lists them'
	@echo 'make install      install the release build; prefix=$(prefix), DESTDIR='
	@echo 'make deps         install the missing Debian packages of the build'
	@echo 'make deps-torch   install torch, whose tests `make check` skips without it; 140 MB to load'
	@echo 'make compare      beside Redis, which it installs if missing; JSON=1 prints JSON'
	@echo 'make fuzz         fuzz the messages and the frames, SECONDS=$(SECONDS) each'
	@echo 'make soak         three nodes under load and faults, MINUTES=$(MINUTES); CENOTE_DAEMONS=build-debug: sanitized'
	@echo 'make model-full   the long searches of the hold model (hours)'

deps:
	@bash scripts/deps.sh $(BUILD_PACKAGES)

deps-check:
	@bash scripts/deps.sh $(CHECK_PACKAGES)

deps-torch:
	@bash scripts/deps.sh $(TORCH_PACKAGES)

# A build directory is configured once; `meson configure` changes it later.
build/build.ninja:
	meson setup build --buildtype=release --prefix=$(prefix)
build-debug/build.ninja:
	CC=gcc meson setup build-debug -Ddebug=true -Doptimization=1 -Dwerror=true \
		-Db_sanitize=address,undefined -Dfaults=enabled -Dcheck_slow=true -Dtests=enabled -Dpython=enabled
build-tsan/build.ninja:
	CC=gcc meson setup build-tsan -Ddebug=true -Doptimization=2 -Dwerror=true \
		-Db_sanitize=thread -Dtests=enabled -Dman=false -Dpython=disabled
build-clang/build.ninja:
	CC=clang meson setup build-clang --buildtype=debug -Dwerror=true -Dtests=enabled -Dman=false

build: build/build.ninja
	@ninja -C build products

python: build
	@bash scripts/deps.sh python3-dev python3-numpy
	@meson configure build -Dpython=enabled
	@ninja -C build python

# What tests/run.py asks for: the build directories with their test programs.
release: build/build.ninja
	@meson configure build -Dwerror=true -Dtests=enabled -Dpython=enabled
	@ninja -C build
debug tsan clang: %: build-%/build.ninja
	@ninja -C build-$@ $(if $(filter tsan,$@),tests-tsan)

quickstart: deps build
	build/cenote bench station --pool 1G --steps 100 --progress

check: deps-check
	@$(PYTHON) tests/run.py $(if $(LIST),--list) $(if $(SUITE),--suite $(SUITE)) $(if $(ONLY),--only $(ONLY))

install: build/build.ninja
	@meson configure build -Dprefix=$(prefix)
	@ninja -C build products
	DESTDIR=$(DESTDIR) meson install -C build --no-rebuild --quiet

compare:
	@bench/compare/run $(if $(JSON),--json)

soak: deps-check release $(if $(CENOTE_DAEMONS),debug)
	$(PYTHON) tests/e2e/soak.py --minutes $(MINUTES)

model-full: deps-check
	$(PYTHON) tests/model/check_model.py --full

FUZZ_CLANG := clang -g -O1 -fsanitize=fuzzer,address,undefined -D_GNU_SOURCE -Isrc
fuzz: deps-check
	mkdir -p build-clang
	$(FUZZ_CLANG) -o build-clang/fuzz_wire \
		tests/fuzz/fuzz_wire.c src/wire/msg.c src/base/err.c src/base/check.c
	$(FUZZ_CLANG) -o build-clang/fuzz_frame \
		tests/fuzz/fuzz_frame.c src/net/frame.c src/wire/msg.c src/base/err.c src/base/check.c
	build-clang/fuzz_wire -max_total_time=$(SECONDS)
	build-clang/fuzz_frame -max_total_time=$(SECONDS)
