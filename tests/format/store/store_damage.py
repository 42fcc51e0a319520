"""Damage to the files of a store, one kind a function; each gives (what was done, file, its bytes or None for gone).

::

    damaged = Damaged(folder, path)
    for what, changes in flips(folder):
        with damaged.by(changes):
            ...
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

from tests.format.store.craft_store import Folder, write

Changes = Mapping[str, bytes | None]
Damage = Iterator[tuple[str, Changes]]


class Damaged:
    """A store on disk that is damaged and made good again, time after time."""

    def __init__(self, folder: Folder, path: Path) -> None:
        self.folder, self.path = folder, write(folder, path)

    @contextmanager
    def by(self, changes: Changes) -> Iterator[None]:
        """The store with these files changed, or gone where they are None."""
        try:
            for name, data in changes.items():
                (self.path / name).unlink(missing_ok=True)
                if data is not None:
                    (self.path / name).write_bytes(data)
            yield
        finally:
            for name in changes:
                (self.path / name).unlink(missing_ok=True)
                if name in self.folder:
                    (self.path / name).write_bytes(self.folder[name])


def folder_of(path: Path) -> Folder:
    """All files of a store on disk."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


def flips(folder: Folder, every: int = 1) -> Damage:
    """One bit of every byte of every file, or of every n-th byte."""
    for name, data in folder.items():
        for at in range(0, len(data), every):
            flipped = bytearray(data)
            flipped[at] ^= 1 << at % 8
            yield f"bit {at % 8} of byte {at} of {name}", {name: bytes(flipped)}


def bytes_set(folder: Folder, every: int = 1) -> Damage:
    """Every byte of every file zeroed, or set to 255 if it was zero."""
    for name, data in folder.items():
        for at in range(0, len(data), every):
            value = 0 if data[at] else 255
            yield f"byte {at} of {name} is {value}", {name: data[:at] + bytes([value]) + data[at + 1 :]}


def truncations(folder: Folder, every: int = 1) -> Damage:
    """Every length of every file, down to none."""
    for name, data in folder.items():
        for size in range(0, len(data), every):
            yield f"{name} cut to {size} bytes", {name: data[:size]}


def removals(folder: Folder) -> Damage:
    """Every file, and every two of them; but not the index with the last shard, which nothing else tells of."""
    last = max(name for name in folder if name.startswith("shard-"))
    for name in folder:
        yield f"{name} is missing", {name: None}
    for pair in combinations(folder, 2):
        if set(pair) != {"shards.bin", last}:
            yield f"{' and '.join(pair)} are missing", dict.fromkeys(pair)


def additions(folder: Folder) -> Damage:
    """Something behind the end of every file."""
    for name, data in folder.items():
        for more in (b"\0", b"\n", b"}", b"x" * 100, bytes(64), bytes(4096), data[-64:], data):
            yield f"{len(more)} bytes {more[:1]!r} behind {name}", {name: data + more}


def exchanges(folder: Folder) -> Damage:
    """Every file in the place of every other, and any two exchanged."""
    for one, other in combinations(folder, 2):
        if folder[one] != folder[other]:
            yield f"{one} and {other} are exchanged", {one: folder[other], other: folder[one]}
            yield f"{one} is in the place of {other}, too", {other: folder[one]}
            yield f"{other} is in the place of {one}, too", {one: folder[other]}


def holes(folder: Folder, size: int = 16) -> Damage:
    """Runs of bytes that became zero, moved, or were taken out: what lost or misplaced blocks look like."""
    for name, data in folder.items():
        for at in range(0, len(data), size):
            end = min(at + size, len(data))
            if any(data[at:end]):
                yield f"bytes {at} to {end} of {name} are zero", {name: data[:at] + bytes(end - at) + data[end:]}
            yield f"bytes {at} to {end} of {name} are taken out", {name: data[:at] + data[end:]}
            moved = data[:at] + data[:size] + data[end:]
            if len(moved) == len(data) and moved != data:
                yield f"bytes {at} to {end} of {name} are those of its beginning", {name: moved}
