"""Limits how much memory a file can make the reader reserve."""

from cordwood.common.arguments import whole_number
from cordwood.common.resources import physical_memory
from cordwood.errors import FormatError, Reason

_OBJECTS_A_BYTE = 32  # an empty list takes that for each of the three bytes that write it
_FREE_TEXT = 1 << 20


class Allotment:
    """Counts what is reserved for one file, and refuses before it is too much."""

    def __init__(self, limit: int | None) -> None:
        self.limit = physical_memory() if limit is None else whole_number("limit", limit, what="a number of bytes")
        self.taken = 0

    @property
    def left(self) -> int:
        """Bytes that may still be reserved."""
        return self.limit - self.taken

    def take(self, nbytes: int, what: str) -> None:
        """Reserve, or refuse naming what for."""
        if nbytes > self.left:
            raise FormatError(
                f"{what} needs {nbytes} bytes, {self.taken} are taken, and the limit is {self.limit}; "
                "raise it with limit=... if the file is to be trusted",
                Reason.LIMIT,
            )
        self.taken += nbytes

    def take_text(self, nbytes: int, what: str) -> None:
        """Reserve for text that becomes Python objects, which may be far larger than what they were written as."""
        self.take(nbytes + _OBJECTS_A_BYTE * max(0, nbytes - _FREE_TEXT), what)
