"""The rows of a shard that is being written: some in memory, the others in a file without a name.

    rows = SpooledRows("train.cordwood")
    rows.append(packed)
    rows.size, rows.read(0, 4096), list(rows.pieces(40))

A million small samples have more bytes in rows than in frames, and all of them are needed when the shard ends.
"""

import os
import tempfile
import weakref
from collections.abc import Iterator

from cordwood.errors import StorageError

_IN_MEMORY = 1 << 20
_AT_ONCE = 1 << 20


class SpooledRows:
    """Bytes that are added at the end and read anywhere; `folder` is where a file may be made."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.size = 0
        self._folder = folder
        self._memory = bytearray()  # what is not in the file
        self._in_file = 0
        self._fd = -1
        self._closing: weakref.finalize[[int], SpooledRows] | None = None

    def append(self, data: bytes) -> None:
        """Add bytes behind all others."""
        self._memory += data
        self.size += len(data)
        if len(self._memory) >= _IN_MEMORY:
            self._spool()

    def _spool(self) -> None:
        try:
            if self._fd < 0:
                # A descriptor alone, used by offsets: a forked process, which has it too, changes nothing in the file.
                with tempfile.TemporaryFile(dir=self._folder, buffering=0) as file:
                    self._fd = os.dup(file.fileno())
                self._closing = weakref.finalize(self, os.close, self._fd)
            view = memoryview(self._memory)
            while view:
                done = os.pwrite(self._fd, view, self._in_file)
                self._in_file += done
                view = view[done:]
        except OSError as error:
            raise _failure(error) from error
        self._memory = bytearray()

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`."""
        found = []
        try:
            while start < min(end, self._in_file):
                found.append(os.pread(self._fd, min(end, self._in_file) - start, start))
                start += len(found[-1])
        except OSError as error:
            raise _failure(error) from error
        found.append(bytes(self._memory[start - self._in_file : max(end - self._in_file, 0)]))
        return b"".join(found)

    def pieces(self, row_size: int) -> Iterator[bytes]:
        """All rows, some at a time."""
        step = max(_AT_ONCE // row_size, 1) * row_size
        for start in range(0, self.size, step):
            yield self.read(start, min(start + step, self.size))

    def close(self) -> None:
        """Let go of the file; once is enough."""
        if self._closing is not None:
            self._closing()


def _failure(error: OSError) -> StorageError:
    return StorageError(error.errno, f"{error.strerror or error}: the rows of a shard cannot be kept until it ends")
