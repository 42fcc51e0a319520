"""The names of the tensors in a file: the keys that lead to each, joined by dots."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from cordwood.errors import FormatError
from cordwood.tensors.unpickle.describe import TYPED_FUNCTIONS, VIEW_FUNCTIONS, Call

_DEEPEST = 1000
_VISITS_A_BYTE = 8  # a pickle of a few bytes can tell of billions of paths; a real one has fewer paths than bytes
_LOOKS_A_BYTE = 8  # at what is no container, too
_LETTERS_A_BYTE = 16
_FREE_LETTERS = 4 << 20
_MOST_BITS = 256  # of an integer that is part of a name

PARAMETER_FUNCTIONS: Final = frozenset(
    ("torch._utils._rebuild_parameter", "torch._utils._rebuild_parameter_with_state")
)
OTHER_TENSORS: Final = frozenset(
    f"torch._utils.{name}"
    for name in (
        "_rebuild_sparse_tensor",
        "_rebuild_nested_tensor",
        "_rebuild_meta_tensor_no_storage",
        "_rebuild_wrapper_subclass",
        "_rebuild_device_tensor_from_cpu_tensor",
        "_rebuild_device_tensor_from_numpy",
    )
)
TENSOR_FUNCTIONS: Final = VIEW_FUNCTIONS | TYPED_FUNCTIONS | PARAMETER_FUNCTIONS | OTHER_TENSORS
# Where a module keeps what it owns: its users know a parameter as layer1.weight.
_TRANSPARENT: Final = frozenset(("_parameters", "_buffers", "_modules"))


@dataclass(frozen=True, slots=True)
class Named:
    """A tensor in a file."""

    name: str
    node: Call


def is_tensor(node: Any) -> bool:
    """Whether a call rebuilds a tensor."""
    return isinstance(node, Call) and node.name in TENSOR_FUNCTIONS


def named_tensors(root: Any, where: str, size: int) -> list[Named]:
    """Every tensor by every path that leads to it, in order; `size` is that of the pickle."""
    found: list[Named] = []
    used: dict[str, int] = {}
    left = _VISITS_A_BYTE * size + 1000
    looks = _LOOKS_A_BYTE * size + 100_000
    letters = _LETTERS_A_BYTE * size + _FREE_LETTERS
    waiting: list[tuple[str, Any, int]] = [("", root, 0)]
    keys: list[str] = []  # from the root to the present node
    path: list[int] = []
    above: set[int] = set()  # what is in the path, so that a cycle is seen
    while waiting:
        key, node, depth = waiting.pop()
        left -= 1
        if left < 0 or looks < 0 or depth > _DEEPEST:
            raise FormatError(f"{where}: its values are nested in each other more often than a checkpoint's can be")
        above.difference_update(path[depth:])
        del path[depth:], keys[depth:]
        if id(node) in above:
            continue
        path.append(id(node))
        above.add(id(node))
        keys.append(key)
        if is_tensor(node):
            letters -= sum(map(len, keys)) + len(keys)
            if letters < 0:
                raise FormatError(f"{where}: the names of its tensors are far longer than itself; it may be a bomb")
            found.append(Named(_unused(".".join(filter(None, keys)), used), node))
        below = []
        for below_key, value in _children(node):
            looks -= 1
            if isinstance(value, dict | list | tuple | Call):
                below.append((_shown(below_key), value, depth + 1))
        waiting.extend(reversed(below))
    return found


def _unused(name: str, used: dict[str, int]) -> str:
    """Keys may hold dots themselves: a second path of the same name gets a number."""
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else f"{name}#{used[name]}"


def _children(node: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(node, dict):
        yield from node.items()
    elif isinstance(node, list | tuple):
        yield from enumerate(node)
    elif isinstance(node, Call):
        yield from _inside(node)


def _shown(key: Any) -> str:
    if type(key) is str:
        return key
    if type(key) is int and key.bit_length() > _MOST_BITS:
        return "?"
    return str(key) if isinstance(key, int | float | None) else "?"


def _inside(node: Call) -> Iterator[tuple[Any, Any]]:
    """What an object holds: its state, its items, and what it was made of."""
    if node.name in TENSOR_FUNCTIONS:
        if node.arguments and (node.name in TYPED_FUNCTIONS or node.name.endswith("_with_state")):
            yield from _state(node.arguments[-1])
        return
    if node.name == "collections.OrderedDict" and len(node.arguments) == 1:
        # Old files: a list of pairs.
        pairs = node.arguments[0]
        for pair in pairs if isinstance(pairs, list) else ():
            yield (pair[0], pair[1]) if isinstance(pair, list | tuple) and len(pair) == 2 else (None, None)
    else:
        yield from enumerate(node.arguments)
    yield from node.keywords.items()
    yield from enumerate(node.items)
    yield from node.pairs
    if node.name != "collections.OrderedDict":
        # A state_dict's own state is its version numbers.
        for state in node.states:
            yield from _state(state)


def _state(state: Any) -> Iterator[tuple[Any, Any]]:
    parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
    for part in parts:
        if isinstance(part, dict):
            for key, value in part.items():
                if type(key) is str and key in _TRANSPARENT and isinstance(value, dict | Call):
                    yield "", value
                else:
                    yield key, value
        elif isinstance(part, Call):
            yield "", part
