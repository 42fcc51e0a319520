"""The dtypes that a frame can hold, and the NumPy dtype for each.

    >>> dtype_of(np.zeros(3, np.float32)).name
    'float32'
    >>> dtype_of(np.zeros(3, np.uint16), "bfloat16").code
    10

A dtype that NumPy lacks (bfloat16, the float8 kinds) travels as unsigned integers of the same width plus its name;
arrays of the ``ml_dtypes`` package carry that name already.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.common.arguments import one_of
from cordwood.errors import UsageError

Array = npt.NDArray[np.generic]
BytesLike = bytes | bytearray | memoryview | npt.NDArray[Any]


@dataclass(frozen=True)
class DType:
    """One row of the dtype table in docs/format/frame.md."""

    code: int
    name: str
    carrier: str  # the NumPy dtype that such an array has
    kind: str  # "bool", "integer", "float", "complex", "other": what the value stages may do

    @property
    def itemsize(self) -> int:
        """Bytes of an array item."""
        return np.dtype(self.carrier).itemsize

    @property
    def numpy(self) -> "np.dtype[np.generic]":
        """The dtype of decoded arrays."""
        return np.dtype(self.carrier)


_ROWS = [
    ("bool", "bool", "bool"),
    ("uint8", "uint8", "integer"),
    ("int8", "int8", "integer"),
    ("uint16", "uint16", "integer"),
    ("int16", "int16", "integer"),
    ("uint32", "uint32", "integer"),
    ("int32", "int32", "integer"),
    ("uint64", "uint64", "integer"),
    ("int64", "int64", "integer"),
    ("float16", "float16", "float"),
    ("bfloat16", "uint16", "float"),
    ("float32", "float32", "float"),
    ("float64", "float64", "float"),
    ("complex64", "complex64", "complex"),
    ("complex128", "complex128", "complex"),
    ("float8_e4m3fn", "uint8", "other"),
    ("float8_e5m2", "uint8", "other"),
    ("float8_e4m3fnuz", "uint8", "other"),
    ("float8_e5m2fnuz", "uint8", "other"),
    ("float8_e8m0fnu", "uint8", "other"),
    ("complex32", "uint32", "complex"),
    ("float4_e2m1fn_x2", "uint8", "other"),
]
DTYPES = {name: DType(code, name, carrier, kind) for code, (name, carrier, kind) in enumerate(_ROWS)}
BY_CODE = list(DTYPES.values())


def dtype_of(array: Array, name: str | None = None) -> DType:
    """The dtype of `array`, or the one `name` says its bits mean."""
    if name is None:
        found = DTYPES.get(array.dtype.name)
        if found is None:
            raise UsageError(
                f"an array of dtype {array.dtype} cannot be encoded: plain numbers can ({', '.join(DTYPES)}). "
                "Objects and strings have no fixed bytes; convert them first."
            )
        return found
    found = DTYPES.get(name) or DTYPES[one_of("dtype", name, DTYPES)]
    if array.dtype.name not in (name, found.carrier):
        raise UsageError(f"dtype={name!r} needs an array of {found.carrier} (its bits), not of {array.dtype}")
    return found


def plain(array: Array, dtype: DType) -> Array:
    """`array` as contiguous little-endian items of the carrier dtype; a copy only where one is needed."""
    if array.dtype.byteorder == ">" or (array.dtype.byteorder == "=" and not np.little_endian):
        array = array.astype(array.dtype.newbyteorder("<"))
    contiguous = np.require(array, requirements="C")  # unlike ascontiguousarray it keeps 0-d arrays 0-d
    return contiguous if contiguous.dtype == dtype.numpy else contiguous.view(dtype.numpy)
