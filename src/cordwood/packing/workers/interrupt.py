"""Ctrl-C as a request: the job stops where it can resume. A second Ctrl-C stops it at once.

with Interruption() as interrupted:
    while not interrupted():
        work()
"""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class Interruption:
    """Takes SIGINT while it is open; only the main thread of a program gets signals, elsewhere it does nothing."""

    def __init__(self) -> None:
        self._wished = False
        self._before: Any = None
        self._ours = threading.current_thread() is threading.main_thread()

    def __call__(self) -> bool:
        """Whether the job is to stop."""
        return self._wished

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self._wished:
            raise KeyboardInterrupt
        self._wished = True

    def __enter__(self) -> Self:
        # A program that ignores or handles SIGINT by itself has its reasons.
        self._ours = self._ours and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        if self._ours:
            self._before = signal.signal(signal.SIGINT, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._ours:
            signal.signal(signal.SIGINT, self._before)
