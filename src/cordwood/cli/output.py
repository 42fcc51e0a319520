"""The command's output: reports what could not be written, and decides whether to use colours.

    with checked_output():
        print(table)            # a full disk behind `> FILE` is a StorageError, not a traceback

    with plain_output():        # the user's script runs in this process, and gets the stream itself
        run(script)

    colours = wants_colour(sys.stderr)

An OSError does not say which file it is about, but one raised by the stream is about the output. Most come late: a few
lines stay in the stream's buffer, and are written at the end of the block.

Only the doctor's report has colours, and only on a terminal. With any value but an empty one, ``NO_COLOR`` turns them
off everywhere, and ``FORCE_COLOR`` turns them on, also in a file or a build's log (no-color.org, force-color.org).
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from cordwood.errors import StorageError


class _CheckedStream:
    """A stream whose failures say what they are about; all else is as it was."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.failed: StorageError | None = None

    def write(self, text: str) -> int:
        with self._told():
            return self.stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        with self._told():
            self.stream.writelines(lines)

    def flush(self) -> None:
        with self._told():
            self.stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            raise  # who reads has seen enough, and that is no failure
        except OSError as error:
            give_up()
            reason = f"{error.strerror or error}; not all of the output could be written"
            self.failed = StorageError(error.errno, reason, "stdout")
            raise self.failed from error


@contextmanager
def checked_output() -> Iterator[None]:
    """Run a block; what it has printed is written when it ends, also when it ends by SystemExit."""
    stream = sys.stdout
    if stream is None:  # `>&-`: nobody wants to see it
        yield
        return
    checked = _CheckedStream(stream)
    sys.stdout = cast("TextIO", checked)
    try:
        try:
            yield
        except SystemExit:  # the parser has printed its help
            _finish(checked)
            raise
        _finish(checked)
    finally:
        if sys.stdout is cast("TextIO", checked):
            sys.stdout = stream


@contextmanager
def plain_output() -> Iterator[None]:
    """Run a block that has the stream itself: what goes wrong with it is the block's own affair."""
    checked = sys.stdout
    if not isinstance(checked, _CheckedStream):
        yield
        return
    sys.stdout = checked.stream
    try:
        yield
    finally:
        if sys.stdout is checked.stream:
            sys.stdout = cast("TextIO", checked)


def give_up() -> None:
    """Nothing more can be written: let Python have somewhere to write the rest to when it flushes at its end."""
    with suppress(AttributeError, OSError, ValueError):  # no stream, or one that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def print_as_shown(text: str, stream: TextIO) -> None:
    """Print now, whatever letters the stream knows: those that it does not must not be what a long run ends with."""
    encoding = stream.encoding or "ascii"
    print(text.encode(encoding, "backslashreplace").decode(encoding), file=stream, flush=True)


def _finish(checked: _CheckedStream) -> None:
    if checked.failed is not None:  # argparse drops what happens to its help
        raise checked.failed
    if not checked.closed:  # a script that ran under the doctor may have closed it
        checked.flush()


def wants_colour(stream: TextIO) -> bool:
    """Whether escapes for colours should go to this stream."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"
