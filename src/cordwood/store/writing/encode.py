"""Samples as frames: copied into a chunk, then all arrays of the chunk encoded in one native call on several threads.

    encoder = SampleEncoder(fixed, threads=2)
    encoder.add(encoder.preparer.prepare(sample))   # the caller may reuse its buffers
    parts = encoder.encoded()

A frame depends on its array and its field's plan alone, never on the number of threads or on its neighbours. Chunks
are reused, because fresh memory costs more than the copy into memory that was used before.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cordwood import codecs
from cordwood.codecs import Array, Plan, raise_if_refused
from cordwood.native import _native
from cordwood.store.writing.first_samples import FixedSchema
from cordwood.store.writing.flatten import Apart
from cordwood.store.writing.prepare import Prepared

CHUNK_BYTES = 16 << 20  # of arrays and columns
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
        self.apart: list[tuple[int, int, Array]] = []  # numbers of sample and column, arrays that do not fit there
        self.items = 0  # of columns, states and errors: one a sample, or one for several that came together
        self._nbytes = 0
        self._used = 0  # of the memory
        self._memory = np.empty(CHUNK_BYTES, np.uint8)

    @property
    def is_full(self) -> bool:
        """Whether it is time to encode it."""
        return self._nbytes >= CHUNK_BYTES or self.count >= CHUNK_SAMPLES

    def add(
        self,
        arrays: Sequence[Array | None],
        columns: bytes,
        states: bytes,
        errors: tuple[float, ...],
        apart: Apart = (),
    ) -> None:
        """Take a sample, whose arrays are contiguous, whether it fits or not: a large one has memory of its own."""
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
        for column, array in apart:
            self.apart.append((self.count, column, array.copy()))
            self._nbytes += array.nbytes
        self._take(columns, states, errors, 1)

    def add_rows(self, columns: bytes, states: bytes, count: int) -> None:
        """Take samples that have columns alone."""
        self._trim()
        self._take(columns, states, (), count)

    def _take(self, columns: bytes, states: bytes, errors: tuple[float, ...], count: int) -> None:
        self._nbytes += len(columns)
        self.columns.append(columns)
        self.errors.append(errors)
        self.states.append(states)
        self.items += 1
        self.count += count

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
        whole = len(self.data) == self.count * self.frames and len(self.columns) == self.items
        if whole and (not self.apart or self.apart[-1][0] < self.count):
            return
        del self.data[self.count * self.frames :], self.shapes[self.count * self.frames :]
        del self.columns[self.items :], self.errors[self.items :], self.states[self.items :]
        while self.apart and self.apart[-1][0] >= self.count:
            self.apart.pop()

    def clear(self) -> None:
        """Forget the samples, keep the memory."""
        self.count = self.items = self._nbytes = self._used = 0
        self._trim()


class ApartFrame(NamedTuple):
    """The frame of an array that does not fit the shape of its column."""

    sample: int
    column: int
    shape: tuple[int, ...]
    frame: bytes


@dataclass
class Encoded:
    """Some samples as they go into a shard: lists with an item a frame, and arrays with a row a sample."""

    frames: list[bytes]  # sample by sample in the order of the leaves; empty where there is none
    sizes: npt.NDArray[np.int64]  # of the frames, [sample, leaf]
    shapes: list[tuple[int, ...] | None]
    columns: npt.NDArray[np.uint8]
    states: npt.NDArray[np.uint8]
    errors: npt.NDArray[np.float64]
    apart: list[ApartFrame]  # by sample and column, whose bytes are zero until it is known where the frame lies
    plans: tuple[str | None, ...] = ()  # the names of those that made the frames, one per leaf

    def __len__(self) -> int:
        return len(self.states)

    def frame_bytes(self) -> npt.NDArray[np.int64]:
        """The bytes of all frames of each sample."""
        found: npt.NDArray[np.int64] = self.sizes.sum(axis=1)
        for one in self.apart:
            found[one.sample] += len(one.frame)
        return found

    def part(self, start: int, end: int) -> "Encoded":
        """The samples from `start` up to `end`."""
        width = self.sizes.shape[1]
        of_frames, of_samples = slice(start * width, end * width), slice(start, end)
        return Encoded(
            self.frames[of_frames],
            self.sizes[of_samples],
            self.shapes[of_frames],
            self.columns[of_samples],
            self.states[of_samples],
            self.errors[of_samples],
            [one._replace(sample=one.sample - start) for one in self.apart if start <= one.sample < end],
            self.plans,
        )


def encode(
    chunk: Chunk, plans: Sequence[Plan], threads: int, apart: Mapping[int, Plan] = MappingProxyType({})
) -> Encoded:
    """The samples of a chunk with their frames; `apart` has the plans of the columns' arrays that lie apart."""
    count, width = chunk.count, len(plans)
    frames: list[bytes] = [b""] * (count * width)
    shapes = chunk.shapes[: count * width]
    sizes = _fill(frames, range(width), chunk.data, shapes, plans, threads)
    return Encoded(
        frames,
        sizes.reshape(count, width),
        shapes,
        np.frombuffer(b"".join(chunk.columns[: chunk.items]), np.uint8).reshape(count, -1),
        np.frombuffer(b"".join(chunk.states[: chunk.items]), np.uint8).reshape(count, -1),
        np.array(chunk.errors[: chunk.items], np.float64).reshape(count, -1),
        [
            ApartFrame(sample, column, array.shape, codecs.encode(array, apart[column], dtype=apart[column].dtype))
            for sample, column, array in chunk.apart
            if sample < count
        ],
    )


