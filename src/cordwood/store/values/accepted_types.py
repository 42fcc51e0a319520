"""The types that a sample may hold, their names in messages, and the errors for values that cannot be stored."""

from typing import Any, Final

import numpy as np
import torch

from cordwood.codecs import DTYPES
from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.store.schema.node import NOT_OF_NUMPY, is_named_tuple

INT64: Final = range(-(1 << 63), 1 << 63)
TENSORS: Final = (torch.Tensor, torch.nn.Parameter)  # a parameter comes back as a plain tensor
NDARRAYS: Final = (np.ndarray, np.memmap)
# Torch's names for dtypes, where frames can hold them.
CODEC_NAMES: Final = {dtype: name for name in DTYPES if isinstance(dtype := getattr(torch, name, None), torch.dtype)}
_CLASSES: Final[dict[type, str]] = {dict: "a dict", list: "a list", tuple: "a tuple"}
_LARGEST_DIMENSION, _LARGEST_ARRAY = 1 << 48, 1 << 56


def where(name: str) -> str:
    """How a message begins that is about this part of a sample."""
    return f"field {brief(name)}" if name else "the sample"


def tensor_dtype(tensor: torch.Tensor, name: str) -> str:
    """The codecs' name for its dtype; UsageError for a tensor that no frame can hold."""
    problem = ""
    if type(tensor) not in TENSORS:
        problem = f"a {type(tensor).__name__}, a subclass of Tensor; store a plain tensor, x.as_subclass(torch.Tensor)"
    elif tensor.is_quantized:
        problem = "a quantised tensor; store x.int_repr(), and scale and zero point as fields of their own"
    elif tensor.is_nested:
        problem = "a nested tensor; store the list of its tensors, x.unbind()"
    elif tensor.layout != torch.strided:
        problem = f"a tensor of layout {tensor.layout}; store its indices and values as fields, or x.to_dense()"
    elif tensor.device.type == "meta":
        problem = "a tensor on the meta device, which has no values"
    elif tensor.dtype not in CODEC_NAMES:
        problem = f"a tensor of {tensor.dtype}; convert it to one of {', '.join(DTYPES)}"
    if problem:
        raise UsageError(f"{where(name)} cannot be stored: it is {problem}")
    _check_size(tensor.shape, tensor.element_size(), name)
    return CODEC_NAMES[tensor.dtype]


def array_dtype(array: np.ndarray[Any, Any] | np.generic, name: str) -> str:
    """The codecs' name for the dtype of an array or a NumPy scalar; UsageError if no frame can hold it."""
    problem, dtype, is_array = "", array.dtype.name, isinstance(array, np.ndarray)
    if isinstance(array, np.ma.MaskedArray):
        problem = "a masked array; store .data and .mask as two fields"
    elif is_array and type(array) not in NDARRAYS:
        problem = f"a {type(array).__name__}, a subclass of ndarray; store np.asarray(x)"
    elif dtype in NOT_OF_NUMPY:
        problem = f"{_NUMPYS[is_array]} of {dtype}, which NumPy itself lacks; store a torch tensor of that dtype"
    elif dtype not in DTYPES:
        advice = _NOT_NUMBERS.get(array.dtype.kind, f"convert it to one of {', '.join(DTYPES)}")
        problem = f"{_NUMPYS[is_array]} of {array.dtype}; {advice}"
    if problem:
        raise UsageError(f"{where(name)} cannot be stored: it is {problem}")
    _check_size(array.shape, array.dtype.itemsize, name)
    return dtype


_NUMPYS: Final = {True: "an ndarray", False: "a NumPy scalar"}
# What to do with arrays that hold no plain numbers, by the kind of their dtype.
_NOT_NUMBERS: Final = {
    "O": "objects have no fixed bytes: store numbers, texts or a nesting of them",
    "T": "store a list of str",
    "U": "store str, or a list of them",
    "S": "store bytes, or a list of them",
    "M": 'store x.view("int64")',
    "m": 'store x.view("int64")',
    "V": "store each of its fields by itself",
}


def _check_size(shape: tuple[int, ...], itemsize: int, name: str) -> None:
    """A frame's limits; only empty arrays can be beyond them, whose other dimensions mean nothing."""
    if 0 not in shape:
        return
    size = itemsize
    for dimension in shape:
        size *= max(dimension, 1)
        if dimension >= _LARGEST_DIMENSION or size >= _LARGEST_ARRAY:
            raise UsageError(f"{where(name)} cannot be stored: an empty array of shape {tuple(shape)} is out of bounds")


def named_tuple(value: object, name: str) -> tuple[str, tuple[str, ...]] | None:
    """The class name and fields of a named tuple, None for what is none."""
    fields = getattr(type(value), "_fields", None)
    if not isinstance(value, tuple) or type(fields) is not tuple or not all(type(field) is str for field in fields):
        return None
    called = type(value).__name__
    if len(value) != len(fields) or not is_named_tuple(called, fields):
        raise UsageError(
            f"{where(name)} is a named tuple {called}{brief(fields)} that nobody could make again from its name and "
            "fields; use Python identifiers, or a dict"
        )
    return called, fields


def refusal(value: object, name: str) -> UsageError:
    """The error for a value that is nothing a sample may hold."""
    advice = "samples hold tensors, NumPy arrays, numbers, bools, str, bytes, None, and dicts, lists, tuples of these"
    for base, way in _WAYS.items():
        if isinstance(value, base):
            advice = f"store {way}"
            break
    else:
        if hasattr(type(value), "__dataclass_fields__"):
            advice = "store dataclasses.asdict(x)"
    kind = type(value)
    return UsageError(f"{where(name)} cannot be stored: it is a {kind.__module__}.{kind.__qualname__}; {advice}")


# What to store in place of a subclass or a relative of what can be stored.
_WAYS: Final[dict[type | tuple[type, ...], str]] = {
    bool: "bool(x)",
    int: "int(x)",
    float: "float(x)",
    complex: "complex(x)",
    str: "str(x)",
    (bytes, bytearray, memoryview): "bytes(x)",
    dict: "dict(x)",
    list: "list(x)",
    tuple: "tuple(x)",
    (set, frozenset): "a sorted list of its items",
}


def came(value: object) -> str:
    """A value in a message: what it is, in a few words."""
    if value is None:
        return "None"
    if isinstance(value, torch.Tensor):
        return f"a tensor of {str(value.dtype).removeprefix('torch.')}, shape {_shape(value)}"
    if isinstance(value, np.ndarray):
        return f"an ndarray of {value.dtype}, shape {value.shape}"
    if isinstance(value, np.generic):
        return f"a NumPy {value.dtype}"
    if type(value) in _CLASSES:
        return f"{_CLASSES[type(value)]} of {len(value)}"  # type: ignore[arg-type]
    kind = type(value).__name__
    article = "an" if kind[:1].lower() in tuple("aeiou") else "a"
    shown = f" ({brief(value)})" if type(value) in (int, float, bool, complex, str, bytes) else ""
    return f"{article} {kind}{shown}"


def _shape(tensor: torch.Tensor) -> str:
    return "of its own" if tensor.is_nested else str(tuple(tensor.shape))
