"""What somebody may have meant who typed a name that is not there.

raise UsageError(f"there is no field {name!r}{did_you_mean(name, names)}")

there is no field 'lable'; did you mean 'label'?
"""

import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

_MOST_NAMES = 1000  # that are compared: names come from files, and comparing takes time
_LONGEST = 200
_NEAR = 0.6


def nearest(word: object, names: Iterable[object]) -> str | None:
    """The name that a word is most like, or None if it is like none of them.

    ::

        nearest("blanced", ["small", "balanced", "fast"])   # "balanced"
    """
    import difflib  # a program that makes no mistake does not wait for it

    if not isinstance(word, str) or len(word) > _LONGEST:
        return None
    known = [each for each in islice(names, _MOST_NAMES) if isinstance(each, str) and len(each) <= _LONGEST]
    folded = {each.casefold(): each for each in reversed(known)}
    found = difflib.get_close_matches(word.casefold(), folded, 1, _NEAR)
    return folded[found[0]] if found else None


def did_you_mean(word: object, names: Iterable[object]) -> str:
    """The end of a message about a name that is not known: ``"; did you mean 'label'?"``, or nothing."""
    found = nearest(word, names)
    return "" if found is None else f"; did you mean {found!r}?"


def did_you_mean_path(path: str | os.PathLike[str]) -> str:
    """The same for a path that does not exist, by what else is in its folder."""
    missing = Path(path)
    try:
        with os.scandir(missing.parent) as entries:
            found = nearest(missing.name, (entry.name for entry in entries))
    except (OSError, ValueError):  # no such folder either; a name that no system takes
        return ""
    return "" if found is None else f"; did you mean {str(missing.with_name(found))!r}?"
