"""Limits the work that a file can cause, in proportion to its size.

The bytes of a pickle can ask for one thing again and again: five of them copy a list of a million items, or check a
million indices. What a file asks for once is paid for by the bytes that hold it; what is far beyond that is a bomb.
"""

from typing import Any, Final

from cordwood.common.text import RefusedPickle
from cordwood.tensors.unpickle.hash_guard import KeyGuard

FREE: Final = 64 << 20  # bytes; what no file is asked to pay for
_WORK_A_BYTE = 16


class Effort:
    """Counts bytes looked at and copied on behalf of one file."""

    def __init__(self, size: int, room: int) -> None:
        self._work = _WORK_A_BYTE * size + FREE
        self._room = room + FREE
        self.keys = KeyGuard(size)
        self._storages: dict[int, Any] = {}  # kept, so that no other one gets its number

    def earn(self, storage: Any, nbytes: int) -> None:
        """A storage of the file: its bytes may be looked at."""
        if id(storage) not in self._storages:
            self._storages[id(storage)] = storage
            self._work += _WORK_A_BYTE * nbytes

    def look(self, nbytes: int, what: str) -> None:
        """Look at so many bytes, or refuse."""
        self._work -= nbytes
        if self._work < 0:
            raise RefusedPickle(f"{what}: {nbytes} bytes more to look at, far more than the file has; it may be a bomb")

    def copy(self, nbytes: int, what: str) -> None:
        """Copy so many bytes into new memory, or refuse."""
        self.look(nbytes, what)
        self._room -= nbytes
        if self._room < 0:
            raise RefusedPickle(
                f"{what}: {nbytes} bytes more than the limit; raise it with limit=... if the file is to be trusted"
            )
