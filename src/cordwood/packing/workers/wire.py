"""Messages between the parent and its workers: objects through a pipe, large buffers without a copy.

    send(write_fd, Task(17, handles))   # or write(write_fd, packed(Task(17, handles))), in another thread
    parts = receive(read_fd)            # None: the other end is closed
    message = unpack(parts)

Both ends are processes of one job, and one of them started the other: a message is pickled, as by `multiprocessing`,
and functions and classes of a script or a notebook travel with it (cloudpickle).
"""

import os
import pickle
import struct
from typing import Any

from cordwood.sources import dumps

_COUNT = struct.Struct("<I")
_SIZE = struct.Struct("<Q")
_AT_ONCE = 1 << 30  # one system call moves less than 2 GiB

Parts = list[bytearray]


def send(fd: int, message: Any) -> None:
    """Write a message; BrokenPipeError if no process can read it any more."""
    for part in _parts(message):
        write(fd, part)


def packed(message: Any) -> bytes:
    """A copy of what `send` writes: the objects of the message may change before it is written."""
    return b"".join(_parts(message))


def _parts(message: Any) -> list[memoryview]:
    buffers: list[pickle.PickleBuffer] = []
    body = dumps(message, buffers.append)
    parts = [memoryview(body), *(buffer.raw() for buffer in buffers)]
    return [memoryview(_COUNT.pack(len(parts)) + b"".join(_SIZE.pack(len(part)) for part in parts)), *parts]


def receive(fd: int) -> Parts | None:
    """Wait for the bytes of the next message; None if the other end is closed, also in the middle of one."""
    count = _read(fd, _COUNT.size)
    sizes = None if count is None else _read(fd, _SIZE.size * _COUNT.unpack(count)[0])
    if sizes is None:
        return None
    parts: Parts = []
    for (size,) in _SIZE.iter_unpack(sizes):
        part = _read(fd, size)
        if part is None:
            return None
        parts.append(part)
    return parts


def unpack(parts: Parts) -> Any:
    """The message; unpickling may import what it names, so it is not done by a thread that only reads."""
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 - from a process of ours


def write(fd: int, data: bytes | memoryview) -> None:
    """Write all of it, however often the system takes a part only."""
    view, done = memoryview(data), 0
    while done < len(view):
        done += os.write(fd, view[done : done + _AT_ONCE])


def _read(fd: int, size: int) -> bytearray | None:
    memory = bytearray(size)
    view, done = memoryview(memory), 0
    while done < size:
        got = os.readv(fd, [view[done : done + _AT_ONCE]])
        if not got:
            return None
        done += got
    return memory
