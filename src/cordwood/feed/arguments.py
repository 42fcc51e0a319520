"""Checks of what a Loader is told: each gives back the value in one form, or says what it should have been."""

from typing import Any, Final

import numpy as np

from cordwood.common.saferepr import brief
from cordwood.errors import UsageError

_MOST_WORKERS: Final = 4096


def flag(name: str, given: Any) -> bool:
    """True or False, and nothing that only passes for it."""
    if type(given) is not bool:
        raise UsageError(f"{name} is {brief(given)}, but is True or False")
    return given


def function(name: str, given: Any) -> Any:
    """Something to call, or None."""
    if given is not None and not callable(given):
        raise UsageError(f"{name} is {brief(given)}, but is a function")
    return given


def count(name: str, given: Any, *, most: int) -> int | None:
    """At least one; None for "auto"."""
    if isinstance(given, str) and given == "auto":
        return None
    given = plain(given)
    if type(given) is not int or not 1 <= given <= most:
        raise UsageError(f"{name} is {brief(given)}, but is a number from 1 to {most}, or 'auto'")
    return int(given)


def workers(given: Any) -> int:
    """A number of processes."""
    given = plain(given)
    if type(given) is not int or not 0 <= given <= _MOST_WORKERS:
        raise UsageError(f"sample_workers is {brief(given)}, but is a number of processes; 0 uses threads")
    return int(given)


def skips(on_damage: Any) -> bool:
    """Whether damaged samples are left out."""
    if on_damage not in ("raise", "skip"):
        raise UsageError(f"on_damage is {brief(on_damage)}, but is 'raise' or 'skip'")
    return bool(on_damage == "skip")


def plain(given: Any) -> Any:
    """A whole number of NumPy's as one of Python's; anything else as it is."""
    return int(given) if isinstance(given, np.integer) else given
