"""Chooses where shards are read from: mapped files, or a copy in memory.

    choice = chosen("auto", reader, shards)
    choice.memory, choice.is_sparse   # "mmap" or "ram"; whether the files are larger than what can stay in memory

Shards stay compressed in memory, so that many times more samples fit than as tensors. Mapped files are as fast while
the system's cache has them: on a local disk they are the better choice, because the memory remains the system's. On a
file system that is reached over a network, a page that was dropped is fetched again sample by sample; there a copy is
made, if it fits. Files that are larger than the memory are read sample by sample, some batches ahead.
"""

import logging
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

from cordwood.common.resources import available_memory
from cordwood.common.text import human
from cordwood.errors import CordwoodError, UsageError
from cordwood.feed.ahead.background import Background
from cordwood.feed.order.ranks import ranks_here
from cordwood.store import Numbers, Reader

log = logging.getLogger("cordwood.feed")

Memory = Literal["auto", "mmap", "ram"]
CHOICES: Final[tuple[Memory, ...]] = get_args(Memory)
_REMOTE: Final = (
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "gfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "virtiofs", "wekafs",
)  # fmt: skip
_SHARE: Final = 0.5  # of the memory that is free: others want some, too


class Copying:
    """Shards on their way into memory: a thread copies them, and whoever reads meanwhile reads the files.

    ``told`` says how far it is. Forgetting it stops the thread.
    """

    def __init__(self, reader: Reader, shards: Numbers) -> None:
        self._told = ["ram, loading"]  # the thread must not refer to this object
        self._background: Background[None] = Background(partial(_copied, reader, shards, self._told), 1, "cordwood-ram")

    @property
    def told(self) -> str:
        """For people: "ram" when it is done, "mmap" if it failed."""
        return self._told[0]


def _copied(reader: Reader, shards: Numbers, told: list[str]) -> Iterator[list[None]]:
    try:
        for _ in reader.shards.loading(shards):
            yield []
        told[0] = "ram"
    except (CordwoodError, OSError, MemoryError) as error:
        # Not an end: the files are still read, and what is wrong with them is told where it matters.
        told[0] = "mmap"
        log.warning("shards are not copied into memory, and read from their files instead: %s", error)


class Chosen(NamedTuple):
    """How the shards are read."""

    memory: str
    is_sparse: bool


def chosen(memory: str, reader: Reader, shards: Numbers) -> Chosen:
    """`memory` itself, or what suits the file system where it says "auto"."""
    size, room = reader.shards.nbytes_of(shards), _SHARE * available_memory()
    if memory == "auto":
        fits = size * ranks_here() < room  # every rank makes a copy; the system's cache is one for all
        copied = fits and any(is_remote(path) for path in reader.shards.paths)
        memory = "ram" if copied else "mmap"
    if memory == "ram" and size > (free := available_memory()):
        raise UsageError(
            f"memory='ram' would copy {human(size)} into memory, and {human(free)} are free: use 'mmap', or a part of "
            "the dataset"
        )
    return Chosen(memory, is_sparse=memory == "mmap" and size > room)


def is_remote(path: Path, mounts: Iterable[str] | None = None) -> bool:
    """Whether a folder is on a file system of another machine, as far as the mounts tell."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mounts").read_text().splitlines()
        except OSError:
            return False
    parents = {str(one) for one in (path.resolve(), *path.resolve().parents)}
    kind, deepest = "", ""
    for line in mounts:
        words = line.split()
        if len(words) < 3:
            continue
        at = words[1].replace("\\040", " ")
        if at in parents and len(at) >= len(deepest):
            kind, deepest = words[2], at
    return kind in _REMOTE or (kind.startswith("fuse.") and kind != "fuse.fuseblk")
