"""Reads the Python stack of another thread without harm to it.

    stack_of(identity)          # ((code, line), ...), innermost first; None if there is no such thread

Nothing but code objects and line numbers is kept: frames hold the variables of a running program.
"""

import gc
import sys
from types import CodeType, FrameType

DEEPEST = 200  # frames
# Before 3.12 a collection of garbage may begin while Python makes a frame object, and freeing a tensor lets the other
# thread run on: it leaves the very frame that is being made, and what is read after that is other memory.
_COLLECTS_ANYWHERE = sys.version_info < (3, 12)

Stack = tuple[tuple[CodeType, int], ...]


def stack_of(identity: int) -> Stack | None:
    """Where a thread is, by its identity; the caller is another thread, and holds the interpreter meanwhile."""
    paused = _COLLECTS_ANYWHERE and gc.isenabled()
    if paused:
        gc.disable()
    try:
        frame = sys._current_frames().get(identity)
        return None if frame is None else _walked(frame)
    finally:
        if paused:
            gc.enable()


def _walked(frame: FrameType | None) -> Stack:
    found: list[tuple[CodeType, int]] = []
    while frame is not None and len(found) < DEEPEST:
        found.append((frame.f_code, frame.f_lineno or _line_before(frame)))
        frame = frame.f_back
    return tuple(found)


def _line_before(frame: FrameType) -> int:
    """The last line up to where a frame is: the jump back at the end of a loop's round has none of its own.

    That is no rare case: a thread that computes in Python gives the interpreter away at just these jumps.
    """
    code = frame.f_code
    lines = [line for start, _, line in code.co_lines() if line is not None and start <= frame.f_lasti]
    return lines[-1] if lines else code.co_firstlineno
