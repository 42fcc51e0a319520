"""Locks and state that a forked process must not inherit as they are: the threads that own them do not exist there.

lock = ForkSafeLock()
in_child(self._forget)
"""

import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from types import MethodType
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[[], Any])
_methods: "weakref.WeakKeyDictionary[object, Callable[[Any], Any]]" = weakref.WeakKeyDictionary()


def in_child(call: F) -> F:
    """Call this in every process that is forked from now on; can be used as a decorator.

    A bound method is called only while its object exists, which is not kept alive for it. One method per object.
    """
    if isinstance(call, MethodType):
        _methods[call.__self__] = call.__func__
    else:
        os.register_at_fork(after_in_child=call)
    return call


@in_child
def _call_methods() -> None:
    for owner, method in _methods.items():
        method(owner)


class ForkSafeLock:
    """A lock for ``with`` that is free in a forked process, and wherever it is unpickled."""

    def __init__(self) -> None:
        self._renew()
        in_child(self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        with suppress(RuntimeError):  # the process was forked in the block: the lock there is a new one
            self._lock.release()

    def __reduce__(self) -> tuple[type["ForkSafeLock"], tuple[()]]:
        return ForkSafeLock, ()
