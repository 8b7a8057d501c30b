# SPDX-License-Identifier: Apache-2.0
# A thin face over CMake: `make help` lists what it does. Everything is written below build/.

JOBS         ?= $(shell nproc)
PREFIX       ?= /usr/local
FUZZ_SECONDS ?= 30
STUDY        ?= paper/all
REVISION     := $(shell git log -1 --format='%h, %cs' 2>/dev/null)

# Names as in Debian 12 and Ubuntu 24.04; package=program: any version of that program will do.
PACKAGES       := g++ make cmake=cmake ninja-build=ninja ccache pkg-config=pkg-config \
                  libfmt-dev libexpected-dev nlohmann-json3-dev libtomlplusplus-dev libcli11-dev libyaml-cpp-dev \
                  libopenblas-dev libopenmpi-dev openmpi-bin \
                  libsqlite3-dev libzstd-dev zlib1g-dev libisal-dev libsimdjson-dev libmicrohttpd-dev \
                  esbuild=esbuild python3=python3
PACKAGES_PYTHON := pybind11-dev python3-dev
PACKAGES_PAPER  := python3-matplotlib
PACKAGES_TEST  := $(PACKAGES) $(PACKAGES_PYTHON) $(PACKAGES_PAPER) doctest-dev bubblewrap=bwrap nodejs=node python3-numpy python3-pip python3-nbclient python3-ipykernel python3-jsonschema
PACKAGES_PACKAGE := dpkg-dev=dpkg-shlibdeps file=file xz-utils=xz
PACKAGES_DOCS     := mkdocs=mkdocs mkdocs-material
# Clang's library for WebAssembly; of emscripten only the sources of exceptions.
PACKAGES_EXPLORE  := $(PACKAGES) clang-19 lld-19 llvm-19 libc++-19-dev-wasm32 libc++abi-19-dev-wasm32 libclang-rt-19-dev-wasm32 wasi-libc \
                     binaryen emscripten nodejs=node node-yaml
PACKAGES_BENCH := $(PACKAGES) libbenchmark-dev
PACKAGES_CHECK := $(PACKAGES_TEST) npm=npm clang-14 libclang-rt-14-dev clang-format-14 clang-tidy-14 \
                  slurm-wlm munge tmux=tmux prometheus=prometheus
# ARM64's libraries are unpacked below build/, not installed.
PACKAGES_ARM64 := $(PACKAGES_TEST) g++-aarch64-linux-gnu qemu-user-static=qemu-aarch64-static mmdebstrap=mmdebstrap
SYSROOT_ARM64  := libstdc++-12-dev $(filter-out libopen%,$(filter %-dev,$(PACKAGES))) doctest-dev
TESTS_ARM64    := base run perf power thermal sim telemetry
# Ubuntu's package of this name needs snap; there the page checks use a browser that is already installed, or skip.
ifneq ($(shell grep -s '^ID=debian' /etc/os-release),)
PACKAGES_CHECK += chromium=chromium
endif

.DELETE_ON_ERROR:
.PHONY: help build calibrations report paper pictures measure test check-all bench benches install package wheel test-arm64 package-arm64 explore test-explore try-package docs clean format tidy tidy-all lint packages validation layouts fuzz sanitize threads pages

help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' Makefile | expand -t 14

# CPU minutes of a cold build of the programs, and of the tests with their run.
BUILD_MINUTES := 11
TEST_MINUTES  := 15
minutes        = $$(( ($(1)) / $(JOBS) + 1 ))

build: packages  ## the programs, as users get them: build/release/bin
	@echo "building the programs: about $(call minutes,$(BUILD_MINUTES)) minutes on $(JOBS) cores where nothing is cached"
	cmake --preset release -DTPT_TESTS=OFF -DTPT_REVISION="$(REVISION)"
	cmake --build build/release --target programs -j $(JOBS)

validation: build  ## compare with the published tables beside the tree (../shared): validation/, docs/models/accuracy.md
	python3 tools/make_validation.py build/release/bin/triplepoint ../shared/data

layouts: build  ## plan the public recipes of validation/layouts, into its README.md
	python3 tools/make_layouts.py build/release/bin/triplepoint

