"""A lock that allows one writer of a store at a time, and ends with its process.

    lock = WriterLock("train.cordwood")
    ...
    lock.release()

The system keeps the lock (flock) on the file ``.lock``, so a killed writer leaves none behind; the file itself stays,
and says whose lock it is, for the message that a second writer gets, and for those who wait (`LockedError`).
"""

import contextlib
import errno
import fcntl
import os
import socket
from pathlib import Path

from cordwood.common.forks import in_child
from cordwood.errors import StorageError

NAME = ".lock"


class LockedError(StorageError):
    """Another process has the lock: `holder` names it."""

    holder = "another process"


class WriterLock:
    """Held from its making until `release`; `name` is the file's, where it is not the lock of a store's folder."""

    def __init__(self, store: str | os.PathLike[str], name: str = NAME) -> None:
        self._fd = -1
        path = Path(store) / name
        fd = _locked(path)
        while not _is_at(path, fd):  # the process that had the lock removed the file: another one may lock a new file
            os.close(fd)
            fd = _locked(path)
        with contextlib.suppress(OSError):  # whose lock it is only makes a message better
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()} {socket.gethostname()}\n".encode(), 0)
        self._fd = fd
        in_child(self._forget)

    def release(self) -> None:
        """Let others write; once is enough."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            with contextlib.suppress(OSError):  # whose lock it was is of no interest any more
                os.ftruncate(fd, 0)
                # Closing is not enough: a process that is just being forked may have the file open still.
                fcntl.flock(fd, fcntl.LOCK_UN)
            os.close(fd)

    def _forget(self) -> None:
        """In a forked process: the lock is the parent's, and must not outlive it here."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _locked(path: Path) -> int:
    """A descriptor of the file, with the lock."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o666)
    except OSError as error:
        advice = "; make its folder first" if error.errno == errno.ENOENT else ""
        reason = f"{error.strerror or error}: the store cannot be locked{advice}"
        raise StorageError(error.errno, reason, str(path)) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        told = _refusal(error, path, fd)
        os.close(fd)
        raise told from error
    return fd


def _is_at(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except OSError:
        return False


def _refusal(error: OSError, path: Path, fd: int) -> StorageError:
    if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN):
        reason = f"{error.strerror or error}: the store cannot be locked; does its file system have locks (flock)?"
        return StorageError(error.errno, reason, str(path))
    holder = os.pread(fd, 300, 0).decode(errors="replace").split()
    who = f"process {holder[0]} on {holder[1]}" if len(holder) == 2 else LockedError.holder
    refusal = LockedError(
        errno.EWOULDBLOCK,
        f"{who} is writing to this store: there is one writer at a time; wait for it, or write to a store of its own",
        str(path.parent),
    )
    refusal.holder = who
    return refusal
