"""Samples on their way to the encoder: copied into memory that is used again and again.

    chunk = Chunk(frames=2)
    chunk.add(arrays, columns, states, errors)
    if chunk.full: ...

The caller may reuse its buffers as soon as a sample was taken, and fresh memory costs more than the copy into memory
that was used before: two chunks, one being filled and one being encoded, are all that a writer needs.
"""

from collections.abc import Sequence

import numpy as np

from cordwood.codecs.dtypes import Array

CHUNK_BYTES = 16 << 20  # of arrays
CHUNK_SAMPLES = 4096
_ALIGNED = 64
_SMALL = 16384  # bytes of an array that the allocator has memory for, without asking the system


class Chunk:
    """Up to 16 MiB of arrays, or 4096 samples, as lists with an item a sample; `count` of them are whole."""

    def __init__(self, frames: int) -> None:
        self.frames = frames  # of a sample
        self.count = 0
        self.data: list[Array | bytes | None] = []  # an item a frame, sample by sample; None where there is none
        self.shapes: list[tuple[int, ...] | None] = []  # an item a frame
        self.columns: list[bytes] = []
        self.states: list[bytes] = []
        self.errors: list[tuple[float, ...]] = []  # the largest one of each leaf that is stored in a narrower dtype
        self._nbytes = 0
        self._used = 0  # of the memory
        self._memory = np.empty(CHUNK_BYTES, np.uint8)

    @property
    def full(self) -> bool:
        """Whether it is time to encode it."""
        return self._nbytes >= CHUNK_BYTES or self.count >= CHUNK_SAMPLES

    def add(self, arrays: Sequence[Array | None], columns: bytes, states: bytes, errors: tuple[float, ...]) -> None:
        """Take a sample, whose arrays are contiguous, whether it fits or not: a large one has memory of its own."""
        if len(self.data) != self.count * self.frames or len(self.states) != self.count:
            self._trim()
        for array in arrays:
            if array is None:
                self.data.append(None)
                self.shapes.append(None)
                continue
            self.shapes.append(array.shape)
            size = array.nbytes
            self._nbytes += size
            self.data.append(array.tobytes() if size < _SMALL else self._copied(array, size))
        self.columns.append(columns)
        self.errors.append(errors)
        self.states.append(states)
        self.count += 1

    def _copied(self, array: Array, size: int) -> Array:
        at = self._used
        if at + size > CHUNK_BYTES:
            taken = np.empty(size, np.uint8)
        else:
            taken = self._memory[at : at + size]
            self._used += -(-size // _ALIGNED) * _ALIGNED
        taken[:] = array.reshape(-1).view(np.uint8)
        return taken

    def _trim(self) -> None:
        """Forget a sample that was interrupted half-way."""
        del self.data[self.count * self.frames :], self.shapes[self.count * self.frames :]
        del self.columns[self.count :], self.errors[self.count :], self.states[self.count :]

    def clear(self) -> None:
        """Forget the samples, keep the memory."""
        self.count = self._nbytes = self._used = 0
        self._trim()
