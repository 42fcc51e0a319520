"""Runs PyTorch's own tests of serialization with `cw.save` and `cw.load` in place of torch's functions.

    python -m tests.tensors.support.torch_suite test_serialization.py --format cord

The file is `test/test_serialization.py` of PyTorch's repository, of the release that is installed; it is not part of
this one. Prints how many tests pass, and of each that fails which difference explains it: a row of the table in
docs/tensors.md. Exit code 1: one fails for which no row is known. Tests that need a GPU or the network are skipped.
"""

import argparse
import importlib.util
import os
import sys
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

import cordwood as cw
from tests.tensors.support.torch_differences import EXPLAINED

_HUGE = ("test_serialization_2gb_file", "test_serialization_4gb_file")  # the first takes more than 24 GB
_OPTIONS = {"weights_only", "mmap"}


def saving(format: str) -> Callable[..., None]:
    """`cw.save` with the signature of `torch.save`."""

    def save(obj: Any, f: Any, *, _use_new_zipfile_serialization: bool = True, **others: Any) -> None:
        if others:
            raise TypeError(f"cw.save does not take {', '.join(others)}")
        old = format == "pt" and not _use_new_zipfile_serialization
        options: dict[str, Any] = {"format": "pt-legacy" if old else format}
        cw.save(obj, f, **options)

    return save


def load(f: Any, map_location: Any = None, **options: Any) -> Any:
    """`cw.load` with the signature of `torch.load`."""
    others = options.keys() - _OPTIONS
    if others:
        raise TypeError(f"cw.load does not take {', '.join(others)}")
    return cw.load(f, map_location=map_location, **options)


def tests_of(path: Path) -> ModuleType:
    """The file as a module, under its own name, which stands in pickles of its classes."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def each(suite: unittest.TestSuite) -> list[unittest.TestCase]:
    """The tests in a suite of suites."""
    return [test for one in suite for test in (each(one) if isinstance(one, unittest.TestSuite) else [one])]


def main(argv: list[str] | None = None) -> int:
    """Run, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--format", choices=("torch", "pt", "cord"), default="pt", help="torch: with its own functions")
    options = parser.parse_args(argv)
    sys.argv = [str(options.path)]  # torch.testing reads it
    os.environ["PYTORCH_PRINT_REPRO_ON_FAILURE"] = "0"
    tests = each(unittest.defaultTestLoader.loadTestsFromModule(tests_of(options.path)))
    if options.format != "torch":
        functions: Any = torch
        functions.save, functions.load = saving(options.format), load
    result = unittest.TestResult()
    warnings.simplefilter("ignore")
    for test in tests:
        if not test.id().endswith(_HUGE):
            test.run(result)
    found = {_name(test): why.strip().splitlines()[-1] for test, why in (*result.failures, *result.errors)}
    skipped = {_name(test) for test, _ in result.skipped} - found.keys()
    known = EXPLAINED.get(options.format, {})
    for name, why in sorted(found.items()):
        print(f"{name}\n    {known.get(name, 'NOT EXPLAINED')}\n    {why:.160}")
    print(f"{result.testsRun - len(skipped) - len(found)} passed, {len(found)} failed, {len(skipped)} skipped")
    passed = known.keys() - found.keys()
    if passed:
        print(f"listed, but passed: {', '.join(sorted(passed))}")
    return 1 if found.keys() - known.keys() else 0


def _name(test: unittest.TestCase) -> str:
    return ".".join(test.id().split()[0].split(".")[-2:])


if __name__ == "__main__":
    sys.exit(main())
