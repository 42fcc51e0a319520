"""A keyword that a function does not have gets an answer: what may have been meant, or what stands for it here.

@checks_keywords("cw.Loader", {"collate_fn": "is collate here"})
def __init__(self, dataset, batch_size=1, collate=None): ...

cw.Loader has no argument 'batchsize'; did you mean 'batch_size'?
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import ParamSpec, TypeVar

from cordwood.common.suggest import did_you_mean
from cordwood.errors import UsageError

P = ParamSpec("P")
R = TypeVar("R")
_NONE: Mapping[str, str] = MappingProxyType({})


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
                    told = f": that {elsewhere[word]}" if word in elsewhere else did_you_mean(word, known)
                    raise UsageError(f"{name} has no argument {word!r}{told}")
            return function(*arguments, **keywords)

        return checked

    return decorate
