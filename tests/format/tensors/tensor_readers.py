"""The readers of tensor files behind one face: the plain one of the docs, its values made into torch's, and `load`."""

import io
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

import torch

from cordwood.errors import FormatError
from cordwood.tensors import load
from tests.format.support.readers import ROOT, load_reader

PAGE = ROOT / "docs" / "format" / "tensors.md"


plain = load_reader("tensor_reader")

# What the plain reader describes, and the tests need as torch makes it.
_MADE: dict[str, Any] = {
    "torch._utils._rebuild_sparse_tensor": torch._utils._rebuild_sparse_tensor,
    "torch._utils._rebuild_nested_tensor": torch._utils._rebuild_nested_tensor,
    "torch._utils._rebuild_meta_tensor_no_storage": torch._utils._rebuild_meta_tensor_no_storage,
    "torch.serialization._get_layout": torch.serialization._get_layout,
    "torch.device": torch.device,
}


def as_torch(value: Any) -> Any:
    """A value of the plain reader with torch's tensors in place of arrays, over the same memory."""
    return _Conversion().convert(value)


class _Conversion:
    """Keeps account of what was converted, so that one object stays one object."""

    def __init__(self) -> None:
        self.done: dict[int, Any] = {}

    def convert(self, value: Any) -> Any:
        if id(value) not in self.done:
            self.done[id(value)] = self.new(value)
        return self.done[id(value)]

    def new(self, value: Any) -> Any:
        if isinstance(value, plain.Tensor):
            return self.tensor(value)
        if isinstance(value, plain.Storage):
            return torch.from_numpy(value.data).view(getattr(torch, value.dtype))._typed_storage()
        if isinstance(value, plain.Global):
            return getattr(torch, value.name)
        if isinstance(value, plain.Object):
            return _MADE[str(value.function)](*map(self.convert, value.arguments))
        if type(value) is list:
            made_list: list[Any] = []
            self.done[id(value)] = made_list
            made_list.extend(map(self.convert, value))
            return made_list
        if type(value) is tuple:
            return tuple(map(self.convert, value))
        if type(value) in (dict, OrderedDict, Counter):
            made = type(value)()
            self.done[id(value)] = made
            made.update({key: self.convert(item) for key, item in value.items()})
            if type(value) is not dict:
                vars(made).update(vars(value))
            return made
        return value

    def tensor(self, value: Any) -> torch.Tensor:
        dtype = getattr(torch, value.dtype)
        if value.quantizer:
            return _quantized(self.convert(value.quantizer), torch.from_numpy(value.array))
        bits = value.array if value.array.itemsize > 8 else value.array.view(f"u{value.array.itemsize}")
        made = torch.from_numpy(bits).view(dtype)
        if value.metadata:
            torch._utils.set_tensor_metadata(made, value.metadata)
        if value.kind == "torch.nn.parameter.Parameter":
            made = torch.nn.Parameter(made, value.requires_grad)
        made.requires_grad = value.requires_grad
        vars(made).update(self.convert(value.state or {}))
        return made


def _quantized(quantizer: tuple[Any, ...], integers: torch.Tensor) -> torch.Tensor:
    scheme, *parameters = quantizer
    if scheme == torch.per_tensor_affine:
        made: torch.Tensor = torch._make_per_tensor_quantized_tensor(integers, *parameters)
    else:
        made = torch._make_per_channel_quantized_tensor(integers, *parameters)
    return made


def read_plain(data: bytes, *, trusted: bool = False) -> Any:
    """The object, by the reader of the docs, which runs nothing, trusted or not."""
    return as_torch(plain.read(data))


def read_cordwood(data: bytes, *, trusted: bool = False) -> Any:
    """The object, by the package; not mapped, so that every checksum is looked at."""
    return load(io.BytesIO(data), mmap=False, map_location="cpu", weights_only=not trusted)


READERS: dict[str, Callable[..., Any]] = {"plain": read_plain, "cordwood": read_cordwood}
REFUSALS: dict[str, Any] = {"plain": plain.BadFile, "cordwood": FormatError}
