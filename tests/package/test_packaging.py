"""What the package declares about itself agrees with what is pinned and shipped."""

import importlib.util
import re
import runpy
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.docs.support.pageblocks import blocks

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
REQUIREMENTS: list[str] = [
    *PYPROJECT["build-system"]["requires"],
    *PROJECT["dependencies"],
    *[requirement for extra in EXTRAS.values() for requirement in extra],
]
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE))


def canonical(name: str) -> str:
    """A distribution's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    return canonical(re.split(r"[^\w.-]", requirement, maxsplit=1)[0])


@pytest.mark.parametrize("requirement", REQUIREMENTS)
def test_every_requirement_is_pinned(requirement: str) -> None:
    assert name_of(requirement) in {canonical(name) for name in PINS} | {PROJECT["name"]}


def test_the_library_that_is_linked_is_the_pinned_one() -> None:
    assert f"blosc2=={PINS['blosc2']}" in PYPROJECT["build-system"]["requires"]


def test_a_resolver_cannot_choose_another_torch() -> None:
    assert PINS["torch"] == "2.13.0"


def test_every_licence_of_the_linked_library_is_listed_and_there() -> None:
    folder = ROOT / "licenses"
    listed = re.findall(r"^\| ([\w.-]+\.txt) \|", (folder / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == sorted(path.name for path in folder.glob("*.txt"))
    assert PROJECT["license-files"] == ["LICENSE", "licenses/*"]


@pytest.fixture
def readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The long description of the built metadata; what setup.py links with is not needed for it."""
    given: dict[str, Any] = {}
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libblosc2.a").touch()
    blosc2 = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: blosc2)
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.setattr(setuptools, "setup", given.update)
    monkeypatch.chdir(ROOT)
    runpy.run_path("setup.py")
    assert given["long_description_content_type"] == "text/markdown"
    return str(given["long_description"])


def test_links_of_the_readme_work_on_an_index(readme: str) -> None:
    links = re.findall(r"\]\(([^)]*)\)|(?:src|srcset|href)=\"([^\"]*)\"", readme)
    assert links
    assert [link for pair in links for link in pair if link and not link.startswith(("https://", "#"))] == []


def test_an_index_shows_the_same_code_and_words(readme: str) -> None:
    assert [block.code for block in blocks("README.md", readme)] == [block.code for block in blocks("README.md")]
    assert "the recipe keeps their shapes" in readme
    assert "## Read on" not in readme
    assert "简体中文" not in readme
    assert readme.rstrip().endswith("are in licenses.")


def test_what_the_classifiers_claim_was_run() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*?) \| (.*?) \| .*? \| (.*?) \|$", page, re.MULTILINE)
    tested = [(machine, python) for machine, python, state in rows if "all tests run" in state]
    claimed = [text.rpartition(" :: ")[2] for text in PROJECT["classifiers"] if re.search(r" :: 3\.\d+$", text)]
    assert claimed == [python.removeprefix("CPython ") for _, python in tested]
    systems = [text.rpartition(" :: ")[2] for text in PROJECT["classifiers"] if text.startswith("Operating System")]
    assert systems == sorted({machine.split()[0] for machine, _ in tested})
