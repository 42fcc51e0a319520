"""The bytes of a path, a file object or a buffer, read at any offset and never beyond the end.

    with open_source("model.pt") as source:
        first = source.read(0, 8)

A small file is read whole when it is opened, because a loop over thousands of small files pays for every system call.
A large one is read piece by piece with `pread`, which threads may do at the same time, or mapped.
"""

import contextlib
import io
import mmap
import os
import stat
import threading
from abc import ABC, abstractmethod
from pathlib import Path
from typing import IO, Any, Self

from cordwood.common.suggest import MissingFileError
from cordwood.errors import FormatError, Reason, UsageError

_SMALL = 1 << 20  # a file up to this size is read whole at opening
_AT_ONCE = 1 << 30  # one system call moves less than 2 GiB
# Seekable in name only: going back in a compressed stream means to inflate it again from its start.
_COMPRESSED = frozenset({"bz2", "gzip", "lzma", "zipfile"})
_Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class ByteSource(ABC):
    """Bytes that can be read at any offset. Made by `open_source`; a context manager.

    `path` is the regular file that the bytes are in, and `base` where in it they start; None where there is no such
    file. `name` is for messages.
    """

    __slots__ = ("base", "name", "path", "size")

    def __init__(self, size: int, name: str, path: str | None = None, base: int = 0) -> None:
        self.size = size
        self.name = name
        self.path = path
        self.base = base

    @abstractmethod
    def read(self, offset: int, length: int) -> bytes | memoryview:
        """Exactly `length` bytes from `offset` on; a FormatError if the source does not have them."""

    @abstractmethod
    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the whole `buffer` with the bytes from `offset` on."""

    @abstractmethod
    def part(self, offset: int, length: int, name: str) -> "ByteSource":
        """A window of this source. It reads from the same file and is of no use once that is closed."""

    @abstractmethod
    def map(self) -> memoryview:
        """All bytes as read-only memory, of which a file's pages are read when they are touched.

        The view stays good after `close`. A file that another process truncates takes its mapping down with it, so what
        can be read with `read` is better read so.
        """

    def map_private(self) -> Any:
        """A buffer of the file up to the end of this source that can be written to and never changes the file.

        It is the file that is open, whatever its name stands for by now.
        """
        raise UsageError(f"{self.name} cannot be mapped: mmap=True needs the path of a plain file")

    def close(self) -> None:  # noqa: B027 - what lies in memory has nothing to close
        """Close the file, if this source opened it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}, {self.size} bytes>"

    def _beyond(self, offset: int, length: int) -> FormatError:
        found = max(0, min(self.size - offset, length)) if offset >= 0 else 0
        return FormatError(
            f"{self.name}: found {found} bytes at offset {offset}, expected {length}: the file has {self.size} bytes. "
            "It was cut short or is damaged: fetch or write it again.",
            Reason.TRUNCATED,
        )


class _Memory(ByteSource):
    __slots__ = ("_view",)

    def __init__(self, view: memoryview, name: str, path: str | None = None, base: int = 0) -> None:
        super().__init__(len(view), name, path, base)
        self._view = view

    def read(self, offset: int, length: int) -> memoryview:
        end = offset + length
        if offset < 0 or length < 0 or end > self.size:
            raise self._beyond(offset, length)
        return self._view[offset:end]

    def read_into(self, offset: int, buffer: memoryview) -> None:
        buffer[:] = self.read(offset, len(buffer))

    def part(self, offset: int, length: int, name: str) -> ByteSource:
        return _Memory(self.read(offset, length), name, self.path, self.base + offset)

    def map(self) -> memoryview:
        return self._view

    def map_private(self) -> Any:
        # What was read is what the file was; a copy of it can be written to.
        copied = bytearray(self.base + self.size)
        copied[self.base :] = self._view
        return copied


class _OpenFile:
    """A file descriptor and its mapping, shared by a source and its parts."""

    __slots__ = ("_mapping", "fd")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._mapping: memoryview | None = None

    def mapping(self) -> memoryview:
        if self._mapping is None:
            self._mapping = memoryview(mmap.mmap(self.fd, 0, access=mmap.ACCESS_READ))
        return self._mapping

    def close(self) -> None:
        fd, self.fd = self.fd, -1
        self._mapping = None  # the mapping itself lives as long as somebody looks at it
        if fd >= 0:
            os.close(fd)

    __del__ = close


