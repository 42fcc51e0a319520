"""The docstring of a package names each of its modules and sub-packages, and no others."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent.parent / "src" / "cordwood"
PACKAGES = sorted(str(path.parent.relative_to(PACKAGE)) for path in PACKAGE.glob("*/**/__init__.py"))


def docstring(package: str) -> str:
    return ast.get_docstring(ast.parse((PACKAGE / package / "__init__.py").read_text(encoding="utf-8"))) or ""


def members(package: str) -> set[str]:
    folder = PACKAGE / package
    modules = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    return modules | {path.parent.name for path in folder.glob("*/__init__.py")}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_docstring_names_every_member(package: str) -> None:
    named = set(re.findall(r"``(\w+)(?=``|\.\w+``)", docstring(package)))
    assert members(package) - named == set()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_docstring_lists_only_members(package: str) -> None:
    listed = re.findall(r"^\* (.*?) - ", docstring(package), re.MULTILINE)
    assert {name for entry in listed for name in re.findall(r"``(\w+)``", entry)} <= members(package)
