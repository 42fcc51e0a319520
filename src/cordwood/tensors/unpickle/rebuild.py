"""Rebuilds tensors from the numbers in a file, and checks each number first.

Mirrors the functions of ``torch._utils`` that files name. Torch's own trust the file in places: one reserves memory
for a quantized tensor's sizes before it looks at the storage, others leave a sparse tensor's indices unchecked.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final

import torch
from torch.nested._internal.nested_tensor import _rebuild_njt
from torch.storage import TypedStorage, UntypedStorage

from cordwood.common.text import RefusedPickle as RefusedPickle
from cordwood.common.text import brief
from cordwood.tensors.unpickle.work_budget import Effort

MOST_DIMENSIONS = 64
_MOST = 1 << 56  # of any number that counts items: a few of them multiplied would not fit torch's own integers
_MOST_SPARSE = 1 << 62  # of items that are not there


def _check_view(storage: Any, offset: Any, size: Any, stride: Any, itemsize: int, per_byte: int = 1) -> UntypedStorage:
    """The storage below, after every number was compared with it."""
    if not isinstance(storage, TypedStorage):
        raise RefusedPickle(f"a tensor over a {type(storage).__name__}, not over a storage")
    untyped = storage._untyped_storage
    if not isinstance(size, tuple) or not isinstance(stride, tuple) or len(size) != len(stride):
        raise RefusedPickle(f"size {brief(size)} and stride {brief(stride)} do not fit together")
    if type(offset) is not int or not 0 <= offset < _MOST:
        raise RefusedPickle(f"storage offset {brief(offset)}")
    last = offset
    for count, step in zip(_ints(size), _ints(stride), strict=True):
        last += (count - 1) * step
    if _items(size) and (last + 1) * itemsize > untyped.nbytes() * per_byte:
        raise RefusedPickle(
            f"a tensor of size {brief(size)}, stride {brief(stride)} and offset {offset} needs {(last + 1) * itemsize} "
            f"bytes, but its storage has {untyped.nbytes()}"
        )
    return untyped


def _ints(numbers: Any) -> tuple[int, ...]:
    """Sizes or strides: not negative, and small enough to be computed with."""
    if not isinstance(numbers, tuple | list) or len(numbers) > MOST_DIMENSIONS:
        raise RefusedPickle(f"{brief(numbers)} for the numbers of a tensor's dimensions")
    for number in numbers:
        if type(number) is not int or not 0 <= number < _MOST:
            raise RefusedPickle(f"{brief(number)} among the sizes or strides of a tensor")
    return tuple(numbers)


def _items(size: tuple[int, ...], most: int = _MOST) -> int:
    """How many items a tensor has; also what it would have if nothing were empty must fit an integer of torch's."""
    product = 1
    for count in size:
        product *= max(count, 1)
        if product >= most:
            raise RefusedPickle(f"a tensor of size {brief(size)}")
    return product if all(size) else 0


def _check_hooks(hooks: Any) -> None:
    if hooks:
        raise RefusedPickle("hooks, which are code and which torch does not save")


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    if dtype in _QUANTIZED:
        raise RefusedPickle(f"a plain tensor of {dtype}, which says nothing of scale and zero point")
    untyped = _check_view(storage, offset, size, stride, dtype.itemsize)
    return torch.empty(0, dtype=dtype, device=untyped.device).set_(untyped, offset, size, stride)


def _finish(tensor: torch.Tensor, requires_grad: Any, hooks: Any, metadata: Any) -> torch.Tensor:
    _check_hooks(hooks)
    if requires_grad is True:
        tensor.requires_grad = True
    if metadata:
        if type(metadata) is not dict or not metadata.keys() <= {"conj", "neg"}:
            raise RefusedPickle(f"tensor metadata {brief(metadata)}")
        if metadata.get("conj") and not tensor.is_complex():
            raise RefusedPickle(f"the conjugate of {tensor.dtype}, which is not complex")
        torch._utils.set_tensor_metadata(tensor, metadata)
    return torch._utils._restore_device_fake_mode(tensor)  # type: ignore[no-any-return]


def _need_dtype(dtype: Any) -> torch.dtype:
    if not isinstance(dtype, torch.dtype):
        raise RefusedPickle(f"{brief(dtype)} for a dtype")
    return dtype


def rebuild_tensor(storage: Any, offset: Any, size: Any, stride: Any) -> torch.Tensor:
    """The form of the oldest files."""
    return _tensor(storage, offset, size, stride, _dtype_of(storage))


def rebuild_tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> torch.Tensor:
    """The usual form: a typed storage."""
    return _finish(_tensor(storage, offset, size, stride, _dtype_of(storage)), requires_grad, hooks, metadata)


