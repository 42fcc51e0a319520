"""Keeps what trials print out of the script's output.

    with nothing_on_stdout():
        judge(evidence)

Rules call the user's code once more: a dataset that prints would do so in the middle of `cordwood doctor train.py >
results.txt`. The descriptor is turned away as well as the stream, since worker processes inherit only that.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stdout, suppress
from pathlib import Path

_STDOUT = 1


@contextmanager
def nothing_on_stdout() -> Iterator[None]:
    """What is printed inside goes nowhere; what was printed before is written first."""
    _flush()
    with ExitStack() as undo, Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        undo.enter_context(redirect_stdout(nowhere))
        with suppress(OSError):  # no such descriptor: a program without a terminal may have closed it
            kept = os.dup(_STDOUT)
            undo.callback(os.close, kept)
            os.dup2(nowhere.fileno(), _STDOUT)
            undo.callback(os.dup2, kept, _STDOUT)
        yield


def _flush() -> None:
    with suppress(AttributeError, OSError, ValueError):  # there may be none, or the script has closed it
        sys.stdout.flush()
