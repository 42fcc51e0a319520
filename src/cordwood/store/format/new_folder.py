"""Makes a store in a temporary folder next to its place, and renames it when it is complete.

    with beside(Path("all.cordwood")) as folder:
        ...                     # write into the folder
    # now it is all.cordwood

So what has the name that was asked for is complete, and an exception leaves nothing behind.
"""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cordwood.common.atomic_file import replacing
from cordwood.common.files import opened
from cordwood.errors import StorageError, UsageError
from cordwood.store.format.folder import sync_parent

_AT_ONCE = 16 << 20  # bytes


def set_aside(store: Path) -> Path:
    """Where an older store waits while a newer one takes its place."""
    return store.with_name(f".{store.name}.before-update")


@contextmanager
def beside(target: Path) -> Iterator[Path]:
    """A folder that gets the name it should have when the block is left without an exception."""
    folder = target.parent / f".{target.name}.cordwood-{os.getpid()}-{secrets.token_hex(6)}.part"
    try:
        folder.mkdir()
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: nothing was written", str(target)) from error
    try:
        yield folder
        if target.exists():
            raise UsageError(f"{target} has come into being meanwhile; nothing was written")
        try:
            folder.rename(target)
        except OSError as error:
            raise StorageError(error.errno, f"{error.strerror or error}: nothing was written", str(target)) from error
    except BaseException:
        with suppress(OSError):  # what went wrong is said by the exception
            shutil.rmtree(folder)
        raise
    sync_parent(target)


def copy_file(path: Path, target: Path, what: str) -> None:
    """A copy that is on the disk when this returns; `what` says in messages what it is a copy of."""
    with opened(path, what) as fd, replacing(target, durable=True) as file:
        while data := os.pread(fd, _AT_ONCE, file.tell()):
            file.write(data)


def link_or_copy(path: Path, target: Path, what: str) -> bool:
    """The same file under another name, or a copy where the file system has no links to it; whether it is a link.

    Files of stores are replaced, never changed, so two stores can share one. A link is on the disk for good when its
    folder was synced.
    """
    with opened(path, what):  # a regular file, that is
        pass
    try:
        os.link(os.path.realpath(path), target)
    except FileExistsError:
        raise
    except OSError:  # another file system, one without links, too many of them: a copy does as well
        copy_file(path, target, what)
        return False
    return True
