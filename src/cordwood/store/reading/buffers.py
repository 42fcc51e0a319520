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

from cordwood.codecs import DTYPES
from cordwood.common.resources import physical_memory
from cordwood.errors import FormatError, Reason
from cordwood.store.values.arrays import known

Bytes = npt.NDArray[np.uint8]
# Memory of a shape: as NumPy has the dtype and as torch has it. Gives the tensor, and an array that shows its memory.
Allocate = Callable[[tuple[int, ...], "np.dtype[Any]", torch.dtype], tuple[torch.Tensor, npt.NDArray[Any]]]

_WORTH_KEEPING = 64 << 10  # what is smaller, malloc itself keeps for reuse
_HUGE = 4 << 20
_MOST_OF_A_SIZE = 512
_MOST, _MOST_IN_A_WORKER = 1 << 30, 64 << 20
# Bytes of an array that lies in one memory with the others of its batch, because memory for each takes longer than
# decoding it. Who keeps one keeps them all, so larger ones lie apart.
_MOST_TOGETHER = 4096

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


class Ragged:
    """The arrays of a leaf that have `rank` dimensions, in batches of `per`; 0: each has memory of its own.

    Until they are decoded only the frames tell their shapes. Then the native reader calls this for memory in which the
    arrays of all samples fit, one after the other; `arrays` is what the caller gets of each batch.
    """

    def __init__(self, field: str, dtype: str, rank: int, per: int, allocate: Allocate) -> None:
        self.arrays: list[Any] = []  # a tensor, or a list of tensors and None, of each batch
        self._field, self._rank, self._per, self._allocate = field, rank, per, allocate
        self._carrier, self._dtype = DTYPES[dtype].numpy, known(dtype)

    def __call__(self, dims: bytes) -> tuple[npt.NDArray[Any], ...]:
        """Memory for samples of these dimensions, which are -1 where a sample has no array."""
        shapes = np.frombuffer(dims, np.int64).reshape(-1, self._rank)
        memory: list[npt.NDArray[Any]] = []
        per = self._per or len(shapes)
        for start in range(0, len(shapes), per):
            self.arrays.append(self._batch(shapes[start : start + per], memory))
        return tuple(memory)

    def _batch(
        self, shapes: npt.NDArray[np.int64], memory: list[npt.NDArray[Any]]
    ) -> torch.Tensor | list[torch.Tensor | None]:
        there = shapes[:, 0] >= 0
        present = shapes if there.all() else shapes[there]
        if self._per and len(present) and (present[:, 1:] == present[0, 1:]).all():
            lengths, rest = present[:, 0], tuple(present[0, 1:].tolist())
            longest = int(lengths.max())
            if len(present) == len(shapes) and longest == lengths.min():
                return self._new((len(shapes), longest, *rest), memory)
            if longest * math.prod(rest) * self._carrier.itemsize <= _MOST_TOGETHER:
                whole = self._new((int(lengths.sum()), *rest), memory)
                # Not the parts of a tensor that autograd knows: nobody else sees the whole one.
                parts = whole.unsafe_split_with_sizes(lengths.tolist())
                if present is shapes:
                    return list(parts)
                rest_of = iter(parts)
                return [next(rest_of) if one else None for one in there.tolist()]
        return [self._new(tuple(shape), memory) if shape[0] >= 0 else None for shape in shapes.tolist()]

    def _new(self, shape: tuple[int, ...], memory: list[npt.NDArray[Any]]) -> torch.Tensor:
        check_memory(shape, self._carrier.itemsize, "field %r", self._field)
        tensor, array = self._allocate(shape, self._carrier, self._dtype)
        memory.append(array)
        return tensor


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
