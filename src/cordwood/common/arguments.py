"""Checks of arguments: each returns the value, or raises a `UsageError` that says what it must be.

@checks_keywords("cw.Loader", {"collate_fn": "is collate here"})
def __init__(self, dataset, batch_size=1, memory="auto"):
    self.batch_size = whole_number("batch_size", batch_size, 1)
    self.memory = one_of("memory", memory, ("auto", "mmap", "ram"))

cw.Loader has no argument 'batchsize'; did you mean 'batch_size'?
memory must be 'auto', 'mmap' or 'ram', got 'rm'; did you mean 'ram'?
"""

import functools
import inspect
import operator
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from cordwood.common.suggest import did_you_mean
from cordwood.common.text import brief
from cordwood.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
_NONE: Mapping[str, str] = MappingProxyType({})
# Keywords under their former names -> what they are called now; options of the command likewise.
RENAMED: Mapping[str, str] = MappingProxyType(
    {
        "folder": "output",
        "most_errors": "max_errors",
        "most_pixels": "max_pixels",
        "most_rows": "max_rows",
        "out": "output",
    }
)


def checks_keywords(name: str, elsewhere: Mapping[str, str] = _NONE) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator for a function that is called `name`; a wrong keyword raises `UsageError`.

    `elsewhere` are keywords of functions that people know from other packages, and what is to be said of them.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        known = tuple(inspect.signature(function).parameters)

        @functools.wraps(function)
        def checked(*arguments: P.args, **keywords: P.kwargs) -> R:
            for word in keywords:
                if word not in known:
                    if RENAMED.get(word) in known:
                        raise UsageError(f"{name} has no argument {word!r}: it was renamed to {RENAMED[word]!r}")
                    hint = f": that {elsewhere[word]}" if word in elsewhere else did_you_mean(word, known)
                    raise UsageError(f"{name} has no argument {word!r}{hint}")
            return function(*arguments, **keywords)

        return checked

    return decorate


def one_of(name: str, given: T, choices: Collection[str]) -> T:
    """One of the choices."""
    if isinstance(given, str) and given in choices:
        return given
    *others, last = map(repr, choices)
    listed = f"{', '.join(others)} or {last}" if others else last
    raise UsageError(f"{name} must be {listed}, got {brief(given)}{did_you_mean(given, choices)}")


def whole_number(name: str, given: Any, least: int = 0, most: int | None = None, what: str = "") -> int:
    """A whole number from `least` to `most`, of any type but bool; `what` describes it in the message."""
    try:
        number = least - 1 if isinstance(given, bool) else operator.index(given)
    except TypeError:
        number = least - 1
    if number < least or (most is not None and number > most):
        bounds = f", {least} or more" if most is None else f" from {least} to {most}"
        raise UsageError(f"{name} must be {what or f'a whole number{bounds}'}, got {brief(given)}")
    return number


def true_or_false(name: str, given: Any) -> bool:
    """True or False, and nothing else that is true or false in a condition."""
    if type(given) is not bool:
        raise UsageError(f"{name} must be True or False, got {brief(given)}")
    return given


def callable_or_none(name: str, given: Any) -> Any:
    """Something that can be called, or None."""
    if given is not None and not callable(given):
        raise UsageError(f"{name} must be a function or None, got {brief(given)}")
    return given
