"""Reads some tensors of a file by name, without the rest."""

import difflib
import fnmatch
import re
from collections.abc import Collection, Sequence
from typing import Any

import torch

from cordwood.common.text import counted, reason_of
from cordwood.errors import CordwoodError, FormatError, TensorNameError, UsageError
from cordwood.tensors.formats.detect import PickledFile
from cordwood.tensors.loading.storages import Storages
from cordwood.tensors.unpickle.allowlist import Allowed
from cordwood.tensors.unpickle.describe import Call, Description, Global, Persistent, describe, nodes
from cordwood.tensors.unpickle.tensor_names import Named, named_tensors

_DEEPEST = 100  # a tensor inside a parameter inside a subclass ... no more than that


def description_of(file: PickledFile, room: int | None = None) -> Description:
    """The pickle of a file, looked at; `room` is how many bytes that may take."""
    known = getattr(file, "description", None)
    return known if isinstance(known, Description) else describe(file.pickle, file.where, file.start, room)


def storage_keys(node: Any) -> list[str]:
    """The keys of the storages that a value needs."""
    keys: dict[str, None] = {}
    for inside in nodes(node):
        if isinstance(inside, Persistent) and len(inside.identity) > 2:
            key = inside.identity[2]
            if type(key) is bytes:
                key = key.decode("ascii", "replace")
            elif type(key) is int and 0 <= key < 1 << 64:
                key = str(key)
            if type(key) is str:  # anything else is refused when the storage is asked for
                keys.setdefault(key)
    return list(keys)


class Wanted:
    """Names by patterns, in which ``*`` stands for anything, dots included."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._matchers = [re.compile(fnmatch.translate(pattern)).match for pattern in patterns]

    def __call__(self, name: str) -> bool:
        return name in self._patterns or any(match(name) is not None for match in self._matchers)

    def check(self, where: str, names: Collection[str]) -> None:
        """Raise if nothing fits, or if a plain name among the patterns is not there."""
        if not names:
            return
        missing = [pattern for pattern in self._patterns if not _GLOB.search(pattern) and pattern not in names]
        for pattern in missing:
            if any(name.startswith(f"{pattern}.") for name in names):
                raise no_such_tensor(where, pattern, names)
        if not any(self(name) for name in names):
            some = ", ".join(name[:80] for name in list(names)[:3])
            raise UsageError(f"{where}: no tensor has a name that was asked for; it has {len(names)}, such as {some}")
        if missing:
            raise no_such_tensor(where, missing[0], names)


_GLOB = re.compile(r"[*?\[]")


def no_such_tensor(where: str, name: str, names: Collection[str]) -> TensorNameError:
    """The error for a name that is not in a file, with what may have been meant."""
    if inside := sum(each.startswith(f"{name}.") for each in names):
        return TensorNameError(
            f"{where}: no tensor is named {name[:200]!r}, and it has {counted(inside, 'tensor')} below that name: "
            f"load with only={f'{name[:200]}.*'!r}"
        )
    near = difflib.get_close_matches(name[:200], [each for each in list(names)[:1000] if len(each) < 200], 3)
    some = ", ".join(near or [each[:80] for each in list(names)[:3]])
    return TensorNameError(f"{where}: no tensor is named {name[:200]!r}; it has {len(names)}, such as {some}")


class Selection:
    """The named tensors of one file, made on demand; what shares memory in the file shares it here."""

    def __init__(self, file: PickledFile, storages: Storages) -> None:
        self.file = file
        self.storages = storages
        room = storages.allotment.left
        root = description_of(file, room).root
        self.named: dict[str, Named] = {
            named.name: named for named in named_tensors(root, file.where, len(file.pickle))
        }
        self._hooks = Allowed(storages.typed, file.source.name, size=len(file.pickle), room=room)
        self._made: dict[int, Any] = {}

    def load(self, wanted: Wanted) -> dict[str, torch.Tensor]:
        """The wanted ones, by name; their storages are read together."""
        chosen = {name: named for name, named in self.named.items() if wanted(name)}
        wanted.check(self.file.source.name, self.named)
        self.storages.prefetch(storage_keys([named.node for named in chosen.values()]))
        return {name: self._tensor(named) for name, named in chosen.items()}

    def tensor(self, name: str) -> torch.Tensor:
        """One of them."""
        if name not in self.named:
            raise no_such_tensor(self.file.source.name, name, self.named)
        return self._tensor(self.named[name])

    def _tensor(self, named: Named) -> torch.Tensor:
        try:
            made = self._make(named.node, 0)
        except (CordwoodError, OSError):
            raise
        except Exception as error:  # whatever torch and Python say to values that make no sense
            raise FormatError(f"{self.file.where}: {named.name[:80]}: {reason_of(error)}") from error
        if not isinstance(made, torch.Tensor):
            raise FormatError(f"{self.file.where}: {named.name[:80]} is a {type(made).__name__}, not a tensor")
        return made

    def _make(self, node: Any, depth: int) -> Any:
        """A described value, made real by what is allowed."""
        if depth > _DEEPEST:
            raise FormatError(f"{self.file.where}: a tensor is nested in itself")
        if not isinstance(node, Global | Call | Persistent | list | dict | set | tuple):
            return node
        if id(node) in self._made:
            return self._made[id(node)]
        made = self._made[id(node)] = self._new(node, depth + 1)
        return made

    def _new(self, node: Any, depth: int) -> Any:
        hooks = self._hooks
        if isinstance(node, Global):
            return hooks.find_global(node.module, node.name)
        if isinstance(node, Persistent):
            return hooks.persistent(self._make(node.identity, depth))
        if isinstance(node, Call):
            made = hooks.call(self._make(node.function, depth), self._make(node.arguments, depth))
            if node.items:
                hooks.extend(made, [self._make(item, depth) for item in node.items])
            for pair in node.pairs:
                hooks.update(made, [self._make(part, depth) for part in pair])
            for state in node.states:
                made = hooks.build(made, self._make(state, depth))
            return made
        if isinstance(node, dict):
            return {self._make(key, depth): self._make(value, depth) for key, value in node.items()}
        items = [self._make(item, depth) for item in node]
        return items if isinstance(node, list) else set(items) if isinstance(node, set) else tuple(items)
