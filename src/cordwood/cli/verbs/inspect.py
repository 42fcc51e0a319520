"""``cordwood inspect``: what is in tensor files and stores, what they waste, and what is damaged of what it reads."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cordwood.cli.tensor_files import FoundFile, find_files
from cordwood.common.progress_line import ProgressLine
from cordwood.errors import FormatError

if TYPE_CHECKING:
    from cordwood.store import StoreInspection
    from cordwood.tensors import Inspection

HELP = "show what is in tensor files and stores, what they waste, and damage in what it reads of them"
_FEW = 4  # so many files are shown with a table each
_EXAMPLES = f"""\
examples:
  cordwood inspect model.pt                 a table: every tensor, totals, advice
  cordwood inspect model.pt --all           all rows, however many
  cordwood inspect checkpoints/             up to {_FEW} files: a table each; more: one line a file; and a total
  cordwood inspect model.pt --no-check      do not read the data to compare checksums
  cordwood inspect model.pt --json | jq .files[0].wasted
  cordwood inspect train.cordwood           a store: its fields, their sizes before and after, their values
  cordwood inspect train.cordwood --json | jq .stores[0].fields[0].ratio

Reads .pt (old, new, compressed, zipped again), .cord and .safetensors files and stores, recognised by content,
and runs nothing that is in them. All data of a file are checked, but of a store the index and up to 256 samples, as the
output states: `cordwood verify` checks every byte of a store.
Exit code 1: something is damaged; 3: a file or store could not be read at all.
"""
_FINDINGS = 1
_BAD_DATA = 3
_MB = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood inspect`` takes."""
    parser.epilog = _EXAMPLES
    parser.add_argument("files", nargs="+", metavar="FILE", help="a tensor file, a folder of them, or a store")
    parser.add_argument("--json", action="store_true", help="print one JSON document in place of text")
    parser.add_argument("--all", action="store_true", help="print all rows of all tables, however many")
    parser.add_argument("--no-check", dest="check", action="store_false", help="do not read data to compare checksums")


def run(arguments: argparse.Namespace) -> int:
    """Look at every store and every file, and print what was found."""
    unreadable: dict[str, str] = {}
    stores = _look_at_stores([word for word in arguments.files if _is_store(word)], unreadable)
    words = [word for word in arguments.files if not _is_store(word)]
    inspections = _look_at_files(find_files(words), arguments.check, unreadable) if words else []
    if arguments.json:
        print(json.dumps(_document(inspections, stores, unreadable), indent=2))
    else:
        _print(inspections, stores, unreadable, show_all=arguments.all)
    if unreadable:
        return _BAD_DATA
    damaged = any(each.damaged for each in inspections) or any(each.damaged for each in stores)
    return _FINDINGS if damaged else 0


def _is_store(word: str) -> bool:
    from cordwood.store import is_store

    path = Path(word)
    return path.is_dir() and is_store(path)


def _look_at_stores(words: list[str], unreadable: dict[str, str]) -> "list[StoreInspection]":
    from cordwood.store import inspect_store

    stores: list[StoreInspection] = []
    for word in words:
        try:
            stores.append(inspect_store(word))
        except (FormatError, OSError) as error:
            unreadable[word] = str(error)
    return stores


def _look_at_files(files: list[FoundFile], check: bool, unreadable: dict[str, str]) -> "list[Inspection]":
    inspections: list[Inspection] = []
    with ProgressLine(sys.stderr) as progress:
        for number, found in enumerate(files, 1):
            try:
                inspections.append(_inspect(found, check, _steps(progress, found, number, len(files))))
            except (FormatError, OSError) as error:
                unreadable[str(found.path)] = str(error)
            if len(files) > 1:
                progress("inspecting files", number, len(files))
    return inspections


def _inspect(found: FoundFile, check: bool, progress: "Callable[[int, int], None] | None") -> "Inspection":
    from cordwood.tensors import inspect  # imports torch: `cordwood --help` must not

    return inspect(found.path, check=check, progress=progress)


def _steps(progress: ProgressLine, found: FoundFile, number: int, count: int) -> "Callable[[int, int], None] | None":
    """Progress within one file, for people who wait in front of a terminal."""
    if not sys.stderr.isatty():
        return None
    from cordwood.common.text import printable

    name = printable(found.path.name)
    step = f"checking {name}, MB" if count == 1 else f"{number} of {count}: checking {name}, MB"
    return lambda done, total: progress(step, done // _MB, total // _MB)


def _sums(inspections: "list[Inspection]") -> dict[str, int]:
    names = ("file_size", "in_memory", "in_file", "reachable", "wasted")
    return {name: sum(getattr(inspection, name) for inspection in inspections) for name in names}


def _document(
    inspections: "list[Inspection]", stores: "list[StoreInspection]", unreadable: dict[str, str]
) -> dict[str, Any]:
    return {
        "files": [inspection.to_dict() for inspection in inspections],
        "stores": [store.to_dict() for store in stores],
        "unreadable": [{"path": path, "error": error} for path, error in unreadable.items()],
        "total": {"files": len(inspections), **_sums(inspections)},
    }


def _print(
    inspections: "list[Inspection]", stores: "list[StoreInspection]", unreadable: dict[str, str], *, show_all: bool
) -> None:
    from cordwood.common.tables import folded, terminal_width
    from cordwood.common.text import printable
    from cordwood.tensors import format_lines, format_total

    most = None if show_all else 60
    parts = [store.table(max_rows=most) for store in stores]
    if len(inspections) <= _FEW or show_all:
        parts += [inspection.table(max_rows=most) for inspection in inspections]
    else:
        parts.append(folded(format_lines(inspections, terminal_width())))
    if unreadable:
        parts.append(folded(["not readable", *(f"  {printable(error)}" for error in unreadable.values())]))
    if len(inspections) > 1:
        parts.append(folded([format_total(inspections)]))
    print("\n\n".join(parts))
