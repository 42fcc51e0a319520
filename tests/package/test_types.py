"""What type checkers know of the public names: they see through the lazy `__init__`, calls return exact types."""

import ast
import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import cordwood
from cordwood.packing import cached, pack
from cordwood.packing.run import PackOptions

PROGRAM = Path(__file__).parent / "support" / "typed_program.py"


def checked(folder: Path) -> str:
    """What `mypy --strict` says of the program in a project of its own, which has cordwood on its path."""
    pytest.importorskip("mypy")
    shutil.copy(PROGRAM, folder)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", PROGRAM.name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(cordwood.__file__).parents[1])},
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_program_that_uses_everything_passes_strict_checks(tmp_path: Path) -> None:
    """Comments that silence nothing are errors, too: every mistake in the program is one to the type checker."""
    assert checked(tmp_path).startswith("Success")


def test_the_program_uses_every_public_name() -> None:
    used = {
        node.attr
        for node in ast.walk(ast.parse(PROGRAM.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "cw"
    }
    assert set(cordwood.__all__) - used == set()


@pytest.mark.parametrize(
    ("function", "own", "lacking"), [(pack, {"limit"}, set()), (cached, set(), {"part", "update"})]
)
def test_functions_that_pack_have_the_same_options(
    function: Callable[..., Any], own: set[str], lacking: set[str]
) -> None:
    """`cw.pack` states them once for people and once for type checkers."""
    signature = inspect.signature(function)
    keywords = {name for name, one in signature.parameters.items() if one.kind is inspect.Parameter.KEYWORD_ONLY}
    options, hints = get_type_hints(PackOptions), get_type_hints(function)
    assert {name: hints[name] for name in keywords - own} == {name: options[name] for name in options.keys() - lacking}
    defaults = inspect.signature(pack).parameters
    assert all(signature.parameters[name].default == defaults[name].default for name in keywords)
