"""Decodes every frame of some samples, to find those that cannot be decoded. Verifying a store spends its time here.

    checker = FrameChecker(schema, plans, threads=2)
    for bad in checker.check(memory, start, rows, table.plans):
        print(bad.row, bad.leaf.name, bad.error)

Frames are decoded many at a time, into the same memory again and again. One that is refused does not stop the others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.codecs import (
    BY_CODE,
    DTYPES,
    NO_PLAN,
    SHORT_FRAMES,
    Array,
    Plan,
    decode_with,
    plan_set,
    raise_if_refused,
)
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
    plan: int  # its number


class FrameChecker:
    """Decodes the frames of samples of one schema; `plans` are those that can be read, by name."""

    def __init__(self, schema: Schema, plans: Mapping[str, Plan], threads: int | None) -> None:
        self._layout = RowLayout(schema)
        self._leaves = schema.frames
        self._plans = plan_set(plan.native() for plan in plans.values())
        self._numbers: dict[str | None, int] = {name: number for number, name in enumerate(plans)}
        self._threads = threads
        self._scratch = np.empty(_SCRATCH, np.uint8)

    def check(self, memory: Bytes, start: int, rows: Rows, plans: Sequence[str | None]) -> Iterator[BadFrame]:
        """All frames of these rows that are not good; `memory` holds the bytes of the shard from `start` on.

        `plans` are those that the shard's table names, of each frame leaf.
        """
        jobs: list[_Job] = []
        room = _SCRATCH
        for row, leaf, begin, end, tag in self._frames(rows):
            try:
                named = plans[leaf.frame] if plans and tag is not None else None
                plan = self._numbers.get(named, NO_PLAN)
                frame = memory[begin - start : end - start]
                if named is not None and plan == NO_PLAN and _is_short(frame):
                    raise FormatError(
                        f"the frame needs plans/{named}.json, which is not there or damaged: restore it from a copy",
                        Reason.PLAN_MISSING,
                    )
                job = self._job(row, leaf, frame, tag, plan)
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
            decode_with(self._plans, [(job.frame, job.plan) for job in jobs], outs, self._threads)
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

    def _job(self, row: int, leaf: Leaf, frame: Bytes, tag: int | None, plan: int) -> _Job:
        """What decoding a frame needs, once its header was found to be the one that the row and the schema speak of."""
        code = DTYPES[leaf.node.dtype if leaf.is_column_array else leaf.stored or "uint8"].code
        is_short = _is_short(frame)
        if is_short:
            _check_tag(_native.crc32c(frame), tag, "it", Reason.BLOCK_CHECKSUM)
        header: Any = _native.parse(frame, self._plans, plan)
        raise_if_refused(header)
        end = header["header_size"]
        if not is_short and tag is not None:
            _check_tag(int.from_bytes(frame[end - 4 : end].tobytes(), "little"), tag, "its header")
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
        return _Job(row, leaf, frame, shape, BY_CODE[code].numpy, nbytes, plan)


def _is_short(frame: Bytes) -> bool:
    """Whether it is a short frame; of one that is cut off entirely it cannot be said."""
    return len(frame) > 0 and bool(frame[0] < SHORT_FRAMES)


def _check_tag(found: int, tag: int | None, what: str, reason: Reason | int = 0) -> None:
    if found != tag:
        raise FormatError(
            f"the frame is not the one that was written here: {what} has checksum {found:#010x}, "
            f"but the row says {0 if tag is None else tag:#010x}",
            reason,
        )
