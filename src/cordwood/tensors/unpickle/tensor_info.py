"""Shape, dtype and storage of a tensor, from the description of its pickle: no bytes of the tensor are read.

::

    for named in named_tensors(description.root, where, size):
        info = tensor_info(named)
        print(info.name, info.shape, info.dtype)

The numbers come from outside. What cannot be a size, a stride or a dtype is left out: `shape` or `dtype` is then None.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from cordwood.tensors.content.dtypes import SUB_BYTE, storage_dtypes, torch_dtype
from cordwood.tensors.layout.reachable import View
from cordwood.tensors.unpickle.describe import (
    TYPED_FUNCTIONS,
    VIEW_FUNCTIONS,
    Call,
    Global,
    Persistent,
    StorageView,
    sight,
)
from cordwood.tensors.unpickle.rebuild import MOST_DIMENSIONS
from cordwood.tensors.unpickle.tensor_names import PARAMETER_FUNCTIONS, Named

_DEEPEST: Final = 20  # a tensor in a parameter in a subclass ... no more than that
_LARGEST: Final = 1 << 62
_REQUIRES_GRAD_AT: Final = {
    "torch._utils._rebuild_tensor_v2": 4,
    "torch._utils._rebuild_tensor_v3": 4,
    "torch._utils._rebuild_qtensor": 5,
}
_DTYPES: Final = storage_dtypes()
_PARAMETER: Final = "torch.nn.parameter.Parameter"

Shape = tuple[int | None, ...]  # None: a size that only the data tell, as in a nested tensor


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What a file says of a tensor.

    ::

        with cw.peek("model.pt") as f:
            info = f.info("layer1.weight")
            print(info.shape, info.dtype, info.nbytes)

    `nbytes` are those of its elements; its storage may have more, or, if it is expanded, fewer. `location` is the
    device it was saved from, `storages` are the keys of the storages it needs, `kind` is its class.
    """

    name: str
    shape: Shape | None = None
    dtype: torch.dtype | None = None
    stride: tuple[int, ...] | None = None
    offset: int | None = None  # in elements, as Tensor.storage_offset() tells it
    requires_grad: bool = False
    location: str = "cpu"
    layout: str = "strided"
    nbytes: int = 0
    storages: tuple[str, ...] = ()
    kind: str = "torch.Tensor"

    @property
    def contiguous(self) -> bool:
        """As Tensor.is_contiguous() tells it; what has no strides of its own counts as contiguous."""
        return self.shape is None or self.stride is None or is_dense(self.shape, self.stride)

    @property
    def memory_format(self) -> str:
        """``"contiguous"``, ``"channels_last"``, ``"channels_last_3d"``, or nothing if it is none of these."""
        if self.shape is None or self.stride is None or self.contiguous:
            return "contiguous"
        if len(self.shape) not in (4, 5):
            return ""
        order = (0, *range(2, len(self.shape)), 1)
        if not is_dense([self.shape[dim] for dim in order], [self.stride[dim] for dim in order]):
            return ""
        return "channels_last" if len(self.shape) == 4 else "channels_last_3d"


def is_dense(shape: Any, strides: Any) -> bool:
    """Whether elements stand one behind the other, the last dimension innermost."""
    if 0 in shape:
        return True
    expected = 1
    for count, stride in zip(reversed(shape), reversed(strides), strict=True):
        if count != 1:
            if stride != expected:
                return False
            expected *= count
    return True


@dataclass(frozen=True, slots=True)
class StorageFacts:
    """A storage as a persistent id tells it."""

    key: str
    dtype: torch.dtype
    location: str
    nbytes: int
    part: bool  # of another storage, as in the oldest files


def storage_facts(persistent: Persistent) -> StorageFacts | None:
    """What a persistent id says, or None if it is no storage's."""
    identity = persistent.identity
    if len(identity) not in (5, 6) or _word(identity[0]) != "storage":
        return None
    kind, key, location, numel = identity[1], _word(identity[2]), _word(identity[3]), identity[4]
    dtype = _DTYPES.get(kind.name) if isinstance(kind, Global) else None
    if dtype is None or not isinstance(key, str | int) or type(location) is not str or not _is_count(numel):
        return None
    if isinstance(key, int) and not _is_count(key):
        return None
    part = len(identity) == 6 and identity[5] is not None
    return StorageFacts(str(key), dtype, location, numel * dtype.itemsize, part)


def _word(value: Any) -> Any:
    """Python 2's text was bytes."""
    return value.decode("ascii", "replace") if isinstance(value, bytes) else value


