"""Suggests the name that may have been meant.

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
            # A link to nowhere is in the folder itself.
            found = nearest(missing.name, (entry.name for entry in entries if entry.name != missing.name))
    except (OSError, ValueError):  # no such folder either; a name that no system takes
        return ""
    return "" if found is None else f"; did you mean {str(missing.with_name(found))!r}?"


def no_attribute(module: str, name: str, names: Iterable[str]) -> AttributeError:
    """What a module's ``__getattr__`` raises for a name that it does not have; `names` are those for people."""
    meant = "" if name.startswith("_") else did_you_mean(name, names)  # the others are asked for by programs
    return AttributeError(f"module {module!r} has no attribute {name!r}{meant}", name=name)


class MissingFileError(FileNotFoundError):
    """A file that is not there, with what may have been meant.

    ::

        [Errno 2] No such file or directory: 'wieghts.cord'; did you mean 'weights.cord'?

    The folder is looked through when somebody reads the message: a program that asks its cache for file after file
    catches this error every time, and must not wait for words that it never shows.
    """

    def __str__(self) -> str:
        return super().__str__() + did_you_mean_path(os.fsdecode(self.filename))
