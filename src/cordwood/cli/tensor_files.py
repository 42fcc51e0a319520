"""Finds the tensor files that a command was given: files by name, and those in folders by suffix."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cordwood.common.suggest import did_you_mean_path
from cordwood.errors import UsageError

SUFFIXES = (".pt", ".pth", ".ckpt", ".bin", ".cord", ".safetensors", ".pt.zip", ".pth.tar")
# Files of other programs have these suffixes too: in a folder, what is no tensor file is passed over.
_SHARED = (".bin", ".tar")
_FIRST_BYTES = 64


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file, and the folder that it was found in, if it was not named itself."""

    path: Path
    folder: Path | None = None

    @property
    def inside(self) -> Path:
        """Where it goes below a folder for results."""
        return Path(self.path.name) if self.folder is None else self.path.relative_to(self.folder)


def find_files(given: Iterable[str], leave_out: Path | None = None) -> list[FoundFile]:
    """All files, in order; a UsageError if there is nothing under a name. `leave_out` is a folder for results."""
    found: dict[Path, FoundFile] = {}
    for word in given:
        path = Path(word)
        if path.is_dir():
            inside = list(_in_folder(path, leave_out))
            if not inside:
                raise UsageError(_why_nothing(path, word))
            for each in inside:
                found.setdefault(each, FoundFile(each, path))
        elif path.exists():
            found.setdefault(path, FoundFile(path))
        else:
            raise UsageError(f"{word}: no such file or folder{did_you_mean_path(path)}")
    return list(found.values())


def _why_nothing(folder: Path, word: str) -> str:
    """What to do with a folder that has no tensor files in it."""
    from cordwood.store import is_store

    if is_store(folder):
        return f"{word} is a store, and has no tensor files in it: cordwood inspect {word} shows what it holds"
    message = f"{word} has no tensor files in it ({', '.join(SUFFIXES)})"
    store = next((each for each in sorted(folder.iterdir()) if each.is_dir() and is_store(each)), None)
    return message if store is None else f"{message}; stores are named one by one: cordwood inspect {store}"


def _in_folder(folder: Path, leave_out: Path | None) -> Iterable[Path]:
    for above, folders, files in os.walk(folder):
        here = Path(above)
        folders[:] = sorted(name for name in folders if leave_out is None or not _same(here / name, leave_out))
        for name in sorted(files):
            path = here / name
            if name.lower().endswith(SUFFIXES) and path.is_file() and _plausible(path):
                yield path


def _same(one: Path, other: Path) -> bool:
    return other.exists() and one.samefile(other)


def _plausible(path: Path) -> bool:
    """Whether a file with a suffix that others use too looks like one of tensors."""
    if not path.name.lower().endswith(_SHARED):
        return True
    try:
        with path.open("rb") as file:
            first = file.read(_FIRST_BYTES)
    except OSError:
        return True  # the verb says what is wrong with it
    # A zip, the pickle of torch's magic number, or a length and a JSON object.
    return first.startswith(b"PK") or b"\x8a\n" in (first[2:4], first[11:13]) or first[8:9] == b"{"
