"""Finds the line of the user's own code that is running, from the frames of the program.

    place = user_place()                # of whoever called into torch, Lightning or Cordwood
    places.Places(inside=["/home/me/pkg"])

A file is the user's unless Python or an installed package brought it; a package that the doctor was asked to run
(``-m pkg.train``) counts as the user's though it is installed.
"""

import linecache
import sys
from pathlib import Path
from types import CodeType, FrameType

from cordwood.common import PACKAGE
from cordwood.doctor.evidence.findings import CodeLine
from cordwood.sources import is_own_file

_DEEPEST = 200  # frames that are looked at

own_folders: list[str] = []  # folders of packages that are run as the user's own
_known: dict[CodeType, bool] = {}  # files are asked for once: this runs at every operation of a deep step


def count_as_own(folder: str) -> None:
    """From now on, code below this folder is the user's."""
    own_folders.append(folder)
    _known.clear()


def is_users(code: CodeType) -> bool:
    """Whether a piece of code is the user's."""
    known = _known.get(code)
    if known is None:
        known = _known[code] = _is_users_file(code.co_filename)
    return known


def _is_users_file(name: str) -> bool:
    if name.startswith("<") and not name.startswith("<ipython"):
        return False
    if any(Path(name).is_relative_to(folder) for folder in own_folders):
        return True
    return is_own_file(name) and not Path(name).is_relative_to(PACKAGE)


def user_frame(frame: FrameType | None = None) -> FrameType | None:
    """The innermost frame that is the user's, from the given frame (or the caller's) outwards."""
    if frame is None:
        frame = sys._getframe(1)
    for _ in range(_DEEPEST):
        if frame is None or is_users(frame.f_code):
            return frame
        frame = frame.f_back
    return None


def user_place(frame: FrameType | None = None) -> CodeLine | None:
    """The innermost line that is the user's, from the given frame (or the caller's) outwards."""
    found = user_frame(frame if frame is not None else sys._getframe(1))
    return None if found is None else place_of(found.f_code, found.f_lineno)


def place_of(code: CodeType, line: int) -> CodeLine:
    """The place of a line in a piece of code."""
    return CodeLine(code.co_filename, line, code.co_qualname, linecache.getline(code.co_filename, line).strip())
