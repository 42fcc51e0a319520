"""Allocates storages, and gives access to their bytes for NumPy and for reading files."""

import ctypes
import ctypes.util
import mmap
from typing import Any

import numpy as np
import torch
from torch.storage import UntypedStorage

from cordwood.tensors.content.file_content import Bytes

_HUGE = 2 << 20  # a huge page
_WORTH_HUGE = 8 << 20
_ADVICE = getattr(mmap, "MADV_HUGEPAGE", None)


def _find_madvise() -> Any:
    if _ADVICE is None:
        return None
    try:
        function = ctypes.CDLL(None, use_errno=True).madvise
    except (OSError, AttributeError):
        return None
    function.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return function


_madvise = _find_madvise()


def new_storage(nbytes: int) -> UntypedStorage:
    """Memory of torch's; in huge pages where it is large, since page faults cost more than copying."""
    try:
        storage = torch.UntypedStorage(nbytes)
    except RuntimeError as error:
        raise MemoryError(f"no memory for a storage of {nbytes} bytes") from error
    if nbytes >= _WORTH_HUGE and _madvise is not None:
        start = -(-storage.data_ptr() // _HUGE) * _HUGE
        length = (storage.data_ptr() + nbytes - start) // _HUGE * _HUGE
        if length > 0:
            _madvise(start, length, _ADVICE)  # advice only: that it was not taken is no error
    return storage


def bytes_of(storage: UntypedStorage, offset: int = 0, length: int | None = None) -> Bytes:
    """The bytes of a CPU storage, in place; the array keeps the storage alive."""
    count = storage.nbytes() - offset if length is None else length
    return bytes_at(storage.data_ptr() + offset, count, storage)


def bytes_at(address: int, count: int, owner: object) -> Bytes:
    """Memory by its address; the array keeps the owner alive."""
    if not count:
        return np.empty(0, np.uint8)
    window = (ctypes.c_ubyte * count).from_address(address)
    window._owner = owner  # type: ignore[attr-defined]
    return np.frombuffer(window, np.uint8)
