"""``cordwood verify``: check every byte of a store, and save what is good of a damaged one."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cordwood.common.progress_line import ProgressLine
from cordwood.errors import UsageError

if TYPE_CHECKING:
    from cordwood.store import Salvaged, Verification

HELP = "check every byte of a store, and save what is good of a damaged one"
_EXAMPLES = """\
examples:
  cordwood verify train.cordwood                        names every damaged shard, sample and field
  cordwood verify train.cordwood --all                  all of them, however many
  cordwood verify train.cordwood --json | jq .lost      which samples are lost
  cordwood verify train.cordwood --salvage saved.cordwood
                                                        a new store of all samples that are good

Reads and decodes everything, and changes nothing: --salvage writes to a new folder, and leaves the old one alone.
Exit code 3: something is damaged, also if everything could be saved; 1: all good so far, but packing is not finished.
"""
_FINDINGS = 1
_BAD_DATA = 3
_MOST_DAMAGES = 20
_MB = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what ``cordwood verify`` takes."""
    parser.epilog = _EXAMPLES
    parser.add_argument("store", metavar="STORE", help="the folder of a store")
    parser.add_argument("--salvage", metavar="OUT", help="write the good samples to a new store in the folder OUT")
    parser.add_argument("--threads", type=int, metavar="N", help="threads that decode (default: one per core)")
    parser.add_argument("--all", action="store_true", help="list all damage (default: the first 20 pieces)")
    parser.add_argument("--json", action="store_true", help="print one JSON document in place of text")


def run(arguments: argparse.Namespace) -> int:
    """Check the store and print what was found."""
    if arguments.threads is not None and arguments.threads < 1:
        raise UsageError(f"--threads {arguments.threads}: at least one is needed")
    salvaged, result = _check(arguments)
    if arguments.json:
        print(json.dumps(_document(result, salvaged), indent=2))
        return _exit_code(result)
    print(result.text(most=None if arguments.all else _MOST_DAMAGES))
    if salvaged is not None:
        print(f"\n{_printable(str(salvaged))}")
    elif not result.ok:
        print(f"\n{_advice(arguments.store, result)}")
    return _exit_code(result)


def _exit_code(result: "Verification") -> int:
    if not result.ok:
        return _BAD_DATA
    return 0 if result.unfinished is None else _FINDINGS


def _check(arguments: argparse.Namespace) -> "tuple[Salvaged | None, Verification]":
    from cordwood.store import salvage, verify

    with ProgressLine(sys.stderr) as progress:
        step = _step(progress, arguments.store)
        if arguments.salvage is None:
            return None, verify(arguments.store, progress=step, threads=arguments.threads)
        salvaged = salvage(arguments.store, arguments.salvage, progress=step, threads=arguments.threads)
        return salvaged, salvaged.verification


def _step(progress: ProgressLine, store: str) -> Callable[[int, int], None] | None:
    """Progress for people who wait in front of a terminal."""
    if not sys.stderr.isatty():
        return None
    name = f"verifying {_printable(Path(store).name)}, MB"
    return lambda done, total: progress(name, done // _MB, total // _MB)


def _printable(text: str) -> str:
    from cordwood.common.text import printable

    return "\n".join(map(printable, text.split("\n")))


def _advice(store: str, result: "Verification") -> str:
    import shlex

    from cordwood.store import NOTHING_LEFT

    if not result.has_good:
        return NOTHING_LEFT
    return _printable(f"to keep what is good: cordwood verify {shlex.quote(store)} --salvage OUT")


def _document(result: "Verification", salvaged: "Salvaged | None") -> dict[str, Any]:
    document = result.to_dict()
    if salvaged is not None:
        document["salvaged"] = {"out": salvaged.out, "kept": salvaged.kept, "notes": salvaged.notes}
    return document
