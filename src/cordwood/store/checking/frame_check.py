"""Decodes every frame of some samples, to find those that cannot be decoded. Verifying a store spends its time here.

    checker = FrameChecker(schema, plans, threads=2)
    for bad in checker.check(memory, start, rows):
        print(bad.row, bad.leaf.name, bad.error)

Frames are decoded many at a time, into the same memory again and again. One that is refused does not stop the others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.codecs import BY_CODE, DTYPES, Array, Plan, decode_into, raise_if_refused
from cordwood.common.resources import physical_memory
from cordwood.errors import FormatError, Reason
from cordwood.native import _native
from cordwood.store.format.rows import RowLayout
from cordwood.store.reading.rebuild import restore
from cordwood.store.schema.node import BYTE_LEAVES
from cordwood.store.schema.schema import Leaf, Schema

_SCRATCH = 32 << 20  # decoded bytes that are decoded at a time
_MOST_AT_ONCE = 4096  # frames
_ALIGNED = 64

Bytes = npt.NDArray[np.uint8]
Rows = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class BadFrame:
    """A frame that cannot be read; `row` counts from the first of those that were asked for."""

    row: int
    leaf: Leaf
    error: FormatError


@dataclass(frozen=True, slots=True)
class _Job:
    row: int
    leaf: Leaf
    frame: Bytes
    shape: tuple[int, ...]
    dtype: "np.dtype[np.generic]"
    nbytes: int


class FrameChecker:
    """Decodes the frames of samples of one schema."""

    def __init__(self, schema: Schema, plans: Iterable[Plan], threads: int | None) -> None:
        self._layout = RowLayout(schema)
        self._leaves = schema.frames
        self._plans = tuple(plans)
        self._threads = threads
        self._scratch = np.empty(_SCRATCH, np.uint8)

    def check(self, memory: Bytes, start: int, rows: Rows) -> Iterator[BadFrame]:
        """All frames of these rows that are not good; `memory` holds the bytes of the shard from `start` on."""
        jobs: list[_Job] = []
        room = _SCRATCH
        for row, leaf, begin, end, tag in self._frames(rows):
            try:
                job = _job(row, leaf, memory[begin - start : end - start], tag)
            except FormatError as error:
                yield BadFrame(row, leaf, error)
                continue
            taken = -(-job.nbytes // _ALIGNED) * _ALIGNED
            if jobs and (taken > room or len(jobs) == _MOST_AT_ONCE):
                yield from self._decode(jobs)
                jobs, room = [], _SCRATCH
            jobs.append(job)
            room -= taken
        if jobs:
            yield from self._decode(jobs)

    def _frames(self, rows: Rows) -> Iterator[tuple[int, Leaf, int, int, int | None]]:
        """The frames of these rows: row, leaf, where it begins and ends, and its tag if it has one."""
        places, tags = rows["offsets"].tolist(), rows["tags"].tolist()
        for row, (offsets, tags_of_row) in enumerate(zip(places, tags, strict=True)):
            for leaf, tag in zip(self._leaves, tags_of_row, strict=True):
                begin, end = offsets[leaf.frame], offsets[leaf.frame + 1]
                if begin < end:
                    yield row, leaf, begin, end, tag
        for leaf, numbers, begins, sizes in self._layout.apart(rows):
            for row, begin, size in zip(numbers.tolist(), begins.tolist(), sizes.tolist(), strict=True):
                yield row, leaf, begin, begin + size, None

    def _decode(self, jobs: list[_Job]) -> Iterator[BadFrame]:
        outs = self._outs(jobs)
        try:
            decode_into([job.frame for job in jobs], outs, self._threads, plans=self._plans)
        except FormatError as error:
            if len(jobs) == 1:
                yield BadFrame(jobs[0].row, jobs[0].leaf, error)
                return
            for job in jobs:  # which of them, and whether more than one, only each by itself can tell
                yield from self._decode([job])
            return
        for job, out in zip(jobs, outs, strict=True):
            if job.leaf.node.kind in BYTE_LEAVES:
                try:
                    restore(job.leaf, out)
                except FormatError as error:
                    yield BadFrame(job.row, job.leaf, error)

    def _outs(self, jobs: list[_Job]) -> list[Array]:
        if len(jobs) == 1 and jobs[0].nbytes > _SCRATCH:
            return [np.empty(jobs[0].shape, jobs[0].dtype)]
        outs: list[Array] = []
        begin = 0
        for job in jobs:
            outs.append(self._scratch[begin : begin + job.nbytes].view(job.dtype).reshape(job.shape))
            begin += -(-job.nbytes // _ALIGNED) * _ALIGNED
        return outs


def _job(row: int, leaf: Leaf, frame: Bytes, tag: int | None) -> _Job:
    """What decoding a frame needs, once its header was found to be the one that the row and the schema speak of."""
    code = DTYPES[leaf.node.dtype if leaf.is_column_array else leaf.stored or "uint8"].code
    header: Any = _native.parse(frame)
    raise_if_refused(header)
    end = header["header_size"]
    found = int.from_bytes(frame[end - 4 : end].tobytes(), "little")
    if tag is not None and found != tag:
        raise FormatError(
            f"the frame is not the one that was written here: its header has checksum {found:#010x}, "
            f"but the row says {tag:#010x}"
        )
    if header["dtype"] != code:
        raise FormatError(
            f"the frame holds {BY_CODE[header['dtype']].name}, but the field is stored as "
            f"{leaf.stored or leaf.node.dtype}"
        )
    shape, nbytes = header["shape"], header["nbytes"]
    if leaf.node.kind in BYTE_LEAVES and len(shape) != 1:
        raise FormatError(
            f"the frame holds an array of shape {shape}, but a field of {leaf.node.kind} has one dimension"
        )
    if nbytes > physical_memory():
        raise FormatError(
            f"the frame says that its array takes {nbytes} bytes, but this machine has "
            f"{physical_memory()}: it is damaged, or made for a larger machine",
            Reason.LIMIT,
        )
    return _Job(row, leaf, frame, shape, BY_CODE[code].numpy, nbytes)