class _File(ByteSource):
    __slots__ = ("_file", "_owner")

    def __init__(self, file: _OpenFile, size: int, name: str, path: str | None, base: int, *, owner: bool) -> None:
        super().__init__(size, name, path, base)
        self._file = file
        self._owner = owner

    def read(self, offset: int, length: int) -> bytes | memoryview:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise self._beyond(offset, length)
        if length <= _AT_ONCE:
            data = os.pread(self._open().fd, length, self.base + offset)
            if len(data) == length:
                return data
        buffer = memoryview(bytearray(length))
        self.read_into(offset, buffer)
        return buffer.toreadonly()

    def read_into(self, offset: int, buffer: memoryview) -> None:
        length = len(buffer)
        if offset < 0 or offset + length > self.size:
            raise self._beyond(offset, length)
        fd, done = self._open().fd, 0
        while done < length:
            read = os.preadv(fd, [buffer[done : done + _AT_ONCE]], self.base + offset + done)
            if not read:  # shorter now than when it was opened
                self.size = offset + done
                raise self._beyond(offset, length)
            done += read

    def part(self, offset: int, length: int, name: str) -> ByteSource:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise self._beyond(offset, length)
        return _File(self._open(), length, name, self.path, self.base + offset, owner=False)

    def map(self) -> memoryview:
        view = self._open().mapping()[self.base : self.base + self.size]
        if len(view) < self.size:
            raise self._beyond(0, self.size)
        return view

    def map_private(self) -> Any:
        mapped = mmap.mmap(self._open().fd, 0, access=mmap.ACCESS_COPY)
        if len(mapped) < self.base + self.size:
            raise self._beyond(0, self.size)
        return mapped

    def close(self) -> None:
        if self._owner:
            self._file.close()

    def _open(self) -> _OpenFile:
        if self._file.fd < 0:
            raise UsageError(f"{self.name} is closed: read from it before its source is closed")
        return self._file


class _Seekable(ByteSource):
    """A file object without a descriptor that we could read from by ourselves."""

    __slots__ = ("_file", "_lock", "_start", "_whole")

    def __init__(self, file: IO[bytes], start: int, size: int, name: str, lock: threading.Lock) -> None:
        super().__init__(size, name)
        self._file = file
        self._start = start
        self._lock = lock  # seek and read are two calls
        self._whole: memoryview | None = None

    def read(self, offset: int, length: int) -> memoryview:
        if length < 0 or offset + length > self.size:
            raise self._beyond(offset, length)
        buffer = memoryview(bytearray(length))
        self.read_into(offset, buffer)
        return buffer.toreadonly()

    def read_into(self, offset: int, buffer: memoryview) -> None:
        length, done = len(buffer), 0
        if offset < 0 or offset + length > self.size:
            raise self._beyond(offset, length)
        with self._lock:
            self._file.seek(self._start + offset)
            while done < length:
                count = self._read_some(buffer[done : done + _AT_ONCE])
                if not count:
                    self.size = offset + done
                    raise self._beyond(offset, length)
                done += count

    def _read_some(self, buffer: memoryview) -> int:
        """Read at most what fits into the buffer; without a copy where the file object can."""
        if hasattr(self._file, "readinto"):
            return self._file.readinto(buffer) or 0
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def part(self, offset: int, length: int, name: str) -> ByteSource:
        if offset < 0 or length < 0 or offset + length > self.size:
            raise self._beyond(offset, length)
        return _Seekable(self._file, self._start + offset, length, name, self._lock)

    def map(self) -> memoryview:
        if self._whole is None:
            self._whole = self.read(0, self.size)
        return self._whole


def open_source(path_or_file: Any) -> ByteSource:
    """The bytes of a file, a file object from its present position on, or a bytearray or memoryview.

    ::

        with open_source("model.pt") as source, open_source(io.BytesIO(downloaded)) as other:
            same = source.size == other.size

    `bytes` are a path, as for `open`.
    """
    if isinstance(path_or_file, str | bytes | os.PathLike):
        return _open_path(path_or_file)
    if isinstance(path_or_file, bytearray | memoryview):
        return _Memory(_flat(memoryview(path_or_file)), "<memory>")
    if isinstance(path_or_file, io.TextIOBase):
        raise UsageError(f"{_name_of(path_or_file)} is open as text: open it with mode 'rb'")
    if not hasattr(path_or_file, "read"):
        raise UsageError(f"a {type(path_or_file).__name__} is neither a path nor a file object open for reading bytes")
    return _open_object(path_or_file)