def rebuild_tensor_v3(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> torch.Tensor:
    """Over an untyped storage, with a dtype."""
    return _finish(_tensor(storage, offset, size, stride, _need_dtype(dtype)), requires_grad, hooks, metadata)


def _dtype_of(storage: Any) -> torch.dtype:
    if not isinstance(storage, TypedStorage):
        raise RefusedPickle(f"a tensor over a {type(storage).__name__}, not over a storage")
    return storage.dtype


def rebuild_qtensor(
    effort: Effort, storage: Any, offset: Any, size: Any, stride: Any, params: Any, requires_grad: Any, hooks: Any
) -> torch.Tensor:
    """A quantized tensor; made empty first, so that its sizes alone reserve nothing."""
    dtype = _dtype_of(storage)
    per_byte = _PER_BYTE.get(dtype, 1)
    untyped = _check_view(storage, offset, size, stride, dtype.itemsize, per_byte)
    if per_byte > 1:
        # Torch gives such a storage a byte for each item when a tensor is laid over it.
        effort.copy(untyped.nbytes() * per_byte, "a quantized tensor")
    scheme = params[0] if isinstance(params, tuple) and params else None
    if scheme is torch.per_tensor_affine:
        _, scale, zero_point = params
        if type(scale) is not float or type(zero_point) is not int:
            raise RefusedPickle("scale and zero point of a quantized tensor are not a float and an integer")
        tensor = torch._empty_affine_quantized(
            [0], scale=scale, zero_point=zero_point, dtype=dtype, device=untyped.device
        )
    elif scheme is torch.per_channel_affine or scheme is torch.per_channel_affine_float_qparams:
        _, scales, zero_points, axis = params
        if type(axis) is not int or not 0 <= axis < len(size):
            raise RefusedPickle(f"axis {brief(axis)} of a quantized tensor with {len(size)} dimensions")
        effort.copy(32 * size[axis], f"{size[axis]} channels of a quantized tensor")
        scales, zero_points = _channel_values(scales, size[axis]), _channel_values(zero_points, size[axis])
        # No dimension but the channels' may be more than empty here; set_ gives it its real sizes.
        hollow = [0] * len(size)
        hollow[axis] = size[axis]
        tensor = torch._empty_per_channel_affine_quantized(
            hollow, scales=scales, zero_points=zero_points, axis=axis, dtype=dtype, device=untyped.device
        )
    else:
        raise RefusedPickle(f"quantization scheme {brief(scheme)}")
    tensor.set_(untyped, offset, size, stride)
    return _finish(tensor, requires_grad, hooks, None)


_QUANTIZED = frozenset((torch.qint8, torch.quint8, torch.qint32, torch.quint4x2, torch.quint2x4))
_PER_BYTE = {torch.quint4x2: 2, torch.quint2x4: 4}


def _channel_values(values: Any, count: int) -> torch.Tensor:
    if type(values) in (list, tuple) and len(values) == count and all(type(value) in (int, float) for value in values):
        values = torch.tensor(values, dtype=torch.double)  # very old files
    _check_parts(values)
    if values.shape != (count,):
        raise RefusedPickle(f"{count} channels, and scales or zero points of shape {brief(tuple(values.shape))}")
    return values  # type: ignore[no-any-return]


def rebuild_sparse_tensor(effort: Effort, layout: Any, data: Any) -> torch.Tensor:
    """Any of the sparse layouts, its indices checked."""
    if not isinstance(data, tuple):
        raise RefusedPickle("a sparse tensor without parts")
    if layout is torch.sparse_coo:
        indices, values, size, *coalesced = data
        has_values = _look_at(effort, indices, values)
        _items(_ints(size), _MOST_SPARSE)
        return torch.sparse_coo_tensor(
            indices,
            values,
            _ints(size),
            check_invariants=has_values,
            is_coalesced=coalesced[0] if coalesced else None,
        )
    if any(layout is known for known in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc)):
        compressed, plain, values, size = data
        has_values = _look_at(effort, compressed, plain, values)
        _items(_ints(size), _MOST_SPARSE)
        return torch.sparse_compressed_tensor(
            compressed, plain, values, _ints(size), layout=layout, check_invariants=has_values
        )
    raise RefusedPickle(f"the layout {brief(layout)}")


def _check_parts(*parts: Any) -> None:
    """What other tensors are made of must be plain itself: torch's functions do not expect anything else."""
    for part in parts:
        if not isinstance(part, torch.Tensor):
            raise RefusedPickle(f"a tensor made of a {type(part).__name__}, not of tensors")
        if part.layout is not torch.strided or part.is_nested or part.is_quantized:
            raise RefusedPickle("a tensor made of sparse, nested or quantized ones")


def _have_values(*parts: torch.Tensor) -> bool:
    """Whether there is anything to check: what was mapped to the meta device, or is fake, holds no numbers."""
    return all(part.untyped_storage().device.type != "meta" for part in parts)


