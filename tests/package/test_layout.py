"""The files of the package stay easy to find and to read. The contracts in pyproject.toml check which imports which."""

import ast
import importlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import cordwood

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "cordwood"
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))

MAX_LINES = 500
# file -> why it may be longer
MAY_BE_LONGER = {
    "docs/format/reader.py": "a reader of the whole format in one file, to be read beside the page",
    "docs/format/store_reader.py": "a reader of the whole format in one file, to be read beside the page",
    "docs/format/tensor_reader.py": "a reader of the whole format in one file, to be read beside the page",
}
MAX_ENTRIES = {"src/cordwood": 12, "tests": 15, "benchmarks": 15}
# folder -> how many entries it may have, and why
MAY_HAVE_MORE = {
    "src/cordwood": (15, "one folder per package"),
    "src/cordwood/common": (15, "small helpers that have nothing in common but to be used everywhere"),
    "src/cordwood/store/writing": (13, "one file per step from samples to shards"),
    "tests": (18, "one folder per package, and those of pages, formats and benchmarks"),
}
MAY_HAVE_CODE = {
    "doctor/rules": "the list of all rules",
    "feed/augment": "the public module cw.augment",
}
PUBLIC_OF_NAMED_TUPLES = {"_asdict", "_fields", "_make", "_replace"}


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of everything that a file imports, wherever in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def where(path: Path, node: ast.expr | ast.stmt) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"


def test_files_stay_short_enough_to_read() -> None:
    files = [
        path
        for folder in ("src", "tests", "benchmarks", "fuzz", "docs", "examples")
        for pattern in ("*.py", "*.c", "*.h", "*.inc")
        for path in (ROOT / folder).rglob(pattern)
    ]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name for name, length in lengths.items() if length > MAX_LINES} == set(MAY_BE_LONGER)


@pytest.mark.parametrize("top", MAX_ENTRIES)
def test_folders_stay_short_enough_to_read(top: str) -> None:
    sources = [path for ending in (".py", ".pyi", ".c", ".h", ".inc") for path in (ROOT / top).rglob(f"*{ending}")]
    entries = {entry for path in sources for entry in (path, *path.parents) if entry.parent.is_relative_to(ROOT / top)}
    counts = Counter(str(entry.parent.relative_to(ROOT)) for entry in entries)
    allowed = {name: most for name, (most, _) in MAY_HAVE_MORE.items()}
    assert {name: count for name, count in counts.items() if count > allowed.get(name, MAX_ENTRIES[top])} == {}


def test_file_names_are_snake_case() -> None:
    names = [part for path in TREES for part in path.relative_to(PACKAGE).with_suffix("").parts]
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*|__init__|__main__", name)] == []


def test_sub_packages_have_a_docstring_and_no_code() -> None:
    found = {
        str(path.parent.relative_to(PACKAGE))
        for path, tree in TREES.items()
        if path.name == "__init__.py" and path.parent not in (PACKAGE, *ROOMS)
        if len(tree.body) != 1 or ast.get_docstring(tree) is None
    }
    assert found == set(MAY_HAVE_CODE)


@pytest.mark.parametrize("room", [room.name for room in ROOMS])
def test_no_folder_has_the_name_of_something_that_its_package_exports(room: str) -> None:
    imports = (node for node in ast.walk(TREES[PACKAGE / room / "__init__.py"]) if isinstance(node, ast.ImportFrom))
    exported = {alias.name for node in imports for alias in node.names} - {"augment"}  # that is the folder itself
    assert exported & {path.parent.name for path in (PACKAGE / room).glob("*/__init__.py")} == set()


def test_every_class_has_a_name_of_its_own() -> None:
    names = Counter(node.name for tree in TREES.values() for node in tree.body if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


def test_tests_of_behaviour_import_public_names_only() -> None:
    public = {"cordwood", *(f"cordwood.{name}" for name in cordwood.__all__)}
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in sorted(ROOT.glob("tests/*/behaviour/*.py"))
        for line, name in imports(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith("cordwood") and name not in public and not name.startswith("cordwood.errors.")
    ]
    assert found == []


def test_private_names_are_not_imported() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path, tree in TREES.items()
        for line, name in imports(tree)
        if name.startswith("cordwood.") and is_private(name.split(".")[-1]) and name != "cordwood.native._native"
    ]
    assert found == []


def private_attributes(tree: ast.Module) -> set[str]:
    """Of the classes in a module: private methods, annotated fields, and what methods assign to self."""
    names = set()
    for node in (node for kind in ast.walk(tree) if isinstance(kind, ast.ClassDef) for node in ast.walk(kind)):
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            names.add(node.attr)
    return {name for name in names if is_private(name)} - PUBLIC_OF_NAMED_TUPLES


def imported_rooms(tree: ast.Module) -> set[str]:
    return {name.split(".")[1] for _, name in imports(tree) if name.startswith("cordwood.")}


def foreign_private_attributes(path: Path, tree: ast.Module, by_room: dict[str, set[str]]) -> Iterator[str]:
    """Private attributes that are defined in a package that this module imports from, and not in the module itself."""
    others = [by_room.get(room, set()) for room in imported_rooms(tree) - {room_of(path)}]
    foreign = set().union(*others) - private_attributes(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in foreign and ast.unparse(node.value) not in ("self", "cls"):
            yield where(path, node)


def test_private_attributes_of_other_packages_are_not_used() -> None:
    by_room: dict[str, set[str]] = {}
    for path, tree in TREES.items():
        by_room.setdefault(room_of(path), set()).update(private_attributes(tree))
    assert [found for path, tree in TREES.items() for found in foreign_private_attributes(path, tree, by_room)] == []
    wrong = ast.parse("from cordwood.store import Dataset\ndef f(dataset: Dataset): return dataset._number(3)")
    assert list(foreign_private_attributes(PACKAGE / "feed" / "wrong.py", wrong, by_room)) == [
        "src/cordwood/feed/wrong.py:2: dataset._number"
    ]


@pytest.mark.parametrize("module", ["cordwood", "cordwood.codecs", "cordwood.demo"])
def test_public_names_resolve_and_are_sorted(module: str) -> None:
    loaded = importlib.import_module(module)
    names = list(loaded.__all__)
    assert names == sorted(names)
    for name in names:
        getattr(loaded, name)


def test_the_package_is_typed() -> None:
    assert (Path(cordwood.__file__).parent / "py.typed").is_file()
