"""A process that is killed right before one of its calls to the file system, or in the middle of one.

calls = FileCalls(17)               # the kill comes instead of the 17th call
calls = FileCalls(17, torn=True)    # the 17th call, if it writes, does half of it, and then comes the kill
calls = FileCalls(None)             # calls.count tells how many there are
"""

import os
import signal
from typing import Any

CALLS = (
    "open",
    "write",
    "pwrite",
    "fsync",
    "replace",
    "unlink",
    "close",
    "ftruncate",
    "truncate",
    "mkdir",
)


class FileCalls:
    """Counts calls to the file system from now on."""

    def __init__(self, last: int | None, *, torn: bool = False) -> None:
        self.count = 0
        self._last = last
        self._torn = torn
        self._originals = {name: getattr(os, name) for name in CALLS}
        self._process = os.getpid()
        for name, original in self._originals.items():
            setattr(os, name, self._counted(name, original))

    def _counted(self, name: str, original: Any) -> Any:
        def counted(*args: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self._last:
                if self._torn and name in ("write", "pwrite"):
                    fd, data, *place = args
                    original(fd, bytes(data)[: len(data) // 2], *place)
                os.kill(self._process, signal.SIGKILL)
            return original(*args, **options)

        return counted

    def stop(self) -> None:
        """Count no more."""
        for name, original in self._originals.items():
            setattr(os, name, original)
