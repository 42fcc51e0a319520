"""Looks closely at single fetches: profiles functions by cProfile, or samples the user's lines.

    look = Profile()
    look.begin()        # before the samples are got
    look.collating()    # between the samples and their collation
    look.end()

A look costs time, so only some fetches get one. None of them changes what is fetched.
"""

import builtins
import cProfile
import io
import sys
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import CodeType
from typing import Any

from cordwood.doctor.evidence.fetch_figures import MOST_FILES, MOST_LINES, Line
from cordwood.doctor.evidence.fetch_stages import Function, own_times
from cordwood.doctor.evidence.places import is_users
from cordwood.doctor.probes.patches import Patches
from cordwood.doctor.probes.thread_stacks import Stack, stack_of

_SAMPLE_SECONDS = 0.001
_CLOCK = time.perf_counter_ns


class CloserLook(ABC):
    """A closer look at one fetch."""

    @abstractmethod
    def begin(self) -> None:
        """The fetch starts."""

    def collating(self) -> None:  # noqa: B027 - a look need not care
        """The samples are there; they are collated next."""

    @abstractmethod
    def end(self) -> None:
        """The fetch is over, or has failed; may be called more than once."""


class Profile(CloserLook):
    """Own time by function, C functions included, for getting samples and for collating them."""

    def __init__(self) -> None:
        self._getting = cProfile.Profile()
        self._collating = cProfile.Profile()
        self._running: cProfile.Profile | None = None
        self.refused = ""

    def begin(self) -> None:
        self._run(self._getting)

    def collating(self) -> None:
        self._run(self._collating)

    def end(self) -> None:
        self._run(None)

    def _run(self, profile: cProfile.Profile | None) -> None:
        if self._running is not None:
            self._running.disable()
            self._running = None
        if profile is None or self.refused:
            return
        if sys.getprofile() is not None:
            self.refused = "the script profiles itself, so functions of the loader were not timed"
            return
        try:
            profile.enable()
        except ValueError as error:  # from Python 3.12 on: another profiler is at work
            self.refused = f"functions of the loader were not timed: {error}"
        else:
            self._running = profile

    def functions(self) -> dict[Function, int]:
        """Own nanoseconds by function."""
        times = own_times(self._getting)
        for function, own in own_times(self._collating, "collate").items():
            times[function] = times.get(function, 0) + own
        return times


class Sampling(CloserLook):
    """The user's line at work, sampled from a thread; what was read; the names of files that were opened."""

    def __init__(self, outermost: CodeType) -> None:
        self._outermost = outermost  # of fetch(): what is outside of it is not the loader's
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._patches = Patches()
        self._before: tuple[int, int] | None = None
        self.lines: dict[Line, int] = {}
        self.sampled_ns = 0
        self.read: tuple[int, int] | None = None  # bytes by system calls, bytes from a device
        self.files: list[str] = []

    def begin(self) -> None:
        self._before = bytes_read()
        self._watch_opening()
        self._thread = threading.Thread(
            target=self._sample, args=(threading.get_ident(),), name="cordwood-fetches", daemon=True
        )
        self._thread.start()

    def end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is None:
            return
        self._over.set()
        self._patches.undo()
        after = bytes_read()
        if self._before is not None and after is not None:
            self.read = after[0] - self._before[0], after[1] - self._before[1]
        thread.join()

    def _watch_opening(self) -> None:
        real, files = builtins.open, self.files

        def opened(file: Any, *arguments: Any, **options: Any) -> Any:
            if isinstance(file, (str, Path)) and len(files) < MOST_FILES:
                files.append(str(file))
            return real(file, *arguments, **options)

        if io.open is real:
            self._patches.replace(builtins, "open", opened)
            self._patches.replace(io, "open", opened)

    def _sample(self, ident: int) -> None:
        last = _CLOCK()
        while not self._over.wait(_SAMPLE_SECONDS):
            stack = stack_of(ident)
            now = _CLOCK()
            line = self._users_line(stack or ())
            if line is not None and (line in self.lines or len(self.lines) < MOST_LINES):
                self.lines[line] = self.lines.get(line, 0) + now - last
            self.sampled_ns += now - last
            last = now

    def _users_line(self, stack: Stack) -> Line | None:
        found: Line | None = None
        for code, line in stack:
            if code is self._outermost:
                return found
            if found is None and is_users(code):
                found = (code.co_filename, line, code.co_qualname)
        return None  # between two fetches


def bytes_read() -> tuple[int, int] | None:
    """Bytes that this process has read by system calls, and from devices; None where the system does not say."""
    try:
        with open("/proc/self/io", "rb") as file:  # noqa: PTH123 - the plain function, not what may be patched over it
            fields = dict(line.split(b": ") for line in file.read().splitlines())
        return int(fields[b"rchar"]), int(fields[b"read_bytes"])
    except (OSError, KeyError, ValueError):
        return None
