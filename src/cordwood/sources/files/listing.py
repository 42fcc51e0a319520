"""Lists the files below a folder, in an order that is the same on every machine, with little memory.

    listing = list_folder(Path("photos"), wanted, sniff)
    len(listing), list(listing.files(start=500_000))

Ten million files are ten million names: they are kept as bytes in one block, their sizes and dates in arrays, about 40
bytes a file. Folders come in the order of their paths' bytes, all below one top folder together, and the files of a
folder in the order of their names' bytes.

A link that leads out of the folder, to a folder, to nothing or in a circle is listed without a size and a date: it is
an input that fails (``links``). What is hidden, and what systems leave behind, is passed over; pipes and devices are
never opened.
"""

import hashlib
import heapq
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cordwood.errors import StorageError, UsageError
from cordwood.sources.files.links import NOTHING, Links

# What systems and programs leave in folders beside what people put there.
_CLUTTER: Final = frozenset((b"thumbs.db", b"ehthumbs.db", b"desktop.ini", b"icon\r", b"__macosx", b"@eadir"))
_SHOWN = 3  # names in a note


class File(NamedTuple):
    """One file of a listing; `folder` is its folder's number, in `Listing.folders`.

    `size` and `stamp` are -1 for a link that cannot be read.
    """

    folder: int
    name: bytes
    size: int
    stamp: int

    @property
    def facts(self) -> tuple[int | None, int | None]:
        """Size and date as an `Input` has them."""
        return (None, None) if self.size < 0 else (self.size, self.stamp)


class Listing:
    """Files in order. Made by `list_folder`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folders: list[bytes] = []  # their paths below the root, which is b""; those without files, too
        self.with_others: set[bytes] = set()  # the top folders that hold what is left out
        self._left_out: dict[str, tuple[int, list[str]]] = {}  # by reason: how many, and the first ones
        self._firsts = array("q")  # the number of each folder's first file
        self._names = bytearray()
        self._ends = array("q")
        self._sizes = array("q")
        self._stamps = array("q")
        self._unreadable: dict[int, int] = {}  # links that cannot be read, by folder
        self._hash = hashlib.blake2b(digest_size=16)

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, folder: bytes, names: list[bytes], sizes: "array[int]", stamps: "array[int]") -> None:
        """Append a folder with its files, whose names are sorted."""
        self.folders.append(folder)
        self._firsts.append(len(self))
        lengths = np.fromiter(map(len, names), np.int64, len(names))
        self._ends.frombytes((len(self._names) + np.cumsum(lengths)).tobytes())
        joined = b"/".join(names)
        self._names += b"".join(names)
        if -1 in sizes:
            self._unreadable[len(self.folders) - 1] = sizes.count(-1)
        self._sizes.extend(sizes)
        self._stamps.extend(stamps)
        for part in (folder, joined, sizes.tobytes(), stamps.tobytes()):
            self._hash.update(len(part).to_bytes(8, "little"))
            self._hash.update(part)

    def leave_out(self, why: str, folder: bytes, name: bytes) -> None:
        """Remember something that is not listed."""
        count, first = self._left_out.get(why, (0, []))
        if count < _SHOWN:
            first.append(shown(join(folder, name)))
        self._left_out[why] = count + 1, first
        self.with_others.add(folder.partition(b"/")[0])

    def files(self, start: int = 0, stop: int | None = None) -> Iterator[File]:
        """The files from number `start` on, up to `stop`."""
        stop = len(self) if stop is None else min(stop, len(self))
        if start >= stop:
            return
        folder = self.folder_of(start)
        begin = self._ends[start - 1] if start else 0
        for number in range(start, stop):
            while folder + 1 < len(self._firsts) and self._firsts[folder + 1] <= number:
                folder += 1
            end = self._ends[number]
            yield File(folder, bytes(self._names[begin:end]), self._sizes[number], self._stamps[number])
            begin = end

    def folder_of(self, number: int) -> int:
        """The number of the folder that a file is in."""
        return bisect_right(self._firsts, number) - 1

    def count_in(self, folder: int) -> int:
        """How many files a folder has itself, without links that cannot be read."""
        after = self._firsts[folder + 1] if folder + 1 < len(self._firsts) else len(self)
        return after - self._firsts[folder] - self._unreadable.get(folder, 0)

    def fingerprint(self) -> str:
        """A hash of all names, sizes and dates."""
        return self._hash.hexdigest()

    def notes(self) -> list[str]:
        """What was left out, in words."""
        return [
            f"left out, {why}: {', '.join(first)}{f' and {count - _SHOWN} more' if count > _SHOWN else ''}"
            for why, (count, first) in self._left_out.items()
        ]


def list_folder(
    root: Path, wanted: Callable[[bytes], bool | None], sniff: Callable[[Path], bool], *, follow_links: bool = False
) -> Listing:
    """Every wanted file below `root`.

    `wanted` judges by the name; where it says None, `sniff` judges by the content. `follow_links` takes links to files
    that are elsewhere.
    """
    if not root.is_dir():
        raise UsageError(f"{str(root)!r:.200} is no folder")
    listing = Listing(root)
    links = Links(root, follow_links)
    waiting: list[tuple[bytes, bytes]] = [(b"", b"")]
    while waiting:
        _, folder = heapq.heappop(waiting)
        names, below, unreadable = _scan(listing, folder, wanted, sniff, links)
        for name in below:
            path = join(folder, name)
            # Folders below one top folder stay together: "a/b" comes before "a-b", as class "a" comes before "a-b".
            heapq.heappush(waiting, (path.partition(b"/")[0], path))
        _add_files(listing, folder, names, unreadable)
    return listing


def _scan(
    listing: Listing,
    folder: bytes,
    wanted: Callable[[bytes], bool | None],
    sniff: Callable[[Path], bool],
    links: Links,
) -> tuple[list[bytes], list[bytes], set[bytes]]:
    """The names of a folder's wanted files, sorted, of the folders in it, and of those files that cannot be read."""
    names, below, unreadable = [], [], set()
    try:
        with os.scandir(_system_path(listing.root, folder)) as entries:
            for entry in entries:
                name = entry.name
                if name[:1] == b".":
                    continue
                if entry.is_file(follow_symlinks=False):
                    if wanted(name) or _is_wanted(listing, folder, name, wanted, sniff):
                        names.append(name)
                elif name.lower() in _CLUTTER:
                    continue
                elif entry.is_symlink():
                    # What a link to nothing is cannot be seen in its content: it may be wanted, and so it fails.
                    if links.wrong(os.fsdecode(join(folder, name))) and wanted(name) is not False:
                        names.append(name)
                        unreadable.add(name)
                    elif _is_wanted(listing, folder, name, wanted, sniff):
                        names.append(name)
                elif entry.is_dir(follow_symlinks=False):
                    below.append(name)
                else:
                    listing.leave_out("neither file nor folder", folder, name)
    except OSError as error:
        where = shown(folder) or str(listing.root)
        raise StorageError(error.errno, f"{where!r}: the folder cannot be listed: {error.strerror}") from error
    names.sort()
    return names, below, unreadable


