"""A pytest plugin for an interpreter without torch: a test, or a file of tests, that imports torch is skipped.

    python -m pytest -p tests.package.without_torch

`make test-python PYTHON=python3.13` runs the rest. Without the plugin a missing torch is an error, as it should be.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest


class _SkipsTorch(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "torch":
            raise pytest.skip.Exception("imports torch", allow_module_level=True)
        return None


sys.meta_path.insert(0, _SkipsTorch())
