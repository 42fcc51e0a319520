"""Shows the progress of a packing run: a bar on a terminal or in a notebook, plain lines every ten seconds elsewhere.

with reporter(progress) as report:      # None: what suits the place; False: nothing; a function: is told everything
    report(PackProgress(inputs=451, of_inputs=1000, ...))
"""

import html
import importlib
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, Self, TextIO

from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.packing.report.rate import PackProgress as PackProgress
from cordwood.packing.report.rate import RateMeter, line, parts

_PLAIN_SECONDS = 10.0
_TERMINAL_SECONDS = 0.1
_NOTEBOOK_SECONDS = 0.5


class Display(Protocol):
    """Shows states; `seconds` is the least time between two."""

    seconds: float

    def show(self, state: PackProgress, pace: RateMeter) -> None:
        """Show the state of now."""

    def end(self, state: PackProgress | None, pace: RateMeter) -> None:
        """The run is over; `state` is the last one, if there was any."""


class TerminalBar:
    """One line that is written over, and wiped at the end."""

    seconds = _TERMINAL_SECONDS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown = 0

    def show(self, state: PackProgress, pace: RateMeter) -> None:
        text = line(state, pace, shutil.get_terminal_size().columns - 1)
        self._stream.write("\r" + text.ljust(self._shown))
        self._stream.flush()
        self._shown = len(text)

    def end(self, state: PackProgress | None, pace: RateMeter) -> None:
        if self._shown:
            self._stream.write("\r" + " " * self._shown + "\r")
            self._stream.flush()


class PlainLines:
    """A line now and then, for logs; a run that is over before the first one is silent."""

    seconds = _PLAIN_SECONDS

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._shown: PackProgress | None = None

    def show(self, state: PackProgress, pace: RateMeter) -> None:
        self._stream.write("  ".join(parts(state, pace)) + "\n")
        self._stream.flush()
        self._shown = state

    def end(self, state: PackProgress | None, pace: RateMeter) -> None:
        if self._shown is not None and state is not None and state != self._shown:
            self.show(state, pace)


class NotebookBar:
    """A bar below a notebook's cell, which stays there."""

    seconds = _NOTEBOOK_SECONDS

    def __init__(self, ipython_display: Any) -> None:
        self._display = ipython_display
        self._handle: Any = None

    def show(self, state: PackProgress, pace: RateMeter) -> None:
        made = self._display.HTML(self._html(state, pace))
        if self._handle is None:
            self._handle = self._display.display(made, display_id=True)
        else:
            self._handle.update(made)

    def end(self, state: PackProgress | None, pace: RateMeter) -> None:
        if state is not None:
            self.show(state, pace)

    def _html(self, state: PackProgress, pace: RateMeter) -> str:
        value = "" if state.fraction is None else f' value="{state.fraction:.4f}"'
        text = html.escape("  ".join(parts(state, pace)))
        return f'<div><progress max="1"{value} style="width:20em"></progress> <code>{text}</code></div>'


def display_here(stream: TextIO) -> Display:
    """What suits the place where the program runs."""
    # Only a program that runs in a notebook has imported IPython and has a shell with a kernel.
    if "IPython" in sys.modules and hasattr(sys.modules["IPython"].get_ipython(), "kernel"):
        return NotebookBar(importlib.import_module("IPython.display"))
    return TerminalBar(stream) if stream.isatty() else PlainLines(stream)


# ---- the reporter ----------------------------------------------------------------------------------------------------


class Reporter:
    """Takes every state, and shows one now and then; also a context manager that ends the display."""

    def __init__(self, display: Display, clock: Callable[[], float] = time.monotonic) -> None:
        self._display = display
        self._clock = clock
        self._pace = RateMeter()
        self._last: PackProgress | None = None
        self._shown_at = clock()

    def __call__(self, state: PackProgress) -> None:
        """Tell how far the run is."""
        self._pace.add(state)
        self._last = state
        now = self._clock()
        if now - self._shown_at >= self._display.seconds:
            self._shown_at = now
            self._display.show(state, self._pace)

    def close(self) -> None:
        """The run is over."""
        self._display.end(self._last, self._pace)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class _Told:
    """A display that hands every state to a caller's function."""

    seconds = 0.0

    def __init__(self, function: Callable[[PackProgress], object] | None) -> None:
        self._function = function

    def show(self, state: PackProgress, pace: RateMeter) -> None:
        if self._function is not None:
            self._function(state)

    def end(self, state: PackProgress | None, pace: RateMeter) -> None:
        """It knows the last state already."""


def reporter(
    progress: bool | Callable[[PackProgress], object] | None = None,
    stream: TextIO | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Reporter:
    """What ``progress=`` of a run means: None or True what suits the place, False nothing, or a function."""
    if progress is None or progress is True:
        return Reporter(display_here(sys.stderr if stream is None else stream), clock)
    if progress is False:
        return Reporter(_Told(None), clock)
    if not callable(progress):
        raise UsageError(f"progress is {brief(progress)}, but takes None, False, or a function of a PackProgress")
    return Reporter(_Told(progress), clock)
