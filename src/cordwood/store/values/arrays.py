"""Converts tensors and NumPy arrays to the plain arrays that frames are made of, and back.

A dtype that NumPy lacks travels as unsigned integers of its width. Nothing is copied where memory is laid out as it
must be: what comes out may be the caller's own memory.
"""

from typing import Any, Final

import torch
from numpy.typing import NDArray

from cordwood.codecs import DTYPES
from cordwood.errors import UsageError
from cordwood.store.values.accepted_types import tensor_dtype

Array = NDArray[Any]
# For dtypes that NumPy lacks, the torch dtype of the unsigned integers that stand for them.
CARRIERS: Final = {
    dtype: getattr(torch, DTYPES[name].carrier)
    for name in DTYPES
    if DTYPES[name].carrier != name and isinstance(dtype := getattr(torch, name, None), torch.dtype)
}


def from_tensor(tensor: torch.Tensor, name: str) -> Array:
    """A C-contiguous array of the tensor's values; `name` is the field's, for the message when there are none."""
    carrier = CARRIERS.get(tensor.dtype)
    try:
        array: Array = tensor.numpy() if carrier is None else tensor.view(carrier).numpy()
    except (RuntimeError, TypeError, ValueError):
        tensor_dtype(tensor, name)
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        array = plain.numpy() if carrier is None else plain.view(carrier).numpy()
    return array if array.flags.c_contiguous else array.copy()


def from_ndarray(array: Array) -> Array:
    """A C-contiguous little-endian array of the same values."""
    plain = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return plain if plain.flags.c_contiguous else plain.copy()


def to_tensor(array: Array, dtype: str) -> torch.Tensor:
    """A tensor of these bits, in the array's own memory."""
    return torch.from_numpy(array) if DTYPES[dtype].carrier == dtype else torch.from_numpy(array).view(known(dtype))


def known(dtype: str) -> torch.dtype:
    """Torch's dtype of that name."""
    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype):
        raise UsageError(
            f"a tensor of {dtype} is stored here, which torch {torch.__version__} lacks: use a newer torch"
        )
    return found
