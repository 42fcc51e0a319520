"""What the package declares about itself agrees with what is pinned and shipped."""

import re
import tomllib
from pathlib import Path

import pytest

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
