"""Whether colours are wanted: on a terminal, unless somebody says otherwise.

    colours = wants_colour(sys.stderr)

Only the doctor's report has any: its bars are told apart by them. Tables and messages are plain everywhere.
``NO_COLOR`` and ``FORCE_COLOR`` are the variables that other programs know, too (no-color.org, force-color.org): with
any value but an empty one the first turns colours off everywhere, the second on, also in a file or a build's log.
"""

import os
from typing import TextIO


def wants_colour(stream: TextIO) -> bool:
    """Whether escapes for colours should go to this stream."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"
