"""Memory for tensors, used again when the last tensor that shows it is gone.

    tensor = torch.from_numpy(new_array((64, 3, 224, 224), np.dtype("float32")))
    ...
    del tensor  # its memory serves the next batch of this size

Memory that was never touched is the dearest there is: the system clears it page by page, which takes longer than
decoding into it. So a block comes back when nothing can see it any more: torch's storage holds the array that the
block was lent with, and the end of that array is what returns it. A tensor, a view of it, a NumPy array made of it:
whatever is alive keeps the storage alive.
"""

import math
import mmap
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.utils.data

from cordwood.common.resources import physical_memory
from cordwood.errors import FormatError, Reason

Bytes = npt.NDArray[np.uint8]
# Memory of a shape: as NumPy has the dtype and as torch has it. Gives the tensor, and an array that shows its memory.
Allocate = Callable[[tuple[int, ...], "np.dtype[Any]", torch.dtype], tuple[torch.Tensor, npt.NDArray[Any]]]

_WORTH_KEEPING = 64 << 10  # what is smaller, malloc itself keeps for reuse
_HUGE = 4 << 20
_MOST_OF_A_SIZE = 512
_MOST, _MOST_IN_A_WORKER = 1 << 30, 64 << 20

_idle: dict[int, deque[Bytes]] = {}


class _Lent(np.ndarray):
    """An array whose end gives its block back. A weak reference with a callback would do the same, at many times the
    cost; views of the array are of this class, too, and have no block."""

    block: Bytes | None = None

    def __del__(self, ending: Callable[[], bool] = sys.is_finalizing) -> None:
        # The interpreter's end takes the memory anyway, and what is called here may be gone by then.
        if self.block is not None and not ending():
            _take_back(self.block)


def new_array(shape: tuple[int, ...], dtype: "np.dtype[np.generic]") -> npt.NDArray[Any]:
    """An array that owns exactly its bytes; what is in them is of no meaning.

    Only the very array that is returned keeps the memory: hand it to ``torch.from_numpy`` itself, no view of it.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes < _WORTH_KEEPING:
        return np.empty(shape, dtype)
    block = _block(nbytes)
    lent = _Lent(shape, dtype, block)
    lent.block = block
    return lent


def new_tensor(
    shape: tuple[int, ...], carrier: "np.dtype[Any]", dtype: torch.dtype
) -> tuple[torch.Tensor, npt.NDArray[Any]]:
    """A tensor that owns exactly its bytes, and its array; dtypes that NumPy lacks are unsigned integers there."""
    array = new_array(shape, carrier)
    made = torch.from_numpy(array)
    return made if made.dtype == dtype else made.view(dtype), array


def check_memory(shape: tuple[int, ...], itemsize: int, where: str, *named: object) -> None:
    """Refuse what cannot be meant before anything is asked of the system; `where` is a text for these names."""
    nbytes = math.prod(shape) * itemsize
    # NumPy minds a huge dimension even where another one is 0.
    if nbytes > physical_memory() or (not nbytes and math.prod(max(n, 1) for n in shape) * itemsize >> 63):
        raise FormatError(
            f"{where % named}: an array of shape {shape} takes {nbytes} bytes of {physical_memory()} in all: "
            "the store is damaged, or made for a larger machine; ask for fewer samples at once",
            Reason.LIMIT,
        )


def _block(nbytes: int) -> Bytes:
    try:
        return _idle[nbytes].pop()
    except (KeyError, IndexError):
        return _fresh(nbytes)


def _fresh(nbytes: int) -> Bytes:
    if nbytes < _HUGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return np.empty(nbytes, np.uint8)
    # Private: what is shared by default would be one memory for a process and those that it forks.
    memory = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)


def _take_back(block: Bytes) -> None:
    """Runs wherever the last reference ends, maybe in the middle of `_block`: no locks, only steps that are atomic."""
    most = _most_idle()
    if idle_bytes() + block.nbytes > most:
        _idle.clear()  # sizes that are no longer asked for must not keep out those that are
        if block.nbytes > most:
            return
    kept = _idle.get(block.nbytes)
    if kept is None:
        kept = _idle.setdefault(block.nbytes, deque())
    if len(kept) < _MOST_OF_A_SIZE:
        kept.append(block)


def _most_idle() -> int:
    # Workers of a DataLoader are many, and hand their tensors on through memory of another kind.
    worker = torch.utils.data.get_worker_info() is not None
    return min(_MOST_IN_A_WORKER if worker else _MOST, physical_memory() // 16)


def idle_bytes() -> int:
    """The memory that waits to be used again."""
    total = 0
    for size, blocks in list(_idle.items()):
        total += size * len(blocks)
    return total


def release() -> None:
    """Give all idle memory back to the system."""
    _idle.clear()
