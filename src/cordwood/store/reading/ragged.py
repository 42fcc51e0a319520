"""Memory for small arrays of different shapes, made when they are decoded: until then only the frames tell their shapes.

    ragged = Ragged("boxes", "float32", rank=2, per=256, allocate=new_tensor)
    memory = ragged(shapes)     # called by the native reader; the arrays of all samples fit in it, one after the other
    ragged.arrays               # of each batch: what the caller gets
"""

import math

import numpy as np
import numpy.typing as npt
import torch

from cordwood.codecs import DTYPES
from cordwood.store.reading.buffers import Allocate, check_memory
from cordwood.store.values.arrays import known

# Bytes of an array that lies in one memory with the others of its batch, because memory for each takes longer than
# decoding it. Who keeps one keeps them all, so larger ones lie apart.
MOST_TOGETHER = 4096


class Ragged:
    """The arrays of a leaf that have `rank` dimensions, in batches of `per`; 0: each has memory of its own."""

    def __init__(self, field: str, dtype: str, rank: int, per: int, allocate: Allocate) -> None:
        self.arrays: list[torch.Tensor | list[torch.Tensor | None]] = []
        self._field, self._rank, self._per, self._allocate = field, rank, per, allocate
        self._carrier, self._dtype = DTYPES[dtype].numpy, known(dtype)

    def __call__(self, dims: bytes) -> tuple[npt.NDArray[np.generic], ...]:
        """Memory for samples of these dimensions, which are -1 where a sample has no array."""
        shapes = np.frombuffer(dims, np.int64).reshape(-1, self._rank)
        memory: list[npt.NDArray[np.generic]] = []
        per = self._per or len(shapes)
        for start in range(0, len(shapes), per):
            self.arrays.append(self._batch(shapes[start : start + per], memory))
        return tuple(memory)

    def _batch(
        self, shapes: npt.NDArray[np.int64], memory: list[npt.NDArray[np.generic]]
    ) -> torch.Tensor | list[torch.Tensor | None]:
        there = shapes[:, 0] >= 0
        present = shapes if there.all() else shapes[there]
        if self._per and len(present) and (present[:, 1:] == present[0, 1:]).all():
            lengths, rest = present[:, 0], tuple(present[0, 1:].tolist())
            longest = int(lengths.max())
            if len(present) == len(shapes) and longest == lengths.min():
                return self._new((len(shapes), longest, *rest), memory)
            if longest * math.prod(rest) * self._carrier.itemsize <= MOST_TOGETHER:
                whole = self._new((int(lengths.sum()), *rest), memory)
                # Not the parts of a tensor that autograd knows: nobody else sees the whole one.
                parts = iter(whole.unsafe_split_with_sizes(lengths.tolist()))
                return [next(parts) if one else None for one in there.tolist()]
        return [self._new(tuple(shape), memory) if shape[0] >= 0 else None for shape in shapes.tolist()]

    def _new(self, shape: tuple[int, ...], memory: list[npt.NDArray[np.generic]]) -> torch.Tensor:
        check_memory(shape, self._carrier.itemsize, "field %r", self._field)
        tensor, array = self._allocate(shape, self._carrier, self._dtype)
        memory.append(array)
        return tensor
