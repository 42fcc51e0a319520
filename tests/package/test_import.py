"""Importing is quick and asks for little: names load when they are used, and the codecs need no torch."""

import ctypes
import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

import cordwood
from tests.doctor.support.evidences import make_report

BLOCK_TORCH = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r} (blocked)", name=name)
sys.meta_path.insert(0, Blocker())
"""


def run_python(code: str) -> str:
    """What a fresh interpreter prints when it runs this code."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("statement", ["import cordwood", "import cordwood.errors", "import cordwood.cli"])
def test_a_plain_import_loads_neither_torch_nor_numpy(statement: str) -> None:
    loaded = run_python(f"import sys; {statement}; print(*(n for n in ('torch', 'numpy') if n in sys.modules))")
    assert loaded.split() == []


def test_the_command_compares_reports_and_prints_scripts_without_torch(tmp_path: Path) -> None:
    make_report().save(tmp_path / "report.json")
    for words in (["doctor", "compare", "report.json", "report.json"], ["completion", "bash"], ["pack", "--help"]):
        code = f"""{BLOCK_TORCH}
import contextlib, io, os
os.chdir({str(tmp_path)!r})
from cordwood import cli
with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
    cli.main({words!r})
print(len(out.getvalue()) > 100)
"""
        assert run_python(code) == "True\n"


def test_codecs_work_where_torch_cannot_be_imported() -> None:
    code = f"""{BLOCK_TORCH}
import numpy as np
import cordwood
array = np.arange(1000, dtype=np.float32).reshape(10, 100)
frame = cordwood.codecs.encode(array, "balanced")
assert np.array_equal(cordwood.codecs.decode(frame), array)
assert "torch" not in sys.modules
try:
    import torch
except ModuleNotFoundError:
    print("torch was blocked")
"""
    assert run_python(code).strip() == "torch was blocked"


def test_every_public_name_is_listed_and_loads() -> None:
    for name in cordwood.__all__:
        assert getattr(cordwood, name) is not None
        assert name in dir(cordwood)


def test_a_name_that_is_not_there_is_named_in_the_error() -> None:
    with pytest.raises(AttributeError, match="module 'cordwood' has no attribute 'kindling'"):
        cordwood.kindling  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_is_that_of_the_installed_package() -> None:
    assert cordwood.__version__ == importlib.metadata.version("cordwood")


def test_the_native_module_uses_the_stable_abi() -> None:
    from cordwood.native import _native

    assert _native.__file__.endswith(".abi3.so")


@pytest.mark.parametrize("symbol", ["ZSTD_versionNumber", "ZSTD_compress", "LZ4_versionNumber", "XXH64", "blosc2_init"])
def test_the_native_module_keeps_the_linked_library_to_itself(symbol: str) -> None:
    """Another zstd in the process, such as torch's, must not meet ours."""
    from cordwood.native import _native

    library = ctypes.CDLL(_native.__file__)
    assert hasattr(library, "PyInit__native")
    assert not hasattr(library, symbol)
