"""The files that the doctor writes: checked before hours of training, written afterwards.

check_outputs({"--json": Path("report.json")})
save(report, {".json": Path("report.json")})        # what is to be told of those that could not be written
"""

import os
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from cordwood.errors import StorageError, UsageError

if TYPE_CHECKING:
    from cordwood.doctor import Report

CONTENTS = {"json": "the report as JSON", "html": "the report as a page", "pstats": "the profile"}
# What stands in nearly every script that has options: argparse, sys.argv, get_args(), and libraries for the same.
_TAKES_WORDS = ("arg", "click", "typer", "fire", "hydra", "flags", "option", "conf", "json", "html", "pstats")
WRONG_USE = 2  # also argparse's code in most scripts, for an option that they do not know


def check_outputs(files: dict[str, Path | None]) -> None:
    """Refuse what cannot be written before hours of training, not after them."""
    seen: dict[Path, str] = {}
    for option, file in files.items():
        if file is None:
            continue
        where = f"{option} {file}"
        if file.is_dir():
            raise UsageError(f"{where} is a folder, but the name of a file is expected")
        if not file.absolute().parent.is_dir():
            raise UsageError(f"{where}: there is no folder {file.absolute().parent}")
        there = file if file.exists() else file.absolute().parent
        if not os.access(there, os.W_OK):
            raise UsageError(f"{where} may not be written: {there} is read-only, or somebody else's; choose another")
        other = seen.setdefault(file.resolve(), option)
        if other != option:
            raise UsageError(f"{where} is the same file as that of {other}")


def save(report: "Report", files: dict[str, Path | None]) -> list[str]:
    """Write the files; what is to be told of those that cannot be written after all."""
    unsaved = []
    for suffix, file in files.items():
        try:
            if file is not None:
                report.save_as(suffix, file)
        except StorageError as error:
            unsaved.append(f"cordwood: {error}")
    return unsaved


def changed_at(file: Path | None) -> int | None:
    """When a file was last written; None if it is not there."""
    return file.stat().st_mtime_ns if file is not None and file.exists() else None


def of_rank(file: Path | None, rank: int) -> Path | None:
    """Each rank of a torchrun job writes a file of its own."""
    return file.with_suffix(f".rank{rank}{file.suffix}") if file is not None and rank else file


def misplaced(words: list[str]) -> dict[str, str]:
    """Files that may be asked of us behind the script's name, by option; many scripts have a --json of their own."""
    found = {}
    for word, following in pairwise([*words[1:], ""]):
        option, equals, value = word.partition("=")
        if option.startswith("--") and option[2:] in CONTENTS:
            found[option] = value if equals else following
    return found


def are_nobodys(asked: dict[str, str], script: str) -> list[str]:
    """All of these, if the script seems to take no words at all; where it does, it may take them from anywhere."""
    try:
        text = Path(script).read_text(encoding="utf-8", errors="replace").lower()
    except OSError:  # a folder with a __main__
        return []
    return [] if any(word in text for word in _TAKES_WORDS) else list(asked)


def are_unmet(asked: dict[str, str], code: int, folder: Path) -> list[str]:
    """Those that the script refused, or after which no file of the name is there."""
    return [
        option
        for option, file in asked.items()
        if code == WRONG_USE or (file.lower().endswith(f".{option[2:]}") and not (folder / file).exists())
    ]


def tell_of_misplaced(script: str, options: list[str], module: bool, stderr: TextIO) -> None:
    """The script gets these words, and most scripts ignore what they do not know."""
    for option in options:
        print(
            f"cordwood: {option} stands behind {script}, so it goes to the script; the doctor's own options come "
            f"before: cordwood doctor {option} FILE {'-m ' if module else ''}{script}",
            file=stderr,
            flush=True,
        )
