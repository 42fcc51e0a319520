"""Describes a pickle without running anything of it: globals, calls and storages become plain objects.

::

    describe(data, "x.pt: data.pkl").root
    # Call(Global("torch._utils", "_rebuild_tensor_v2"), (Persistent(...), 0, (3, 4), (4, 1), False, ...))

Lists, dicts, tuples and plain values stay what they are. ``sight`` recognises a call that lays a tensor over a storage,
``nodes`` visits everything in a description.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from cordwood.errors import FormatError
from cordwood.tensors.unpickle.machine import Machine, Spanned, spanned_tuple
from cordwood.tensors.unpickle.renamed import moved


@dataclass(frozen=True, slots=True)
class Global:
    """A name that the pickle imports."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True, eq=False)
class Call:
    """What a call (or a new object) would give, with the state and the items it would get afterwards."""

    function: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)
    states: list[Any] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)  # appended, one after the other
    pairs: list[tuple[Any, Any]] = field(default_factory=list)  # set, key and value

    @property
    def name(self) -> str:
        """The function's full name, or nothing if it is not a plain global."""
        return str(self.function) if isinstance(self.function, Global) else ""


@dataclass(slots=True, eq=False)
class Persistent:
    """An object that lives outside the pickle: a storage, or in very old files a class with its source."""

    identity: tuple[Any, ...]
    begin: int  # where the pickle starts to write its id
    at: int  # and where it asks for the object


class Describer:
    """Hooks that describe what a pickle asks for, and do nothing of it."""

    def __init__(self) -> None:
        self.globals: dict[Global, None] = {}  # in order of appearance
        self.persistents: list[Persistent] = []
        self.machine: Machine | None = None

    def find_global(self, module: str, name: str) -> Global:
        found = Global(*moved(module, name))
        self.globals.setdefault(found)
        return found

    def call(self, function: Any, arguments: Any) -> Call:
        return Call(function, arguments)

    def make(self, cls: Any, arguments: Any, keywords: Any) -> Call:
        return Call(cls, arguments, keywords)

    def build(self, instance: Any, state: Any) -> Any:
        if isinstance(instance, Call):
            instance.states.append(state)
            return instance
        # A dict or list with a state: its class has one of its own, which only that class understands.
        return Call(Global("builtins", type(instance).__name__), (instance,), states=[state])

    def persistent(self, identity: Any) -> Persistent:
        if not isinstance(identity, tuple):
            raise FormatError(f"a persistent id is a {type(identity).__name__}, and torch writes tuples")
        machine = self.machine
        found = Persistent(identity, machine.starts[-1] if machine else 0, machine.opcode_at if machine else 0)
        self.persistents.append(found)
        return found

    def extend(self, target: Any, items: list[Any]) -> None:
        if not isinstance(target, Call):
            raise FormatError(f"items added to a {type(target).__name__}")
        target.items.extend(items)

    def update(self, target: Any, items: list[Any]) -> None:
        if not isinstance(target, Call):
            raise FormatError(f"keys set in a {type(target).__name__}")
        target.pairs.extend(zip(items[::2], items[1::2], strict=True))


@dataclass(frozen=True, slots=True)
class Description:
    """A pickle that was looked at."""

    root: Any
    hooks: Describer
    machine: Machine


def describe(data: bytes, where: str, start: int = 0, room: int | None = None) -> Description:
    """Read one pickle; nothing of it is run. `room` is how many bytes the description may take."""
    hooks = Describer()
    machine = hooks.machine = Machine(data, hooks, where, start=start, tuples=spanned_tuple, room=room)
    return Description(machine.run(), hooks, machine)


# functions whose first arguments are (storage, offset, size, stride)
VIEW_FUNCTIONS = frozenset(
    f"torch._utils.{name}"
    for name in ("_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_qtensor")
)
# functions whose arguments are (function, type, arguments, state)
TYPED_FUNCTIONS = frozenset(("torch._tensor._rebuild_from_type_v2", "torch._tensor._rebuild_from_type"))


@dataclass(frozen=True, slots=True)
class StorageView:
    """One call that lays a tensor over a storage."""

    function: str
    arguments: Spanned
    storage: Persistent


def sight(node: Any) -> StorageView | None:
    """The view that a call makes, also if a subclass is wrapped around it."""
    if not isinstance(node, Call):
        return None
    name, arguments = node.name, node.arguments
    if name in TYPED_FUNCTIONS and len(arguments) == 4:
        name, arguments = str(arguments[0]) if isinstance(arguments[0], Global) else "", arguments[2]
    if name not in VIEW_FUNCTIONS or not isinstance(arguments, Spanned) or len(arguments) < 4:
        return None
    storage, offset, size, stride = arguments[:4]
    if not isinstance(storage, Persistent) or type(offset) is not int:
        return None
    for numbers in (size, stride):
        if not isinstance(numbers, tuple) or any(type(number) is not int for number in numbers):
            return None
    return StorageView(name, arguments, storage) if len(size) == len(stride) else None


def children(node: Any) -> Iterator[Any]:
    """Everything that a value holds, in the order in which it is written."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield key
            yield value
    elif isinstance(node, list | tuple | set | frozenset):
        yield from node
    elif isinstance(node, Call):
        yield node.function
        yield node.arguments
        yield node.keywords
        yield from node.items
        for pair in node.pairs:
            yield from pair
        yield from node.states
    elif isinstance(node, Persistent):
        yield node.identity


def nodes(root: Any) -> Iterator[Any]:
    """Every container and call that can be reached, once each."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict | list | tuple | set | frozenset | Call | Persistent) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        waiting.extend(reversed(list(children(node))))
