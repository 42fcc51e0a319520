"""The house stays in order: imports point down only, files stay readable, public names exist."""

import ast
import importlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import cordwood

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "cordwood"
# A room imports from lower floors and from itself, never from its own floor or from above.
FLOORS = {
    "errors": 0,
    "native": 0,
    "common": 1,
    "codecs": 2,
    "images": 3,
    "tensors": 3,
    "sources": 4,
    "store": 4,
    "feed": 5,
    "packing": 5,
    "doctor": 6,
    "models": 6,
    "demo": 7,
    "cli": 8,
    "__main__": 9,
    "__init__": 10,  # the public names; only the command asks it for something, its version
}
WITHOUT_TORCH = {"errors", "native", "codecs", "common"}
SEEDS_TORCH = PACKAGE / "common" / "seeding.py"
LONGEST = 500
# file -> why it may be longer
MAY_BE_LONGER = {
    "docs/format/reader.py": "a reader of the whole format in one file, to be read beside the page",
    "docs/format/store_reader.py": "a reader of the whole format in one file, to be read beside the page",
    "docs/format/tensor_reader.py": "a reader of the whole format in one file, to be read beside the page",
}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def module_of(path: Path) -> list[str]:
    """The package that relative imports in this file start from."""
    return ["cordwood", *path.relative_to(PACKAGE).parent.parts]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything that the file imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = module_of(path)[: len(module_of(path)) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{prefix}.{alias.name}") for alias in node.names)


def room_imported(name: str) -> str | None:
    """The room that a dotted name belongs to, or None if it is not ours."""
    first, *rest = name.split(".")
    if first != "cordwood":
        return None
    return rest[0] if rest and rest[0] in FLOORS else "__init__"


def upward_imports(path: Path) -> list[str]:
    room = room_of(path)
    found = []
    for line, name in imports(path):
        target = room_imported(name)
        if target is None or target == room or name == "cordwood.__version__":
            continue
        if FLOORS[target] >= FLOORS[room]:
            found.append(f"{path.relative_to(ROOT)}:{line}: {room} must not import {name}")
    return found


SOURCES = sorted(PACKAGE.rglob("*.py"))
LONG_FILE_CANDIDATES = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "fuzz", "docs", "examples")
    for pattern in ("*.py", "*.c", "*.h", "*.inc")
    for path in (ROOT / folder).rglob(pattern)
)


def test_every_room_has_a_floor() -> None:
    assert {room_of(path) for path in SOURCES} <= set(FLOORS)


def test_imports_point_down_only() -> None:
    assert [finding for path in SOURCES for finding in upward_imports(path)] == []


def test_the_check_itself_sees_every_kind_of_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_layout.PACKAGE", tmp_path)
    monkeypatch.setattr("tests.test_layout.ROOT", tmp_path)
    wrong = tmp_path / "codecs" / "plan.py"
    wrong.parent.mkdir()
    lines = [
        "import cordwood.cli.verbs.demo",
        "from cordwood import store",
        "from cordwood.feed import Loader",
        "from ..tensors import save",
        "def f():\n    from .. import doctor",
        "from . import narrow",
        "from ..native import _native",
        "from cordwood.errors import UsageError",
    ]
    wrong.write_text("\n".join(lines))
    assert [finding.partition(" must not import ")[2] for finding in upward_imports(wrong)] == [
        "cordwood.cli.verbs.demo",
        "cordwood.store",
        "cordwood.feed.Loader",
        "cordwood.tensors.save",
        "cordwood.doctor",
    ]


def test_the_lower_rooms_never_import_torch() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in SOURCES
        if room_of(path) in WITHOUT_TORCH and path != SEEDS_TORCH
        for line, name in imports(path)
        if name.split(".")[0] == "torch"
    ]
    assert found == []


def test_tests_of_behaviour_import_public_names_only() -> None:
    public = {"cordwood", *(f"cordwood.{name}" for name in cordwood.__all__)}
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted(ROOT.glob("tests/*/behaviour/*.py"))
        for line, name in imports(path)
        if name.startswith("cordwood") and name not in public and not name.startswith("cordwood.errors.")
    ]
    assert found == []


def test_files_stay_short_enough_to_read() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in LONG_FILE_CANDIDATES
    }
    assert {name for name, length in lengths.items() if length > LONGEST} == set(MAY_BE_LONGER)


@pytest.mark.parametrize("module", ["cordwood", "cordwood.codecs", "cordwood.demo"])
def test_public_names_resolve_and_are_sorted(module: str) -> None:
    loaded = importlib.import_module(module)
    names = list(loaded.__all__)
    assert names == sorted(names)
    for name in names:
        getattr(loaded, name)


def test_the_package_is_typed() -> None:
    assert (Path(cordwood.__file__).parent / "py.typed").is_file()


def test_class_names_are_unique() -> None:
    classes = [
        node.name for path in SOURCES for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)
    ]
    assert sorted(name for name, count in Counter(classes).items() if count > 1) == []