calibrations: build  ## fit data/ to the published tables beside the tree (../shared); needs Debian's python3-scipy
	/usr/bin/python3 lab/fit_tables.py build/release/bin/triplepoint ../shared/data --write
	python3 lab/sibling_kernels.py --write

report: build  ## characterize STUDY (paper/all) by simulation: build/report/report.html
	build/release/bin/triplepoint characterize $(STUDY) -o build/report
	@echo "the report is build/report/report.html"

paper: packages-paper build  ## reproduce the MICRO'25 paper (papers/micro25): its figures and claims from predictions: build/paper
	cmake --build build/release --target python_package -j $(JOBS)
	PYTHONPATH=build/release/python /usr/bin/python3 papers/micro25/reproduce.py --program build/release/bin/triplepoint -o build/paper

pictures: build  ## draw README's screenshots and the modules anew: docs/images
	python3 tools/page_pictures.py build/release/bin/triplepoint
	python3 tools/module_picture.py

measure: build  ## train the study laptop for real on this machine (five minutes): build/measured/report.html
	build/release/bin/triplepoint characterize laptop --measure -o build/measured
	@echo "the report is build/measured/report.html"

# One test more than cores at a time: the recorder's mostly sleep.
test: packages-test  ## the quick suite; shares build/release and its objects with `make build`
	@echo "building and running the tests: about $(call minutes,$(TEST_MINUTES)) minutes on $(JOBS) cores after make report, $(call minutes,$(TEST_MINUTES)+$(BUILD_MINUTES)) alone"
	cmake --preset release -DTPT_TESTS=ON -DTPT_REVISION=
	cmake --build --preset release -j $(JOBS)
	ctest --preset release -j $$(($(JOBS) + 1)) -LE 'slow|pages'

check-all:  ## everything there is to check, a night's work that goes on where it was interrupted; ends in a table
	python3 tools/check_all.py

lint: packages-check web  ## what needs no build: format, layers, data, docs, size, types of the front end
	python3 tools/check_format.py
	python3 tools/check_layers.py
	python3 tools/check_sources.py
	python3 tools/lint_data.py
	python3 tools/check_docs.py
	python3 tools/check_words.py
	python3 tools/check_budget.py
	python3 tools/make_notices.py --check
	python3 tools/make_dashboard.py --check
	cd web && npm run --silent check

sanitize: packages-check  ## the suite under the address and undefined-behaviour sanitizers
	cmake --preset asan
	cmake --build --preset asan -j $(JOBS)
	ctest --preset asan -j $(JOBS) -LE 'slow|pages|lint'

threads: packages-check  ## what has threads, under the thread sanitizer
	cmake --preset tsan
	cmake --build --preset tsan -j $(JOBS) --target threaded_tests
	ctest --preset tsan -j $(JOBS) -L threads

fuzz: packages-check  ## every reader on mutated input, FUZZ_SECONDS (30) each
	cmake --preset fuzz -DCMAKE_CXX_COMPILER=clang++-14
	cmake --build --preset fuzz -j $(JOBS) --target fuzz_targets
	TPT_FUZZ_SECONDS=$(FUZZ_SECONDS) ctest --test-dir build/fuzz -L fuzz -j $(JOBS) --output-on-failure

tidy: packages-check  ## clang-tidy over what users run and has changed since all was clean (tools/tidy_base)
	cmake --preset ci
	cmake --build --preset ci --target field_comments
	python3 tools/tidy.py build/ci --changed

tidy-all: packages-check  ## the same over all files, tests, benches and fuzz targets as well (an hour on two cores)
	cmake --preset ci
	cmake --build --preset ci --target field_comments
	python3 tools/tidy.py build/ci

pages: packages-check web  ## slow tests, and the report's pages in a browser
	cmake --preset release -DTPT_TESTS=ON -DTPT_REVISION=
	cmake --build --preset release -j $(JOBS)
	ctest --preset release -j $(JOBS) -L 'slow|pages' --no-tests=ignore

benches: packages-bench  ## the programs with all benchmarks: build/bench
	cmake --preset bench
	cmake --build build/bench --target programs benches -j $(JOBS)

explore: packages-explore  ## the explorer, a page that predicts and plans in a browser: build/explore
	cmake --preset wasm
	cmake --build build/wasm -j $(JOBS)
	@echo "the explorer is build/explore/explore.html; any web server can show the folder"

