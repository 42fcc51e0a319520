"""``cordwood inspect``: what is in tensor files, what they waste, and whether they are whole."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cordwood.cli.progress import Progress
from cordwood.cli.tensorfiles import Found, find_files
from cordwood.errors import FormatError

if TYPE_CHECKING:
    from cordwood.tensors import Inspection

HELP = "show what is in tensor files, what they waste, and whether they are whole"
_EXAMPLES = """\
examples:
  cordwood inspect model.pt                 a table: every tensor, totals, advice
  cordwood inspect model.pt --all           all rows, however many
  cordwood inspect checkpoints/             one line a file, and a total
  cordwood inspect model.pt --no-check      do not read the data to compare checksums
  cordwood inspect model.pt --json | jq .files[0].wasted

Reads .pt (old, new, compressed, zipped again), .cord and .safetensors files, told by their content, and
runs nothing that is in them. Exit code 1: something is damaged; 3: a file could not be read at all.
"""
_FINDINGS = 1
_BAD_DATA = 3
_FEW = 4  # so many files are shown with a table each
_MB = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood inspect`` takes."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = _EXAMPLES
    parser.add_argument("files", nargs="+", metavar="FILE", help="a tensor file, or a folder of them")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--all", action="store_true", help="every row of every table")
    parser.add_argument("--no-check", dest="check", action="store_false", help="do not compare checksums")


def run(arguments: argparse.Namespace) -> int:
    """Look at every file and print what was found."""
    files = find_files(arguments.files)
    inspections: list[Inspection] = []
    unreadable: dict[str, str] = {}
    with Progress(sys.stderr) as progress:
        for number, found in enumerate(files, 1):
            try:
                inspections.append(_inspect(found, arguments.check, _steps(progress, found, number, len(files))))
            except (FormatError, OSError) as error:
                unreadable[str(found.path)] = str(error)
            if len(files) > 1:
                progress("inspecting files", number, len(files))
    if arguments.json:
        print(json.dumps(_document(inspections, unreadable), indent=2))
    else:
        _print(inspections, unreadable, show_all=arguments.all)
    if unreadable:
        return _BAD_DATA
    return _FINDINGS if any(inspection.damaged for inspection in inspections) else 0


def _inspect(found: Found, check: bool, progress: "Callable[[int, int], None] | None") -> "Inspection":
    from cordwood.tensors import inspect  # imports torch: `cordwood --help` must not

    return inspect(found.path, check=check, progress=progress)


def _steps(progress: Progress, found: Found, number: int, count: int) -> "Callable[[int, int], None] | None":
    """Progress within one file, for people who wait in front of a terminal."""
    if not sys.stderr.isatty():
        return None
    from cordwood.tensors.sizes import printable

    name = printable(found.path.name)
    step = f"checking {name}, MB" if count == 1 else f"{number} of {count}: checking {name}, MB"
    return lambda done, total: progress(step, done // _MB, total // _MB)


def _sums(inspections: "list[Inspection]") -> dict[str, int]:
    names = ("file_size", "stored", "reachable", "wasted")
    return {name: sum(getattr(inspection, name) for inspection in inspections) for name in names}


def _document(inspections: "list[Inspection]", unreadable: dict[str, str]) -> dict[str, Any]:
    return {
        "files": [inspection.to_dict() for inspection in inspections],
        "unreadable": [{"path": path, "error": error} for path, error in unreadable.items()],
        "total": {"files": len(inspections), **_sums(inspections)},
    }


def _print(inspections: "list[Inspection]", unreadable: dict[str, str], *, show_all: bool) -> None:
    from cordwood.tensors.inspection_text import format_lines, format_total
    from cordwood.tensors.sizes import printable

    if len(inspections) <= _FEW or show_all:
        print("\n\n".join(inspection.table(most_rows=None if show_all else 60) for inspection in inspections))
    else:
        print("\n".join(format_lines(inspections)))
    if unreadable:
        print("\nnot readable")
        for error in unreadable.values():
            print(f"  {printable(error)}")
    if len(inspections) > 1:
        print(f"\n{format_total(inspections)}")
