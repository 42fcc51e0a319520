"""The folder of a store: its size, and what a writer does with it: creates or finds, locks and cleans it."""

import errno
import os
import re
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from cordwood.common.arguments import one_of
from cordwood.common.atomic_file import sync_folder
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.store.format import manifest, shard_index
from cordwood.store.format.lock import NAME as LOCK_NAME
from cordwood.store.format.lock import WriterLock
from cordwood.store.format.manifest import Manifest
from cordwood.store.format.shard_file import shard_name

Mode = Literal["create", "append", "resume"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
_PART = re.compile(r"\..*\.cordwood-[0-9]+-[0-9a-f]+\.part")
_SHARD = re.compile(r"shard-[0-9]+\.cws")


@dataclass
class OpenFolder:
    """A folder that is ours to write to until the lock is released."""

    path: Path
    lock: WriterLock
    manifest: Manifest | None  # None: nothing was there
    committed: int = 0  # samples
    shards: int = 0
    is_new: bool = False  # the folder itself was made, too

    def discard(self) -> None:
        """Remove a folder without samples, unless it was there before; the lock is still to be released."""
        (self.path / LOCK_NAME).unlink(missing_ok=True)
        if self.is_new:
            with suppress(OSError):  # another process uses it
                self.path.rmdir()


def open_folder(path: Path, mode: str) -> OpenFolder:
    """Make the folder or find the store, by `mode`, and lock it; a new one has no files yet."""
    one_of("mode", mode, MODES)
    if "\0" in str(path):
        raise UsageError(f"{str(path)[:100]!r} cannot be the path of a folder")
    if path.exists() and not path.is_dir():
        raise UsageError(f"{path} is a file, but a store is a folder: choose another name")
    found, is_new = (path / manifest.NAME).exists(), not path.exists()
    if mode == "append" and not found:
        raise UsageError(f"{path} is not a store, so nothing can be appended: make one with mode='create'")
    if not found:
        _refuse_foreign(path)
        make_folder(path)
    elif mode == "create":
        raise _exists(path)
    lock = WriterLock(path)
    try:
        if (path / manifest.NAME).exists():  # perhaps since a moment ago: another writer made it
            if mode == "create":
                raise _exists(path)
            return _continue(path, lock)
        _remove_parts(path)
        return OpenFolder(path, lock, None, is_new=is_new)
    except BaseException:
        lock.release()
        raise


def store_bytes(store: str | os.PathLike[str]) -> int:
    """The size of a store: the bytes of all files in its folder, but of hidden ones, such as the lock, and of links."""
    total = 0
    for folder, folders, names in os.walk(store):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            with suppress(OSError):  # a writer may just have renamed it
                status = os.lstat(Path(folder, name))
                total += status.st_size if stat.S_ISREG(status.st_mode) and not name.startswith(".") else 0
    return total


def _exists(path: Path) -> UsageError:
    return UsageError(
        f"{path} is a store already: mode='append' adds to it, mode='resume' goes on where a writer was stopped, and "
        "mode='create' needs another name"
    )


def _refuse_foreign(path: Path) -> None:
    """Files that are not a writer's leftovers are somebody else's."""
    if not path.exists():
        return
    names = _names(path)
    if any(_SHARD.fullmatch(name) for name in names):
        raise FormatError(
            f"{path} has shards, but its {manifest.NAME} is missing: restore it from a copy, or keep what is good "
            "with `cordwood verify --salvage`"
        )
    others = [name for name in names if name != LOCK_NAME and not _PART.fullmatch(name)]
    if others:
        raise UsageError(
            f"{path} holds other things ({', '.join(sorted(others)[:3])}): a store has a folder of its own; choose "
            "another name"
        )


def _names(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.iterdir()]
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: the folder cannot be read", str(path)) from error


def make_folder(path: Path) -> None:
    """Make the folder of a store, if it is not there."""
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        advice = "; make the folder above it first" if error.errno == errno.ENOENT else ""
        reason = f"{error.strerror or error}: the store's folder cannot be made{advice}"
        raise StorageError(error.errno, reason, str(path)) from error


def _remove_parts(path: Path) -> None:
    """Files that were being written when a writer was killed. With the lock held they are nobody's."""
    inside = [path / name for name in _names(path)]
    for folder in (path, *(each for each in inside if each.is_dir() and not each.is_symlink())):
        for name in _names(folder):
            if _PART.fullmatch(name):
                (folder / name).unlink(missing_ok=True)


def _continue(path: Path, lock: WriterLock) -> OpenFolder:
    """What was finished; what was not is removed, and the index is mended."""
    stored = manifest.read(path)
    index = shard_index.read(path)
    wanted = stored.schema.hash if stored.schema is not None else None
    for number in (index.records["schema_hash"] != (wanted or 0)).nonzero()[0].tolist() if len(index.records) else ():
        raise FormatError(
            f"{path / shard_name(number)}: this shard is damaged or has other fields than the store: nothing is "
            "added to it before `cordwood verify` finds the store good"
        )
    _remove_parts(path)
    shard_index.mend(path, index)
    return OpenFolder(path, lock, stored, index.samples, len(index.records))


def sync_parent(path: Path) -> None:
    """The folder itself is on the disk, name and all."""
    sync_folder(str(path), path.parent, "the folder")
