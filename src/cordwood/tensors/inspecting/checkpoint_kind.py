"""Finds out what a file is: a tensor, a state_dict, a training checkpoint, or a whole model."""

import re
from collections.abc import Iterator
from typing import Any, Final

from cordwood.tensors.unpickle.describe import Call, Global, Persistent, nodes
from cordwood.tensors.unpickle.tensor_names import is_tensor

_ORDERED = "collections.OrderedDict"
# Keys beside the weights that only a training run writes.
_TRAINING: Final = re.compile(r"optim|sched|epoch|global_step|^step$|^iter|lightning|scaler|^loops$", re.IGNORECASE)


def kind_of(root: Any) -> str:
    """In words; the bytes are described, not loaded."""
    if is_tensor(root):
        return "tensor"
    if isinstance(root, Persistent):
        return "storage"
    if is_module(root):
        return "whole model"
    pairs = list(entries(root))
    if _is_state_dict(pairs):
        return "state_dict"
    if {key for key, _ in pairs} >= {"state", "param_groups"}:
        return "optimizer state_dict"
    models = any(is_module(value) for _, value in pairs)
    if any(isinstance(key, str) and _TRAINING.search(key) for key, _ in pairs) and (models or _holds_tensors(root)):
        return "training checkpoint with a whole model" if models else "training checkpoint"
    if models:
        return f"whole model in {_container(root)}"
    return f"{'tensors' if _holds_tensors(root) else 'no tensors'} in {_container(root)}"


def _is_state_dict(pairs: list[tuple[Any, Any]]) -> bool:
    if not any(is_tensor(value) for _, value in pairs):
        return False
    return all(
        isinstance(key, str) and (is_tensor(value) or key.endswith("_extra_state") or isinstance(value, Persistent))
        for key, value in pairs
    )


def _holds_tensors(root: Any) -> bool:
    return any(is_tensor(node) for node in nodes(root))


def _container(root: Any) -> str:
    if isinstance(root, Call):
        name = class_of(root)
        return f"a {name[:80]}" if name else "an object"
    if isinstance(root, dict | list | tuple | set | frozenset):
        plain = next(kind.__name__ for kind in (dict, list, tuple, set, frozenset) if isinstance(root, kind))
        return f"a {plain}"
    return f"a file that holds {type(root).__name__}"


def entries(node: Any) -> Iterator[tuple[Any, Any]]:
    """Keys and values of a mapping, also as the oldest files write it."""
    if isinstance(node, dict):
        yield from node.items()
    elif isinstance(node, Call):
        yield from node.pairs
        first = node.arguments[0] if node.name == _ORDERED and len(node.arguments) == 1 else ()
        for pair in first if isinstance(first, list) else ():
            if isinstance(pair, list | tuple) and len(pair) == 2:
                yield pair[0], pair[1]


def is_module(node: Any) -> bool:
    """Whether an object has what every torch.nn.Module has."""
    return isinstance(node, Call) and any(
        isinstance(part, dict) and "_parameters" in part and "_modules" in part
        for state in node.states
        for part in (state if isinstance(state, tuple) else (state,))
    )


def class_of(node: Call) -> str:
    """The full name of an object's class, or nothing."""
    cls: Any = node.function
    if node.name in ("copyreg._reconstructor", "copyreg.__newobj__") and node.arguments:
        cls = node.arguments[0]
    if isinstance(cls, Persistent) and len(cls.identity) > 1:
        cls = cls.identity[1]  # old files keep the source text of a class beside its name
    return str(cls) if isinstance(cls, Global) else ""


def bound_to(root: Any) -> list[str]:
    """The classes of the models in a file, the outermost first; those of torch only if there are no others."""
    found = dict.fromkeys(class_of(node) for node in nodes(root) if is_module(node))
    found.pop("", None)
    foreign = [name for name in found if not name.startswith("torch.")]
    return foreign or list(found)[:1]
