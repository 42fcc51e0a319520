"""The docstring of a package names each of its modules and sub-packages, and what they import."""

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


def imported(package: str) -> set[str]:
    """What the modules of a package import: other parts of the same top-level package, or other top-level packages."""
    own = ["cordwood", *Path(package).parts]
    found = set()
    for path in (PACKAGE / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("cordwood."):
                parts = [*node.module.split("."), *(alias.name for alias in node.names)]
                if parts[: len(own)] != own:
                    found.add(parts[2] if parts[1] == own[1] else parts[1])
    return found - {"errors", "__version__"}


@pytest.mark.parametrize("package", PACKAGES)
def test_a_docstring_says_what_is_imported(package: str) -> None:
    sentence = re.search(r"Imports (.*?)[;.](\s|$)", docstring(package), re.DOTALL)
    assert sentence is not None
    if "the packages below" not in sentence[1]:
        assert set(re.findall(r"``(\w+)[\w.]*``", sentence[1])) - {"errors"} == imported(package)
