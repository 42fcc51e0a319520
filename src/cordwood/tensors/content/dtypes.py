"""Converts between torch's dtypes and the names that the codecs use."""

from functools import cache
from typing import Final

import torch

from cordwood.codecs import DTYPES

_STAND_INS: Final = {"qint8": "int8", "quint8": "uint8", "qint32": "int32"}
_BY_WIDTH: Final = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64", 16: "complex128"}

# Several items share a byte: sizes and strides of such tensors do not tell which bytes they reach.
SUB_BYTE: Final = frozenset(
    getattr(torch, name) for name in ("quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2") if hasattr(torch, name)
)


@cache
def codec_name(dtype: torch.dtype) -> str:
    """The codecs' name for arrays of a torch dtype; unsigned integers of its width where they know none."""
    name = str(dtype).removeprefix("torch.")
    name = _STAND_INS.get(name, name)
    return name if name in DTYPES else _BY_WIDTH[dtype.itemsize]


def torch_dtype(name: str) -> torch.dtype | None:
    """The torch dtype of that name, if this torch has it."""
    found = getattr(torch, name, None)
    return found if isinstance(found, torch.dtype) else None


def storage_dtypes() -> dict[str, torch.dtype]:
    """The names of torch's typed storages (``FloatStorage``), and the dtype of each."""
    names = {
        "DoubleStorage": torch.float64,
        "FloatStorage": torch.float32,
        "HalfStorage": torch.float16,
        "BFloat16Storage": torch.bfloat16,
        "LongStorage": torch.int64,
        "IntStorage": torch.int32,
        "ShortStorage": torch.int16,
        "CharStorage": torch.int8,
        "ByteStorage": torch.uint8,
        "BoolStorage": torch.bool,
        "ComplexDoubleStorage": torch.complex128,
        "ComplexFloatStorage": torch.complex64,
        "QInt8Storage": torch.qint8,
        "QInt32Storage": torch.qint32,
        "QUInt8Storage": torch.quint8,
        "QUInt4x2Storage": torch.quint4x2,
        "QUInt2x4Storage": torch.quint2x4,
        "UntypedStorage": torch.uint8,
    }
    return dict(names)
