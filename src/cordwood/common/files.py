"""Opens files for reading, and refuses anything that is not a regular file.

with opened("train.cordwood/store.json", "the manifest") as fd:
    data = os.pread(fd, 100, 0)
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from cordwood.errors import FormatError, StorageError

_AT_ONCE = 1 << 30  # one system call moves less than 2 GiB


@contextmanager
def opened(path: str | os.PathLike[str], what: str) -> Iterator[int]:
    """A descriptor of a regular file; a pipe or a device is refused, since reading it might take for ever.

    What the system refuses, also in the block, becomes a StorageError that tells `what` cannot be read.
    """
    shown = os.fspath(path)
    try:
        fd = os.open(shown, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise FormatError(f"{shown}: this is not a regular file: {what} cannot be in it")
            yield fd
        finally:
            os.close(fd)
    except StorageError:
        raise
    except OSError as error:
        raise StorageError(error.errno, f"{error.strerror or error}: {what} cannot be read", shown) from error


def read_all(path: str | os.PathLike[str], what: str, most: int) -> bytes:
    """All bytes of a file that has at most so many."""
    with opened(path, what) as fd:
        size = os.fstat(fd).st_size
        if size > most:
            raise FormatError(f"{os.fspath(path)}: {size} bytes, but {what} has at most {most}")
        parts: list[bytes] = []
        done = 0
        # What a writer adds meanwhile is not waited for.
        while done < size and (part := os.pread(fd, min(size - done, _AT_ONCE), done)):
            parts.append(part)
            done += len(part)
        return b"".join(parts)
