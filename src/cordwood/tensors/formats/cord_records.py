"""Encodes storages: each group of overlapping views becomes one record; small ones share a record."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cordwood import codecs
from cordwood.codecs import DTYPES, Goal
from cordwood.codecs import pieces as sample_of
from cordwood.native import _native
from cordwood.tensors.content.file_content import Bytes, PackedStorage, Scratch
from cordwood.tensors.layout.reachable import ViewGroup

_SMALLEST_CODED = 256  # below that a frame's header costs more than coding could save
_SMALL_GROUP = 1 << 14  # a record of its own costs some 200 bytes: smaller groups share one
_LARGEST_JOINED = 1 << 20
_LARGEST_RECORD = 4 << 20  # larger groups are cut, so that encoding needs little memory beyond the tensors
# Bytes that a plan is chosen on: on more, choosing would take longer than encoding. Who asks for small has the time.
_SAMPLE = {"small": 2 << 20, "balanced": 256 << 10, "fast": 256 << 10}
_WORTH = 0.98  # of the raw bytes: raw records can be mapped, which is worth two percent


@dataclass(frozen=True, slots=True)
class EncodedRecord:
    """A stretch of a storage, ready to be written."""

    offset: int  # in the storage
    nbytes: int
    coding: str  # "raw" or "frame"
    data: Any
    crc32c: int | None  # of raw bytes; a frame has its own checksums


def encoded_records(storage: PackedStorage, goal: Goal, scratch: Scratch) -> Iterator[EncodedRecord]:
    """The records of a storage, one at a time; each is valid until the next is asked for."""
    for groups in _neighbours(storage.layout.groups):
        if len(groups) == 1:
            dtype, array = _array(storage, groups[0], scratch)
        else:
            dtype, array = _joined(storage, groups, scratch)
        chosen: codecs.Plan | Goal = goal
        pieces = [(0, array)]
        if goal != "raw" and array.nbytes > _SAMPLE[goal]:
            plan = codecs.plan(sample_of(array, _SAMPLE[goal]), goal, dtype=dtype)
            # What is not to be coded stays in one piece, which can be mapped.
            chosen = "raw" if str(plan) == "raw" else plan
            pieces = pieces if chosen == "raw" or array.nbytes <= _LARGEST_RECORD else _cut(array)
        for offset, piece in pieces:
            coding, data = _encode(piece, dtype, chosen)
            crc = _native.crc32c(data) if coding == "raw" else None
            yield EncodedRecord(groups[0].offset + offset, piece.nbytes, coding, data, crc)


def _neighbours(groups: Sequence[ViewGroup]) -> Iterator[list[ViewGroup]]:
    """Groups by themselves, but small ones together."""
    together: list[ViewGroup] = []
    for group in groups:
        if together and (group.nbytes > _SMALL_GROUP or group.offset - together[0].offset > _LARGEST_JOINED):
            yield together
            together = []
        together.append(group)
        if group.nbytes > _SMALL_GROUP:
            yield together
            together = []
    if together:
        yield together


def _joined(storage: PackedStorage, groups: Sequence[ViewGroup], scratch: Scratch) -> tuple[str, Any]:
    """Several groups as one array, with the zeros between them; under their dtype if they have the same."""
    start, end = groups[0].offset, groups[-1].offset + groups[-1].nbytes
    raw = scratch.take(end - start)
    storage.gather(groups, start, raw)
    dtypes = {storage.group_array(group)[0] for group in groups}
    dtype = dtypes.pop() if len(dtypes) == 1 else "uint8"
    itemsize = DTYPES[dtype].numpy.itemsize
    if start % itemsize or end % itemsize or (dtype == "bool" and raw.max() > 1):
        dtype, itemsize = "uint8", 1
    return dtype, _as_array(raw, dtype, (len(raw) // itemsize,))


def _array(storage: PackedStorage, group: ViewGroup, scratch: Scratch) -> tuple[str, Any]:
    """A group under the dtype and in the shape that suit it."""
    raw = storage.group_bytes(group, scratch)
    dtype, shape = storage.group_array(group)
    if dtype == "bool" and raw.size and raw.max() > 1:
        dtype = "uint8"  # torch lets other bytes into a bool tensor, and they must come back as they are
    return dtype, _as_array(raw, dtype, shape)


def _cut(array: Any) -> list[tuple[int, Any]]:
    """Pieces of a large array, each with its offset in bytes."""
    row = array.nbytes // len(array)
    if row > _LARGEST_RECORD:
        array, row = array.reshape(-1), array.itemsize
    step = max(_LARGEST_RECORD // row, 1)
    return [(start * row, array[start : start + step]) for start in range(0, len(array), step)]


def _as_array(raw: Bytes, dtype: str, shape: tuple[int, ...]) -> Any:
    carrier = DTYPES[dtype].numpy
    # Gathered bytes may start anywhere; the codecs want items where their size says.
    aligned = raw if not raw.ctypes.data % max(carrier.itemsize, 1) else raw.copy()
    return aligned.view(carrier).reshape(shape)


def _encode(array: Any, dtype: str, plan_or_goal: codecs.Plan | Goal) -> tuple[str, Any]:
    raw = array.reshape(-1).view(np.uint8)
    if plan_or_goal == "raw" or array.nbytes < _SMALLEST_CODED:
        return "raw", raw
    frame = codecs.encode(array, plan_or_goal, dtype=dtype, threads=None)
    return ("frame", frame) if len(frame) <= array.nbytes * _WORTH else ("raw", raw)
