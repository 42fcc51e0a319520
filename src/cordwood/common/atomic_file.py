"""Files that appear whole or not at all.

    with replacing("model.pt") as file:
        file.write(header)
        file.write(weights)

The bytes go to a file beside it, `.model.pt.cordwood-<pid>-<random>.part`, which is renamed at the end. So a crash, a
full disk or an interrupt leaves the older file as it was, and a program that has the older file mapped keeps its bytes.
A killed process leaves its `.part`. The writer holds a lock on it (flock), and the next write into the folder removes
each `.part` that it can lock. Process ids would prove nothing: containers may share a folder, but not their ids.
"""

import errno
import fcntl
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cordwood.errors import StorageError, UsageError

_GATHERED = 1 << 20  # small writes are put together to about this size
_SMALL = 1 << 18
_AT_ONCE = 1 << 30  # one system call moves less than 2 GiB
_LONGEST_NAME = 255  # bytes, on the usual file systems
_TRIES = 100  # names for a new file: one that lists the folder takes a file for a leftover once

_Failure = Callable[[OSError], StorageError]


class GatheringFile:
    """Writes to a descriptor: large buffers as they are, without a copy, small ones put together first."""

    __slots__ = ("_aside", "_failure", "_fd", "_gathered", "_position")

    def __init__(self, fd: int, failure: _Failure, aside: str | None = None) -> None:
        self._aside = aside
        self._fd = fd
        self._failure = failure
        self._gathered = bytearray()
        self._position = 0

    def write(self, data: Any) -> int:
        """Take all of a contiguous buffer; returns its size in bytes."""
        view: bytes | memoryview = data
        if type(data) is not bytes:
            view = memoryview(data)
            if not view.nbytes:
                return 0
            view = view.cast("B")
        size = len(view)
        if size < _SMALL:
            self._gathered += view
            if len(self._gathered) >= _GATHERED:
                self.flush()
        else:
            self.flush()
            self._write(memoryview(view))
        self._position += size
        return size

    @property
    def aside(self) -> Path | None:
        """Where the bytes are until they take their place; None if they are written directly."""
        return Path(self._aside) if self._aside is not None else None

    def tell(self) -> int:
        """The number of bytes written so far."""
        return self._position

    def flush(self) -> None:
        """Hand what was gathered to the system."""
        if self._gathered:
            gathered, self._gathered = self._gathered, bytearray()
            self._write(memoryview(gathered))

    def sync(self) -> None:
        """Wait until everything that was written is on the disk."""
        self.flush()
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise self._failure(error) from error

    def _write(self, view: memoryview) -> None:
        done = 0
        try:
            while done < len(view):
                done += os.write(self._fd, view[done : done + _AT_ONCE])
        except OSError as error:
            raise self._failure(error) from error


@contextmanager
def staying(path: Path, aside: Path, size: int = 0) -> Iterator[GatheringFile]:
    """As a durable `replacing`, but the file aside has a name of its own, and stays if the block is left otherwise.

    ::

        with staying(Path("model.pt"), Path(".model.pt.open")) as file:
            file.write(header)
            file.sync()         # whatever happens now, so much is in .model.pt.open

    Another process goes on where this one stopped: the first `size` bytes that are in the file stay there, and what is
    written goes behind them.
    """
    shown = str(path)

    def failure(error: OSError) -> StorageError:
        reason = f"{error.strerror or error}; what was written stays in {aside.name}"
        return StorageError(error.errno or errno.EIO, reason, shown)

    try:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise failure(error) from error
    try:
        os.ftruncate(fd, size)
        os.lseek(fd, size, os.SEEK_SET)
        file = GatheringFile(fd, failure, str(aside))
        yield file
        file.sync()
    finally:
        os.close(fd)
    try:
        aside.replace(path)
    except OSError as error:
        raise failure(error) from error
    sync_folder(shown, path.parent)


@contextmanager
def replacing(path: str | bytes | os.PathLike[Any], *, durable: bool | None = False) -> Iterator[GatheringFile]:
    """A file to write to, which takes the place of `path` when the block is left without an exception.

    ::

        with replacing("model.pt", durable=True) as file:
            torch.save(model.state_dict(), file)

    A link stays a link, and what it points to is replaced. An older file's permissions are kept. With ``durable=True``
    the file is on the disk, name and all, when this returns. With ``durable=None`` the new data are on the disk before
    they replace an older file, so that a power loss leaves either of the two; a new file is not waited for. A pipe or
    a device is written to directly.
    """
    shown = os.fsdecode(path)
    older, linked = _status(shown)
    if older is not None and not stat.S_ISREG(older.st_mode):
        with _directly(shown, older) as file:
            yield file
        return
    failure = _keeping(shown, older)
    target = os.path.realpath(shown) if linked else shown
    _remove_leftovers(target.rpartition("/")[0] or ("/" if target.startswith("/") else "."))
    process = os.getpid()
    fd, aside = _create(target, older, failure)
    locked = -1
    try:
        locked = os.dup(fd)  # the lock of `_create` is held until the file has its name, also after `fd` is closed
        file = GatheringFile(fd, failure, aside)
        yield file
        file.flush()
        try:
            if older is not None:
                os.fchmod(fd, stat.S_IMODE(older.st_mode))
            # Another process may have made a file of this name meanwhile.
            if durable or (durable is None and (older is not None or os.path.lexists(target))):
                os.fsync(fd)
            closing, fd = fd, -1
            os.close(closing)  # a network file system may find out only now that it has no room
            os.replace(aside, target)  # noqa: PTH105 - saving a thousand small files, paths as objects would count
        except OSError as error:
            raise failure(error) from error
    except BaseException:
        if fd >= 0:
            os.close(fd)
        if os.getpid() == process:  # in a forked process it is still being written by the parent
            with suppress(OSError):  # out of reach: what went wrong is said by the exception
                Path(aside).unlink()
        raise
    finally:
        if locked >= 0:
            os.close(locked)
    if durable:
        sync_folder(shown, Path(target).parent)


