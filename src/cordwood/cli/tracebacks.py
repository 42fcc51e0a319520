"""Shortens the tracebacks that errors carry in their notes, for users of the command.

    for note in notes_of_cause(error.__cause__):
        print(note)

Where data are bad, the sentence that is printed below names the file and says it all. A mistake in somebody's own
transform is found by its lines, among which those of this package are in the way.
"""

import os
import re

from cordwood.cli.logs import debugging
from cordwood.common import PACKAGE
from cordwood.errors import CordwoodError, UsageError

_TITLE = "Traceback (most recent call last):\n"
_FRAME = re.compile(r'^  File "(?P<file>[^\n"]*)", line .*\n(?:   ?.*\n)*?(?=  File "|(?! )|\Z)', re.MULTILINE)
_OURS = f"{PACKAGE}{os.sep}"


def notes_of_cause(cause: BaseException | None) -> list[str]:
    """What is noted of an error's cause and worth reading; with ``CORDWOOD_LOG=debug`` all of it."""
    notes: list[str] = getattr(cause, "__notes__", [])
    if debugging():
        return notes
    # UsageError is no matter of data: a transform may have called this package wrongly, and its lines show where.
    if isinstance(cause, CordwoodError) and not isinstance(cause, UsageError):
        return [note for note in notes if _TITLE not in note]
    return [shown for note in notes if (shown := without_our_frames(note))]


def without_our_frames(note: str) -> str:
    """A note without the lines of this package in its tracebacks; empty if they have no others."""
    if _TITLE not in note:
        return note
    left = 0

    def kept(frame: re.Match[str]) -> str:
        nonlocal left
        ours = frame["file"].startswith(_OURS)
        left += not ours
        return "" if ours else frame[0]

    shown = _FRAME.sub(kept, note)
    return shown if left else ""
