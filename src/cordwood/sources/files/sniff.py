"""Finds out what a file or folder holds, from a short look at its content.

    kind_of(Path("a.dat"))       # "images", "tensors" or None
    survey(Path("downloads"))    # what the first few hundred files below a folder are

Nothing but plain files is ever opened: a pipe would wait for ever, and a device may do anything.
"""

import os
import stat
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from cordwood.errors import FormatError, Reason, StorageError
from cordwood.images import sniff as image_format
from cordwood.tensors import is_cord, is_legacy, is_safetensors, is_zip

IMAGES: Final = "images"
TENSORS: Final = "tensors"
_FIRST_BYTES = 512
_MOST_FILES = 256  # that a survey opens
_MOST_ENTRIES = 20_000  # that it walks past
_FILES_A_FOLDER = 32
_NUMPY = b"\x93NUMPY"
# By the name of an archive's first entry. A .pt file's entries lie in a folder; it was zipped again if they do not.
_TENSOR_ENTRIES = (".npy", ".pt", ".pth", ".cord", ".safetensors", "/data.pkl", "/.format_version", "/byteorder")


def read_file(path: Path, most: int | None = None) -> bytes:
    """The bytes of a plain file; a FormatError if it is none, or has more than `most`."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise FormatError("it is no plain file")
        if most is not None and status.st_size > most:
            raise FormatError(f"it has {status.st_size:,} bytes, and at most {most:,} are expected", Reason.LIMIT)
        with path.open("rb", buffering=0) as file:
            return file.read()
    except OSError as error:
        raise StorageError(error.errno, f"it cannot be read: {error.strerror}") from error


def first_bytes(path: Path, length: int = _FIRST_BYTES) -> tuple[bytes, int]:
    """How a plain file begins, and its size; nothing and -1 if it is none or cannot be read."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return b"", -1
        with path.open("rb", buffering=0) as file:
            return file.read(length) or b"", os.fstat(file.fileno()).st_size
    except (OSError, ValueError):
        return b"", -1


def kind_of(path: Path) -> str | None:
    """Whether a file holds an image or tensors, by its first bytes."""
    first, size = first_bytes(path)
    if image_format(first) is not None:
        return IMAGES
    return TENSORS if _holds_tensors(first, size) else None


def _holds_tensors(first: bytes, size: int) -> bool:
    if first.startswith(_NUMPY) or is_legacy(first) or is_safetensors(first, size):
        return True
    if not is_zip(first) or len(first) < 30:
        return False
    name = first[30 : 30 + int.from_bytes(first[26:28], "little")].decode("utf-8", "replace")
    return is_cord(first) or name.endswith(_TENSOR_ENTRIES)


@dataclass
class FolderSurvey:
    """What was found among the first files of a folder."""

    kinds: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)  # of files that are neither images nor tensors
    was_stopped: bool = False  # there was more than was looked at

    @property
    def is_empty(self) -> bool:
        """Whether everything was looked at, and no file found."""
        return not (self.kinds or self.endings or self.was_stopped)

    def __str__(self) -> str:
        told = [f"{count} of {kind}" for kind, count in sorted(self.kinds.items())]
        told += [f"{count} {ending}" for ending, count in self.endings.most_common(5)]
        if not told:
            return "no files"
        return f"{'among the first files ' if self.was_stopped else ''}{', '.join(told)}"


def survey(folder: Path) -> FolderSurvey:
    """Look at some files of every folder, hidden ones and links to folders left out, a few hundred at most."""
    found = FolderSurvey()
    waiting = [os.fspath(folder)]
    files = entries_seen = 0
    while waiting:
        here = 0
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    entries_seen += 1
                    if files >= _MOST_FILES or entries_seen >= _MOST_ENTRIES:
                        found.was_stopped = True
                        return found
                    if entry.name.startswith("."):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif _is_file(entry):
                        if here == _FILES_A_FOLDER:
                            found.was_stopped = True
                            break
                        here += 1
                        files += 1
                        _count(found, Path(entry.path))
        except OSError:  # a folder that cannot be listed is told of when it is to be
            found.was_stopped = True
    return found


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Also by a link: whether it may be followed is decided when the files are listed."""
    try:
        return entry.is_file()
    except OSError:  # a link to itself
        return False


def _count(found: FolderSurvey, path: Path) -> None:
    kind = kind_of(path)
    if kind is not None:
        found.kinds[kind] += 1
    else:
        ending = path.suffix.lower()
        found.endings[f"*{ending.encode('utf-8', 'backslashreplace').decode()}" if ending else "without an ending"] += 1
