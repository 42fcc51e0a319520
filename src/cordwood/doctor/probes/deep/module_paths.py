"""Tracks which module is running: a stack of modules, kept by global hooks for the few steps that are watched.

    paths = ModulePaths()
    paths.begin()
    mark = paths.current()
    paths.end()
    paths.name(mark)        # "encoder.layers.0.norm1"; "" outside of all modules
    paths.kind(mark)        # "LayerNorm"

Nothing is put into the modules themselves. A module that the script calls itself is a root, and paths start below it; a
root's own operations, and a root without children (a loss), go by the name of the class. Where there are several roots
with children, as in a GAN, that name comes first in every path.
"""

from collections import Counter
from threading import get_ident
from typing import Any

from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

Mark = tuple[int, str] | None  # the root's number and the path in it


class ModulePaths:
    """The innermost module of the thread that called `begin`."""

    def __init__(self) -> None:
        self._hooks: list[Any] = []
        self._stack: list[tuple[Any, int]] = []  # module, number of its root
        self._roots: list[Any] = []
        self._marks: dict[tuple[int, int], Mark] = {}  # root's number, identity of a module in it
        self._kinds: dict[tuple[int, str], str] = {}  # root's number, path: class
        self._names: list[tuple[str, bool]] = []  # of roots: class, and whether it has children
        self._thread = 0

    def begin(self) -> None:
        """Watch this thread from now on."""
        self._thread = get_ident()
        self._hooks = [
            register_module_forward_pre_hook(self._entering),
            register_module_forward_hook(self._leaving, always_call=True),
        ]

    def end(self) -> None:
        """Take the hooks out and let go of all modules; their names stay."""
        while self._hooks:
            self._hooks.pop().remove()
        self._stack.clear()
        self._roots.clear()
        self._marks.clear()

    def current(self) -> Mark:
        """The innermost module, for `name` to name later; None outside of all."""
        if not self._stack or get_ident() != self._thread:
            return None
        module, root = self._stack[-1]
        return self._marks.get((root, id(module))) or (root, type(module).__name__)

    def name(self, mark: Mark) -> str:
        """The path of a module, once all roots are known."""
        if mark is None:
            return ""
        root, path = mark
        name, has_children = self._names[root]
        families = Counter(each for each, children in self._names if children)
        if not has_children or families.total() < 2:
            return path or name
        if families[name] > 1:  # two of one class
            name = f"{name}#{root + 1}"
        return f"{name}.{path}" if path else name

    def kind(self, mark: Mark) -> str:
        """The class of a module; "" outside of all."""
        return "" if mark is None else self._kinds.get(mark, mark[1])

    def _entering(self, module: Any, arguments: Any) -> None:
        if get_ident() == self._thread:
            self._stack.append((module, self._stack[-1][1] if self._stack else self._root(module)))

    def _leaving(self, module: Any, arguments: Any, output: Any) -> None:
        if get_ident() != self._thread or all(module is not each for each, _ in self._stack):
            return
        while self._stack.pop()[0] is not module:
            pass

    def _root(self, module: Any) -> int:
        for number, root in enumerate(self._roots):
            if root is module:
                return number
        number = len(self._roots)
        self._roots.append(module)
        parts = list(module.named_modules())
        self._names.append((type(module).__name__, len(parts) > 1))
        for path, part in parts:
            self._marks[number, id(part)] = (number, path)
            self._kinds[number, path] = type(part).__name__
        return number