def tensor_info(named: Named) -> TensorInfo:
    """Everything that can be told of a tensor without reading it."""
    keys: dict[str, None] = {}
    for part in parts_of(named.node):
        sighted = sight(part)
        facts = storage_facts(sighted.storage) if sighted is not None else None
        if facts is not None:
            keys.setdefault(facts.key)
    told = _told(named.node.name, named.node.arguments, 0)
    return replace(told, name=named.name, storages=tuple(keys))


def _told(function: str, arguments: tuple[Any, ...], depth: int) -> TensorInfo:
    """What a call that rebuilds a tensor says; the name and the storages are the caller's to fill in."""
    if depth > _DEEPEST:
        return TensorInfo("")
    if function in VIEW_FUNCTIONS:
        return _strided(function, arguments)
    if function in TYPED_FUNCTIONS:
        return _typed(arguments, depth)
    if function in PARAMETER_FUNCTIONS:
        return replace(_inner(arguments, 0, depth), requires_grad=_at(arguments, 1) is True, kind=_PARAMETER)
    match function.removeprefix("torch._utils."):
        case "_rebuild_sparse_tensor":
            return _sparse(arguments, depth)
        case "_rebuild_nested_tensor":
            return _nested(arguments, depth)
        case "_rebuild_meta_tensor_no_storage":
            return _outline(arguments, 0, requires_grad_at=3, location="meta")
        case "_rebuild_wrapper_subclass":
            kind = _at(arguments, 0)
            told = _outline(arguments, 1, requires_grad_at=7, location=_device(_at(arguments, 6)))
            return replace(told, kind=str(kind) if isinstance(kind, Global) else "")
        case "_rebuild_device_tensor_from_cpu_tensor":
            told = _inner(arguments, 0, depth)
            grad = _at(arguments, 3) is True
            return replace(told, location=_device(_at(arguments, 2)), requires_grad=grad)
    return TensorInfo("")


def _at(arguments: tuple[Any, ...], index: int) -> Any:
    return arguments[index] if isinstance(arguments, tuple) and index < len(arguments) else None


def _inner(arguments: tuple[Any, ...], index: int, depth: int) -> TensorInfo:
    node = _at(arguments, index)
    return _told(node.name, node.arguments, depth + 1) if isinstance(node, Call) else TensorInfo("")


def _strided(function: str, arguments: tuple[Any, ...]) -> TensorInfo:
    storage = _at(arguments, 0)
    facts = storage_facts(storage) if isinstance(storage, Persistent) else None
    if facts is None:
        return TensorInfo("")
    dtype = _view_dtype(function, arguments, facts)
    told = TensorInfo(
        "",
        dtype=dtype,
        requires_grad=_at(arguments, _REQUIRES_GRAD_AT.get(function, len(arguments))) is True,
        location=facts.location,
    )
    offset, shape, stride = _at(arguments, 1), _counts(_at(arguments, 2)), _counts(_at(arguments, 3))
    if shape is None or stride is None or len(shape) != len(stride) or not _is_count(offset):
        return told
    return replace(told, shape=shape, stride=stride, offset=offset, nbytes=_nbytes(shape, dtype))


def _view_dtype(function: str, arguments: tuple[Any, ...], facts: StorageFacts) -> torch.dtype | None:
    if not function.endswith("_v3"):
        return facts.dtype
    return _dtype(_at(arguments, 6))


def _dtype(named: Any) -> torch.dtype | None:
    return torch_dtype(named.name) if isinstance(named, Global) and named.module == "torch" else None


def _typed(arguments: tuple[Any, ...], depth: int) -> TensorInfo:
    function, kind, inner = _at(arguments, 0), _at(arguments, 1), _at(arguments, 2)
    if not isinstance(inner, tuple):
        return TensorInfo("")
    name = str(kind) if isinstance(kind, Global) else ""
    if str(function).endswith("._rebuild_njt"):
        told = _jagged(inner, depth)
    else:
        told = _told(str(function) if isinstance(function, Global) else "", inner, depth + 1)
    return replace(told, kind="torch.Tensor" if name == "torch._tensor.Tensor" else name)


def _jagged(arguments: tuple[Any, ...], depth: int) -> TensorInfo:
    """A nested tensor of the jagged kind: values of all pieces in a row, and where each begins."""
    parts = _at(arguments, 0)
    if not isinstance(parts, dict):
        return TensorInfo("")
    values, offsets = (_inner((parts.get(name),), 0, depth) for name in ("values", "offsets"))
    if not values.shape or not offsets.shape or offsets.shape[0] is None:
        return TensorInfo("", dtype=values.dtype, layout="jagged")
    shape = (max(offsets.shape[0] - 1, 0), None, *values.shape[1:])
    return replace(values, shape=shape, stride=None, offset=None, layout="jagged")