def _look_at(effort: Effort, *parts: Any) -> bool:
    """Before every item of some tensors is checked: whether they have any, and not far more of them than bytes."""
    _check_parts(*parts)
    if len({part.device for part in parts}) != 1:
        raise RefusedPickle("a sparse tensor whose parts are on different devices")
    if not _have_values(*parts):
        return False
    for part in parts:
        effort.look(part.numel() * part.element_size(), "the parts of a sparse tensor")
    return True


def rebuild_nested_tensor(effort: Effort, buffer: Any, sizes: Any, strides: Any, offsets: Any) -> torch.Tensor:
    """A nested tensor of the strided kind: every piece must lie inside the buffer."""
    _check_parts(buffer, sizes, strides, offsets)
    if any(part.dtype != torch.int64 or part.device.type != "cpu" for part in (sizes, strides, offsets)):
        raise RefusedPickle("sizes, strides or offsets of a nested tensor that are not integers")
    if sizes.dim() > 2 or sizes.shape != strides.shape or offsets.shape != sizes.shape[:1]:
        raise RefusedPickle("sizes, strides and offsets of a nested tensor that do not fit together")
    if buffer.dim() != 1 or not buffer.is_contiguous():
        raise RefusedPickle("a nested tensor whose buffer is not one row of items")
    effort.copy(_A_NUMBER * (sizes.numel() + strides.numel() + offsets.numel()), "the sizes of a nested tensor")
    rows = sizes.tolist() if sizes.dim() == 2 else [[] for _ in offsets]
    steps = strides.tolist() if sizes.dim() == 2 else rows
    for row, step, offset in zip(rows, steps, offsets.tolist(), strict=True):
        items = _items(_ints(row))
        last = offset + sum((n - 1) * s for n, s in zip(row, _ints(step), strict=True))
        if offset < 0 or (items and last >= buffer.numel()):
            raise RefusedPickle("a piece of a nested tensor lies outside its buffer")
    return torch._nested_view_from_buffer(buffer, sizes, strides, offsets)


_A_NUMBER = 64  # bytes that an integer takes in a list, and some more for a list of few


def rebuild_meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> torch.Tensor:
    """A tensor without memory."""
    size, stride = _ints(size), _ints(stride)
    last = 1
    for count, step in zip(size, stride, strict=True):
        last += (count - 1) * step
    if _items(size) and last >= _MOST:
        raise RefusedPickle(f"a tensor of size {brief(size)} and stride {brief(stride)}")
    return torch.empty_strided(
        size, stride, dtype=_need_dtype(dtype), device="meta", requires_grad=requires_grad is True
    )


def rebuild_parameter(data: Any, requires_grad: Any, hooks: Any) -> torch.nn.Parameter:
    """A parameter over a tensor."""
    if not isinstance(data, torch.Tensor):
        raise RefusedPickle(f"a parameter over a {type(data).__name__}")
    _check_hooks(hooks)
    return torch.nn.Parameter(data, requires_grad is True)


def rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> torch.Tensor:
    """A parameter with attributes of the user's."""
    return _with_state(rebuild_parameter(data, requires_grad, hooks), state)


def rebuild_wrapper_subclass(
    kind: Any, dtype: Any, size: Any, stride: Any, offset: Any, layout: Any, device: Any, requires_grad: Any
) -> torch.Tensor:
    """A tensor without memory of its own, of a class that the user allowed; its parts are in its state."""
    if not isinstance(kind, type) or not issubclass(kind, torch.Tensor) or type(offset) is not int:
        raise RefusedPickle(f"{brief(kind)} for a tensor type, at {brief(offset)}")
    _items(_ints(size))
    tensor: torch.Tensor = torch._utils._rebuild_wrapper_subclass(
        kind, _need_dtype(dtype), _ints(size), _ints(stride), offset, layout, device, requires_grad is True
    )
    return tensor


def rebuild_jagged(effort: Effort, parts: Any) -> torch.Tensor:
    """A nested tensor of the jagged kind: rows of one tensor, every one of which must lie inside it."""
    if type(parts) is not dict or not {"values", "offsets"} <= parts.keys() <= _JAGGED:
        raise RefusedPickle("a jagged tensor of other parts than torch writes")
    values, offsets, lengths = parts["values"], parts["offsets"], parts.get("lengths")
    rows = [part for part in (offsets, lengths) if part is not None]
    _check_parts(values, *rows)
    if any(part.dim() != 1 or part.dtype not in (torch.int64, torch.int32) for part in rows):
        raise RefusedPickle("offsets or lengths of a jagged tensor that are not a row of integers")
    ragged = parts.get("_ragged_idx", 1)
    if type(ragged) is not int or not 1 <= ragged <= values.dim():
        raise RefusedPickle(f"a jagged tensor with its rows along dimension {brief(ragged)}")
    if _have_values(*rows):
        effort.copy(_A_NUMBER * 4 * sum(part.numel() for part in rows), "the rows of a jagged tensor")
        starts = offsets.tolist()
        ends = starts[1:] if lengths is None else [a + n for a, n in zip(starts, lengths.tolist(), strict=False)]
        for start, end in zip(starts, ends, strict=False):
            if not 0 <= start <= end <= values.shape[ragged - 1]:
                raise RefusedPickle(f"a row of a jagged tensor from {start} to {end}, of {values.shape[ragged - 1]}")
    tensor: torch.Tensor = _rebuild_njt(parts)
    return tensor


