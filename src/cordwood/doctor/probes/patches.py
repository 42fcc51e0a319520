"""Replaces attributes, and puts every one of them back at the end, in reverse order.

    patches = Patches()
    patches.replace(torch.autograd, "backward", timed)
    patches.undo()

An attribute that a class only inherits is deleted again, not set. If somebody else has patched over ours in the
meantime, theirs stays: it calls ours, which passes everything through once the doctor is detached.
"""

from collections.abc import Callable
from typing import Any

_INHERITED = object()


class Patches:
    """Attributes that were replaced, to be put back."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []
        self._undoings: list[Callable[[], object]] = []
        self.left: list[str] = []  # what somebody else patched over: it cannot be taken out

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set ``owner.name``, to be put back later."""
        before = vars(owner).get(name, _INHERITED)
        setattr(owner, name, value)
        self._done.append((owner, name, before, value))

    def also(self, undo: Callable[[], object]) -> None:
        """Something else to be called when everything is undone."""
        self._undoings.append(undo)

    def undo(self) -> None:
        """Put everything back. A second call does nothing."""
        while self._undoings:
            self._undoings.pop()()
        while self._done:
            owner, name, before, value = self._done.pop()
            if vars(owner).get(name) is not value:
                self.left.append(f"{getattr(owner, '__name__', owner)}.{name}")
            elif before is _INHERITED:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