def _status(shown: str) -> tuple[os.stat_result | None, bool]:
    """What the path, or the file that it links to, is now, None if there is nothing; and whether it is a link."""
    linked = False
    try:
        status = os.lstat(shown)
        linked = stat.S_ISLNK(status.st_mode)
        if linked:
            status = Path(shown).stat()
    except FileNotFoundError:
        return None, linked
    except OSError as error:
        raise _keeping(shown, None)(error) from error
    except ValueError:  # a zero byte in it
        raise UsageError(f"{shown[:100]!r} cannot be the path of a file") from None
    if stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{shown} is a folder: name a file in it")
    return status, linked


def _keeping(shown: str, older: os.stat_result | None) -> _Failure:
    """Makes of the system's error one that says what became of the file."""

    def failure(error: OSError) -> StorageError:
        kept = "the older file is unchanged" if older is not None else "no file was made"
        reason = error.strerror or str(error)
        return StorageError(error.errno or errno.EIO, f"{reason}; nothing was written, {kept}", shown)

    return failure


def _aside(target: str) -> str:
    """A name in the same folder, so that renaming does not copy, that tells whose it is and cannot be in use."""
    ending = f".cordwood-{os.getpid()}-{secrets.token_hex(6)}.part"
    room = _LONGEST_NAME - 1 - len(ending)
    folder, slash, name = target.rpartition("/")
    return f"{folder}{slash}.{os.fsencode(name)[:room].decode(errors='ignore')}{ending}"


def _create(target: str, older: os.stat_result | None, failure: _Failure) -> tuple[int, str]:
    """A new file beside the target, locked where locks are known: its descriptor and its path."""
    # Nobody may read the new file who may not read the older one, not even while it is being written.
    mode = 0o666 if older is None else older.st_mode & 0o666
    aside = ""
    try:
        if older is not None and not os.access(target, os.W_OK):  # renaming would get around the protection
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        for _ in range(_TRIES):
            aside = _aside(target)
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            # Before the lock, another process may take it for a leftover: it holds the lock, or has removed the file.
            if _lock(fd) is not False and os.fstat(fd).st_nlink:
                return fd, aside
            os.close(fd)
            Path(aside).unlink(missing_ok=True)
        raise BlockingIOError(errno.EWOULDBLOCK, f"{_TRIES} new files in a row were locked by others")
    except OSError as error:
        raise failure(error) from error
    except BaseException:  # an interrupt, after the file was made
        Path(aside).unlink(missing_ok=True)
        raise


def _lock(fd: int) -> bool | None:
    """Lock a file without waiting; False if another process has the lock, None if the file system knows none."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


_LEFTOVER = re.compile(r"\..*\.cordwood-\d+-[0-9a-f]{12}\.part", re.DOTALL)
_PATIENCE = 100  # listing a large folder before each of many small files would take longer than writing them
_due: dict[str, float] = {}  # per folder: when it may be listed again


def _remove_leftovers(folder: str) -> None:
    """Remove the files of killed writers; takes at most a hundredth of the time between writes into a folder."""
    began = time.monotonic()
    if began < _due.get(folder, began):
        return
    try:
        names = [name for name in os.listdir(folder) if name.endswith(".part")]  # noqa: PTH208 - as in `replacing`
    except OSError:
        names = []
    for name in filter(_LEFTOVER.fullmatch, names):
        with suppress(OSError):  # it is gone, or belongs to another user
            fd = os.open(f"{folder}/{name}", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if stat.S_ISREG(os.fstat(fd).st_mode) and _lock(fd):
                    os.unlink(f"{folder}/{name}")  # noqa: PTH108
            finally:
                os.close(fd)
    ended = time.monotonic()
    if len(_due) >= 1000:
        _due.clear()
    _due[folder] = ended + _PATIENCE * (ended - began)


@contextmanager
def _directly(shown: str, status: os.stat_result) -> Iterator[GatheringFile]:
    kind = "pipe" if stat.S_ISFIFO(status.st_mode) else "device"

    def failure(error: OSError) -> StorageError:
        what = f"this is a {kind}, and a part may have been written"
        return StorageError(error.errno or errno.EIO, f"{error.strerror or error}; {what}", shown)

    try:
        fd = os.open(shown, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise failure(error) from error
    try:
        file = GatheringFile(fd, failure)
        yield file
        file.flush()
    finally:
        os.close(fd)


def sync_folder(shown: str, folder: Path, what: str = "the new file") -> None:
    """Wait until the names in a folder are on the disk, among them that of `what`, which errors call `shown`."""
    try:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as error:
        reason = f"{error.strerror or error}; {what} is in place, but may be lost if the power fails now"
        raise StorageError(error.errno or errno.EIO, reason, shown) from error
