"""Every error that Cordwood raises on purpose.

    CordwoodError
    ├── UsageError    (ValueError)  a call that cannot be meant: unknown goal, wrong shape
    ├── FormatError   (ValueError)  bad bytes from outside; carries a numbered reason
    ├── StorageError  (OSError)     the disk or the file system said no
    ├── FeedError                   a batch could not be made or delivered
    ├── PackError                   an input could not be preprocessed
    └── DoctorError                 a measurement could not be taken

A message says what was found, what was expected, where, and what to do next. All of them survive pickling and copying,
because errors travel between worker processes.
"""

from typing import Final

# Why a frame or a plan's assets are rejected: the numbers and names of docs/format/frame.md. Never given anew.
REASONS: Final[dict[int, str]] = {
    1: "truncated",
    2: "magic",
    3: "version",
    4: "flags",
    5: "header-checksum",
    6: "dtype",
    7: "rank",
    8: "shape",
    9: "varint",
    10: "chain",
    11: "narrow",
    12: "palette",
    13: "header-size",
    14: "frame-size",
    15: "block-checksum",
    16: "plan-missing",
    17: "plan-mismatch",
    18: "mode",
    19: "block-size",
    20: "zstd",
    21: "lz4",
    22: "table",
    23: "tile-map",
    24: "stream",
    25: "code",
    26: "limit",
}


class CordwoodError(Exception):
    """The root: ``except cw.CordwoodError`` catches whatever Cordwood raises on purpose."""


class UsageError(CordwoodError, ValueError):
    """The caller asked for something that cannot be done as asked; the message names what can."""


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
        self.reason = reason

    @property
    def reason_name(self) -> str:
        """The reason in words, such as ``"block-checksum"``; ``"unspecified"`` for a number without a name."""
        return REASONS.get(self.reason, "unspecified")


class StorageError(CordwoodError, OSError):
    """The disk or the file system refused: no space, no permission, no such file."""


class FeedError(CordwoodError):
    """A batch could not be made or delivered."""


class PackError(CordwoodError):
    """An input could not be preprocessed, or the processes that do it die; what was packed before it is kept."""


class DoctorError(CordwoodError):
    """A measurement could not be taken, so nothing can be said."""
