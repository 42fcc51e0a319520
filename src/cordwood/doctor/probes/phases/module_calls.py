"""Replaces ``__call__`` of all modules, or of the classes that a script calls itself.

    calls = ModuleCalls(wrap)       # wrap(original __call__) -> the one that watches
    calls.of_all()
    calls.of({Net, CrossEntropyLoss})
    calls.undo()

``nn.Module.__call__`` is every module's: what stands in its place runs for every layer of a net, also where there is
nothing to be learned from it.
"""

from collections.abc import Callable, Iterable
from typing import Any

from torch import nn

from cordwood.doctor.probes.patches import Patches

Call = Callable[..., Any]


class ModuleCalls:
    """Replaces ``__call__`` of nn.Module, or of some classes, never of both."""

    def __init__(self, wrap: Callable[[Call], Call]) -> None:
        self._wrap = wrap
        self._patches = Patches()
        self._watched: frozenset[type] = frozenset()

    def of_all(self) -> None:
        """Watch every module."""
        self.of([nn.Module])

    def of(self, classes: Iterable[type]) -> None:
        """Watch modules of these classes, and no others."""
        wanted = frozenset(classes)
        if wanted == self._watched:
            return
        self.undo()
        self._watched = wanted
        for kind in wanted:
            self._patches.replace(kind, "__call__", self._wrap(vars(kind).get("__call__") or _inherited(kind)))

    def undo(self) -> None:
        """Watch nobody."""
        self._patches.undo()
        self._watched = frozenset()


def _inherited(kind: type) -> Call:
    """What a class has of its bases, looked up anew in each call.

    torch.fx puts a ``__call__`` of its own into nn.Module while it traces, which must be found as it is without us.
    """

    def __call__(module: Any, *arguments: Any, **options: Any) -> Any:  # noqa: N807
        return super(kind, module).__call__(*arguments, **options)  # type: ignore[arg-type]

    return __call__