test-explore: build web  ## the explorer answers as the program does, within its bounds of size; skipped where Clang for WebAssembly cannot be installed
	@if tools/packages.sh $(PACKAGES_EXPLORE); \
	then $(MAKE) explore && ctest --test-dir build/wasm -L explore --output-on-failure; \
	else echo "SKIPPED: make test-explore (this system has no clang-19 with libc++ for WebAssembly)"; fi

bench: benches  ## measure speed and write docs/performance.md; run it on a machine that does nothing else (10 minutes)
	python3 tools/bench.py build/bench

format: packages-check  ## clang-format in place
	python3 tools/check_format.py --fix

install: build  ## programs, data, shell completion and man pages below PREFIX (/usr/local)
	cmake --install build/release --prefix $(PREFIX)

test-arm64: packages-arm64 build build/arm64-sysroot  ## on Debian: tests of the models cross-built for ARM64, under qemu; results equal this machine's to 1e-12
	cmake --preset arm64
	cmake --build --preset arm64 -j $(JOBS) --target programs $(TESTS_ARM64:%=%_test)
	ctest --preset arm64 -j $(JOBS) -LE slow -R '^($(shell echo $(TESTS_ARM64) | tr ' ' '|')):'
	python3 tests/arm64/same_numbers.py build/release/bin/triplepoint build/arm64/emulated/triplepoint

package-arm64: packages-arm64 packages-package build/arm64-sysroot  ## the archive for ARM64, cross-built on Debian, without the trainer: build/package
	cmake --preset arm64 -DTPT_REVISION="$(REVISION)"
	cmake --build --preset arm64 -j $(JOBS) --target programs
	cpack --config build/arm64/CPackConfig.cmake -B build/package
	@rm -rf build/package/_CPack_Packages

build/arm64-sysroot: | packages-arm64
	tools/arm64_sysroot.sh $@ $(SYSROOT_ARM64)

package: packages-package build  ## a relocatable archive and Debian packages of what `make install` installs: build/package
	cpack --config build/release/CPackConfig.cmake -B build/package
	@rm -rf build/package/_CPack_Packages

wheel: packages-python build  ## the Python package, for this machine's version of Python: build/package
	@mkdir -p build/package
	PYTHONPATH=tools python3 -c "import wheel_backend; wheel_backend.build_wheel('build/package', {'build-folder': 'build/release'})"

docs: packages-docs build  ## the documentation as a searchable site: build/site
	python3 tools/make_site.py build/release/bin/triplepoint build/site-source
	mkdocs build --strict -q
	python3 tools/make_site.py --check build/site
	@echo "the site is in build/site; to search in it, serve it: python3 -m http.server -d build/site"

try-package: package wheel  ## installs the packages and the wheel into a bare Debian 12 below build/bare and runs README there; as root
	@tools/packages.sh mmdebstrap=mmdebstrap
	tools/try_package.sh build/package build/bare

clean:  ## removes build/
	rm -rf build

packages:
	@tools/packages.sh $(PACKAGES)
packages-python:
	@tools/packages.sh $(PACKAGES) $(PACKAGES_PYTHON) python3-pip python3-venv
packages-paper:
	@tools/packages.sh $(PACKAGES) $(PACKAGES_PYTHON) $(PACKAGES_PAPER)
packages-test:
	@tools/packages.sh $(PACKAGES_TEST)
packages-check:
	@tools/packages.sh $(PACKAGES_CHECK)
packages-docs:
	@tools/packages.sh $(PACKAGES_DOCS)
packages-package:
	@tools/packages.sh $(PACKAGES_PACKAGE)
packages-arm64:
	@tools/packages.sh $(PACKAGES_ARM64)
packages-explore:
	@tools/packages.sh $(PACKAGES_EXPLORE)
packages-bench:
	@tools/packages.sh $(PACKAGES_BENCH)
.PHONY: packages-python packages-paper packages-test packages-check packages-package packages-docs packages-arm64 packages-bench packages-explore web

# The only step that needs the npm registry: what checks the front end.
web: web/node_modules/.package-lock.json
web/node_modules/.package-lock.json: web/package-lock.json | packages-check
	cd web && npm ci --no-audit --no-fund
	@touch $@
