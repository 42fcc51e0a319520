"""Every error that Cordwood raises on purpose.

    CordwoodError
    ├── UsageError    (ValueError)  a call that cannot be meant: unknown goal, wrong shape
    │   └── TensorNameError  (KeyError)        a tensor file has no tensor of this name
    ├── FormatError   (ValueError)  bad bytes from outside; carries a numbered reason
    │   └── UnsafePickleError  (UnpicklingError)  a pickle asks for what may not be loaded safely
    ├── StorageError  (OSError)     the disk or the file system said no
    ├── FeedError                   a batch could not be made or delivered
    ├── PackError                   an input could not be preprocessed
    └── DoctorError                 a measurement could not be taken

A message says what was found, what was expected, where, and what to do next. All of them survive pickling and copying,
because errors travel between worker processes.
"""

import pickle
from enum import IntEnum
from typing import Final


class Reason(IntEnum):
    """Why a frame or a plan's assets are rejected: the numbers and names of docs/format/frame.md. Never given anew."""

    TRUNCATED = 1
    MAGIC = 2
    VERSION = 3
    FLAGS = 4
    HEADER_CHECKSUM = 5
    DTYPE = 6
    RANK = 7
    SHAPE = 8
    VARINT = 9
    CHAIN = 10
    NARROW = 11
    PALETTE = 12
    HEADER_SIZE = 13
    FRAME_SIZE = 14
    BLOCK_CHECKSUM = 15
    PLAN_MISSING = 16
    PLAN_MISMATCH = 17
    MODE = 18
    BLOCK_SIZE = 19
    ZSTD = 20
    LZ4 = 21
    TABLE = 22
    TILE_MAP = 23
    STREAM = 24
    CODE = 25
    LIMIT = 26


REASONS: Final[dict[int, str]] = {reason.value: reason.name.lower().replace("_", "-") for reason in Reason}


class CordwoodError(Exception):
    """The root: ``except cw.CordwoodError`` catches whatever Cordwood raises on purpose."""


class UsageError(CordwoodError, ValueError):
    """The caller asked for something that cannot be done as asked; the message names what can."""


class TensorNameError(UsageError, KeyError):
    """A tensor file has no tensor of this name; the message suggests names that it has."""

    __str__ = Exception.__str__  # KeyError shows the repr of its message


class FormatError(CordwoodError, ValueError):
    """Bytes from outside are truncated, damaged, of another version, or larger than the caller allows.

    ::

        try:
            array = cw.codecs.decode(frame)
        except cw.FormatError as error:
            print(error.reason, error.reason_name)  # 15 block-checksum

    ``reason`` is a number from the table in docs/format/frame.md, or 0 where no frame is concerned.
    """

    reason: int

    def __init__(self, message: str = "", reason: int = 0) -> None:
        super().__init__(message)
        self.reason = int(reason)

    @property
    def reason_name(self) -> str:
        """The reason in words, such as ``"block-checksum"``; ``"unspecified"`` for a number without a name."""
        return REASONS.get(self.reason, "unspecified")


class UnsafePickleError(FormatError, pickle.UnpicklingError):
    """A pickle asks for code or objects that may not be loaded safely; the message says how to allow them.

    It is also a `pickle.UnpicklingError`, so code that was written for ``torch.load`` catches it.
    """


class StorageError(CordwoodError, OSError):
    """The disk or the file system refused: no space, no permission, no such file."""


class FeedError(CordwoodError):
    """A batch could not be made or delivered."""


class PackError(CordwoodError):
    """An input could not be preprocessed, or the processes that do it die; what was packed before it is kept."""


class DoctorError(CordwoodError):
    """A measurement could not be taken, so nothing can be said."""