def _fill(
    frames: list[bytes],
    leaves: Iterable[int],
    data: Sequence[Array | bytes | None],
    shapes: Sequence[tuple[int, ...] | None],
    plans: Sequence[Plan],
    threads: int,
) -> npt.NDArray[np.int64]:
    """Encode the arrays of some leaves, put the frames into the list of all, and return their sizes."""
    width = len(plans)
    places: list[int] = []
    items: list[Any] = []
    for leaf in leaves:
        encoders: dict[int, Any] = {}
        for place in range(leaf, len(frames), width):
            shape = shapes[place]
            if shape is not None:
                rank = len(shape)
                if rank not in encoders:
                    encoders[rank] = plans[leaf].encoder(rank, short=True)
                places.append(place)
                items.append((data[place], shape, encoders[rank]))
    answers: list[Any] = _native.encode_batch(tuple(items), threads)
    for place, answer in zip(places, answers, strict=True):
        raise_if_refused(answer, "array")
        frames[place] = answer
    return np.fromiter(map(len, frames), np.int64, len(frames))


def encode_again(encoded: Encoded, before: FixedSchema, fixed: FixedSchema, threads: int) -> Encoded:
    """The same samples with the frames that other plans make of their arrays."""
    changed = [leaf for leaf, name in enumerate(fixed.plan_names) if name != before.plan_names[leaf]]
    frames, width = encoded.frames.copy(), len(fixed.plans)
    data: list[Array | bytes | None] = [None] * len(frames)
    for leaf in changed:
        for place in range(leaf, len(frames), width):
            if encoded.shapes[place] is not None:
                data[place] = codecs.decode(frames[place], plans=before.plans[leaf]).tobytes()
    sizes = _fill(frames, changed, data, encoded.shapes, fixed.plans, threads)
    return replace(encoded, frames=frames, sizes=sizes.reshape(encoded.sizes.shape), plans=fixed.plan_names)


class SampleEncoder:
    """Prepares samples and encodes them, a chunk at a time; `fixed` may be given other plans."""

    def __init__(self, fixed: FixedSchema, threads: int) -> None:
        self.preparer = fixed.preparer()
        self.fixed = fixed
        self._apart = fixed.apart_plans()
        self._threads = threads
        self.chunk = Chunk(len(fixed.plans))
        self._parts: list[Encoded] = []

    def add(self, sample: Prepared) -> None:
        """Copy a sample into the chunk; a full one is encoded first."""
        if self.chunk.is_full:
            self.flush()
        self.chunk.add(*sample)

    def flush(self) -> None:
        """Encode what is in the chunk."""
        if self.chunk.count:
            self._parts.append(self._encode(self.chunk))

    def encoded(self) -> list[Encoded]:
        """Return everything that was added since the last call."""
        self.flush()
        parts, self._parts = self._parts, []
        return parts

    def _encode(self, chunk: Chunk) -> Encoded:
        encoded = encode(chunk, self.fixed.plans, self._threads, self._apart)
        encoded.plans = self.fixed.plan_names
        chunk.clear()
        return encoded


def tags(encoded: Encoded) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    """The tag of each frame, by which its row knows it, [sample, leaf], and whether the frame is a short one.

    Where there is no frame, the tag is 0, and it counts as a short one.
    """
    made, short = _native.frame_tags(encoded.frames)
    shape = encoded.sizes.shape
    is_short = np.frombuffer(short, np.bool_).reshape(shape) | (encoded.sizes == 0)
    return np.frombuffer(made, np.uint32).reshape(shape), is_short