def _open_path(given: _Path) -> ByteSource:
    path = os.fspath(given)
    name = path if isinstance(path, str) else os.fsdecode(path)
    if "\0" in name:
        raise UsageError("the path contains a zero byte: to read the bytes of a file, wrap them in io.BytesIO")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError as error:
        raise MissingFileError(error.errno, error.strerror, path) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            if stat.S_ISDIR(status.st_mode):
                raise UsageError(f"{name} is a folder: name a file in it")
            return _Memory(memoryview(_read_all(fd)), name)  # a pipe, or what a shell makes of <(command)
        size = status.st_size
        if size <= _SMALL:
            data = os.read(fd, size) if size else _read_all(fd)  # files of /proc claim to be empty
            if len(data) < size:
                data = data + _read_all(fd)
            return _Memory(memoryview(data), name, name)
        kept, fd = fd, -1
        return _File(_OpenFile(kept), size, name, name, 0, owner=True)
    finally:
        if fd >= 0:
            os.close(fd)


def _open_object(file: Any) -> ByteSource:
    name = _name_of(file)
    if type(file) is io.BytesIO:
        return _Memory(memoryview(file.getvalue())[file.tell() :], name)
    if hasattr(file, "readable") and not file.readable():
        raise UsageError(f"{name} is open for writing only: open it with mode 'rb'")
    # A buffer around gzip has a descriptor too, that of the compressed file: only a buffer around a plain file will do.
    raw = file.raw if isinstance(file, io.BufferedReader | io.BufferedRandom) else file
    if isinstance(raw, io.FileIO) and stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
        return _open_descriptor(file, raw, name)
    if _module(file) in _COMPRESSED or _module(raw) in _COMPRESSED or not _can_seek(file):
        return _Memory(_bytes_of(file.read(), name), name)
    _bytes_of(file.read(0), name)
    start = file.tell()
    file.seek(0, io.SEEK_END)  # what a foreign object's seek returns is not to be relied on
    size = max(0, file.tell() - start)
    file.seek(start)
    return _Seekable(file, start, size, name, threading.Lock())


def _open_descriptor(file: Any, raw: io.FileIO, name: str) -> ByteSource:
    start, status = file.tell(), os.fstat(raw.fileno())
    size = max(0, status.st_size - start)
    path = None
    if isinstance(raw.name, str | bytes):  # else it was opened from a descriptor
        with contextlib.suppress(OSError):  # renamed or removed since it was opened
            named = Path(os.fsdecode(raw.name))
            path = str(named) if os.path.samestat(named.stat(), status) else None
    # A descriptor of our own: theirs may be closed, and its number given to another file, while we still read.
    source = _File(_OpenFile(os.dup(raw.fileno())), size, name, path, start, owner=True)
    if size > _SMALL:
        return source
    with source:
        return _Memory(memoryview(source.read(0, size)), name, path, start)


def _read_all(fd: int) -> bytes:
    pieces = []
    while piece := os.read(fd, _SMALL):
        pieces.append(piece)
    return b"".join(pieces)


def _flat(view: memoryview) -> memoryview:
    if not view.c_contiguous:
        raise UsageError("the memory is not contiguous: copy it with bytes() first")
    return (view.cast("B") if view.nbytes else memoryview(b"")).toreadonly()


def _bytes_of(data: Any, name: str) -> memoryview:
    if isinstance(data, bytes | bytearray | memoryview):
        return _flat(memoryview(data))
    raise UsageError(f"{name}: read() returned {type(data).__name__}, expected bytes: open it with mode 'rb'")


def _can_seek(file: Any) -> bool:
    seekable = getattr(file, "seekable", None)
    return bool(seekable()) if seekable is not None else hasattr(file, "seek") and hasattr(file, "tell")


def _module(file: Any) -> str:
    return str(type(file).__module__).partition(".")[0]


def _name_of(file: Any) -> str:
    name = getattr(file, "name", None)
    if isinstance(name, str | bytes | os.PathLike):
        return os.fsdecode(name)
    return f"<{type(file).__name__}>"