_JAGGED: Final = frozenset({"values", "offsets", "lengths", "_ragged_idx", "_metadata_cache", "requires_grad"})


def rebuild_from_type(effort: Effort, function: Any, kind: Any, arguments: Any, state: Any) -> torch.Tensor:
    """A tensor with attributes of the user's, or of a subclass that the user allowed."""
    handler: Any = getattr(function, "handler", None)
    if handler not in REBUILD.values() or handler is rebuild_from_type or not isinstance(arguments, tuple):
        raise RefusedPickle("a tensor type over something that is no tensor")
    if not isinstance(kind, type) or not issubclass(kind, torch.Tensor):
        raise RefusedPickle(f"{brief(kind)} for a tensor type")
    tensor: torch.Tensor = handler(effort, *arguments) if handler in MEASURED else handler(*arguments)
    if type(tensor) is not kind:
        tensor = tensor.as_subclass(kind)
    if handler is rebuild_jagged and type(state) is dict:
        # It has its parts, which were checked, and says them again in its state.
        state = {name: value for name, value in state.items() if name not in vars(tensor)}
    if kind.__setstate__ is not torch.Tensor.__setstate__:
        tensor.__setstate__(state)  # a class that the user allowed
        return tensor
    return _with_state(tensor, state)


def _with_state(tensor: torch.Tensor, state: Any) -> torch.Tensor:
    for part in state if isinstance(state, tuple) else (state,):
        if part is not None and type(part) is not dict:
            raise RefusedPickle(f"a {type(part).__name__} for the state of a tensor")
        for name in part or ():
            # Setting what torch.Tensor computes (data, grad, __class__ ...) would be more than keeping a value.
            if type(name) is not str or name.startswith("__") or _is_computed(name):
                raise RefusedPickle(f"the attribute {brief(name)} of a tensor")
    return torch._utils._set_obj_state(tensor, state)  # type: ignore[no-any-return]


def _is_computed(name: str) -> bool:
    return inspect.isdatadescriptor(getattr(torch.Tensor, name, None)) and name != "names"


def rebuild_on_device(effort: Effort, data: Any, dtype: Any, device: Any, requires_grad: Any) -> torch.Tensor:
    """A tensor of a device without storages, kept as a CPU tensor."""
    _check_parts(data)
    if type(device) is not str and not isinstance(device, torch.device):
        raise RefusedPickle(f"{brief(device)} for a device")
    effort.copy(data.numel() * max(data.element_size(), _need_dtype(dtype).itemsize), "a tensor")
    tensor: torch.Tensor = torch._utils._rebuild_device_tensor_from_cpu_tensor(
        data, dtype, device, requires_grad is True
    )
    return tensor


REBUILD: Final[dict[str, Callable[..., Any]]] = {
    "torch._utils._rebuild_tensor": rebuild_tensor,
    "torch._utils._rebuild_tensor_v2": rebuild_tensor_v2,
    "torch._utils._rebuild_tensor_v3": rebuild_tensor_v3,
    "torch._utils._rebuild_qtensor": rebuild_qtensor,
    "torch._utils._rebuild_sparse_tensor": rebuild_sparse_tensor,
    "torch._utils._rebuild_nested_tensor": rebuild_nested_tensor,
    "torch._utils._rebuild_meta_tensor_no_storage": rebuild_meta_tensor,
    "torch._utils._rebuild_parameter": rebuild_parameter,
    "torch._utils._rebuild_parameter_with_state": rebuild_parameter_with_state,
    "torch._utils._rebuild_device_tensor_from_cpu_tensor": rebuild_on_device,
    "torch._utils._rebuild_wrapper_subclass": rebuild_wrapper_subclass,
    "torch.nested._internal.nested_tensor._rebuild_njt": rebuild_jagged,
    "torch._tensor._rebuild_from_type_v2": rebuild_from_type,
}
MEASURED: Final = frozenset(
    (
        *(rebuild_qtensor, rebuild_sparse_tensor, rebuild_nested_tensor, rebuild_jagged),
        *(rebuild_from_type, rebuild_on_device),
    )
)