def _sparse(arguments: tuple[Any, ...], depth: int) -> TensorInfo:
    layout, parts = _at(arguments, 0), _at(arguments, 1)
    name = _at(layout.arguments, 0) if isinstance(layout, Call) else None
    word = name.removeprefix("torch.")[:20] if isinstance(name, str) else "sparse"
    if not isinstance(parts, tuple):
        return TensorInfo("", layout=word)
    indices = 1 if word == "sparse_coo" else 2
    told = [_inner(parts, index, depth) for index in range(indices + 1)]
    return TensorInfo(
        "",
        shape=_size(_at(parts, indices + 1)),
        dtype=told[-1].dtype,
        location=told[-1].location,
        layout=word,
        nbytes=sum(part.nbytes for part in told),
    )


def _nested(arguments: tuple[Any, ...], depth: int) -> TensorInfo:
    """A nested tensor of the strided kind: the sizes of its pieces are data."""
    buffer, sizes = _inner(arguments, 0, depth), _inner(arguments, 1, depth)
    shape: Shape | None = None
    if sizes.shape is not None and len(sizes.shape) == 2:
        pieces, dimensions = sizes.shape
        if dimensions is not None and dimensions <= MOST_DIMENSIONS:
            shape = (pieces, *[None] * dimensions)
    return replace(buffer, shape=shape, stride=None, offset=None, layout="nested")


def _outline(arguments: tuple[Any, ...], first: int, *, requires_grad_at: int, location: str) -> TensorInfo:
    """A tensor without a storage: dtype, size and stride follow each other."""
    shape, stride = _size(_at(arguments, first + 1)), _size(_at(arguments, first + 2))
    fits = shape is not None and stride is not None and len(shape) == len(stride)
    return TensorInfo(
        "",
        shape=shape,
        dtype=_dtype(_at(arguments, first)),
        stride=stride if fits else None,
        offset=0,
        requires_grad=_at(arguments, requires_grad_at) is True,
        location=location,
    )


def _device(node: Any) -> str:
    word = _at(node.arguments, 0) if isinstance(node, Call) else node
    return word[:40] if isinstance(word, str) else "?"


def _size(node: Any) -> tuple[int, ...] | None:
    """A plain tuple, or a torch.Size."""
    if isinstance(node, Call) and node.name == "torch.Size":
        node = _at(node.arguments, 0)
    return _counts(tuple(node) if isinstance(node, list) else node)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _counts(values: Any) -> tuple[int, ...] | None:
    if not isinstance(values, tuple) or len(values) > MOST_DIMENSIONS or not all(map(_is_count, values)):
        return None
    return tuple(values)


def _nbytes(shape: tuple[int, ...], dtype: torch.dtype | None) -> int:
    if dtype is None:
        return 0
    items = math.prod(shape)
    if dtype in SUB_BYTE:
        return -(-items // (4 if "2x4" in str(dtype) else 8 if "1x8" in str(dtype) else 2))
    return items * dtype.itemsize


def view_of(sighted: StorageView) -> View | None:
    """The bytes that a call lays a tensor over; None where the numbers do not tell them."""
    told = _strided(sighted.function, sighted.arguments)
    if told.shape is None or told.stride is None or told.offset is None or told.dtype is None or told.dtype in SUB_BYTE:
        return None
    size = told.dtype.itemsize
    shape = tuple(count for count in told.shape if count is not None)
    return View(told.offset * size, size, shape, tuple(stride * size for stride in told.stride))


def views_of(node: Call) -> Iterator[tuple[str, View]]:
    """The views that a tensor is made of, each with its storage's key."""
    for part in parts_of(node):
        sighted = sight(part)
        if sighted is None:
            continue
        facts, view = storage_facts(sighted.storage), view_of(sighted)
        if facts is not None and view is not None:
            yield facts.key, view


def parts_of(node: Call) -> Iterator[Call]:
    """The calls that a tensor is made of, itself among them; its attributes and its hooks are not parts of it."""
    waiting: list[Any] = [node]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen or not isinstance(part, dict | list | tuple | Call):
            continue
        seen.add(id(part))
        if isinstance(part, Call):
            yield part
            waiting.extend(reversed(_ingredients(part.name, part.arguments)))
        else:
            waiting.extend(reversed(list(part.values()) if isinstance(part, dict) else part))


def _ingredients(function: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    if function in VIEW_FUNCTIONS:
        return arguments[4:5] if function.endswith("_qtensor") else ()  # scales and zero points
    if function in TYPED_FUNCTIONS:
        inner = _at(arguments, 2)
        return _ingredients(str(_at(arguments, 0)), inner) if isinstance(inner, tuple) else ()
    return arguments[:1] if function in PARAMETER_FUNCTIONS else arguments