def _is_wanted(
    listing: Listing, folder: bytes, name: bytes, wanted: Callable[[bytes], bool | None], sniff: Callable[[Path], bool]
) -> bool:
    if name.lower() in _CLUTTER:
        return False
    judged = wanted(name)
    if judged is None:
        judged = sniff(listing.root / os.fsdecode(join(folder, name)))
    if not judged:
        listing.leave_out("of another kind", folder, name)
    return judged


def _add_files(listing: Listing, folder: bytes, names: list[bytes], unreadable: set[bytes]) -> None:
    sizes, stamps = array("q"), array("q")
    add_size, add_stamp, look = sizes.append, stamps.append, os.stat
    name = b""
    try:
        descriptor = os.open(_system_path(listing.root, folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                if name in unreadable:
                    add_size(NOTHING[0])
                    add_stamp(NOTHING[1])
                    continue
                status = look(name, dir_fd=descriptor)
                add_size(status.st_size)
                add_stamp(status.st_mtime_ns)
        finally:
            os.close(descriptor)
    except OSError as error:
        where = shown(join(folder, name))
        raise StorageError(error.errno, f"{where}: {error.strerror}: was it removed just now?") from error
    listing.add(folder, names, sizes, stamps)


def join(folder: bytes, name: bytes) -> bytes:
    """A path below the root."""
    return folder + b"/" + name if folder else name


def shown(path: bytes) -> str:
    """A path for messages: what is no text in it is escaped."""
    return path.decode("utf-8", "backslashreplace")


def _system_path(root: Path, folder: bytes) -> bytes:
    return os.path.join(os.fsencode(root), folder) if folder else os.fsencode(root)  # noqa: PTH118 - of bytes
