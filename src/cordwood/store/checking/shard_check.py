"""Checks one shard to its last byte: what is damaged, and which samples are good all the same.

    findings = ShardChecker(schema, plans, threads=2).check(path, record)
    findings.good                    # a bool a sample
    findings.damages.found

Everything in a shard lies under a checksum: header, every frame, the rows, each row by itself, footer, trailer. A
damaged frame or row costs its sample. If header or trailer are lost, a reader refuses the shard, but the rows are
looked for, and samples whose rows and frames are good can be saved.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.codecs import Plan
from cordwood.common.files import opened
from cordwood.errors import CordwoodError, FormatError, StorageError
from cordwood.native import _native
from cordwood.store.checking.damage import Damage, Damages
from cordwood.store.checking.frame_check import FrameChecker
from cordwood.store.checking.survey import sentence
from cordwood.store.format import shard_index
from cordwood.store.format.row_search import find_rows, read_at
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import (
    HEADER_SIZE,
    TRAILER_SIZE,
    ShardEnds,
    check_ends,
    pack_header,
    read_ends_of,
    read_footer,
)
from cordwood.store.format.shard_table import ShardTable
from cordwood.store.reading.reader import Reader
from cordwood.store.reading.rebuild import restore
from cordwood.store.schema.node import BYTE_LEAVES
from cordwood.store.schema.schema import ABSENT, APART, NONE, PRESENT, Schema

_WINDOW = 32 << 20  # bytes of frames that are read at a time
_DECODED = 64 << 20  # and about so many bytes of arrays

Rows = npt.NDArray[np.void]
Mask = npt.NDArray[np.bool_]
Step = Callable[[int], None]  # so many more bytes are done


@dataclass
class ShardFindings:
    """What checking a shard has shown. `rows` and `good` have an item a sample that could be found."""

    path: Path
    first: int  # number of its first sample in the store
    count: int  # samples that it should have
    rows: Rows
    frames_end: int
    good: Mask
    plans: tuple[str | None, ...] = ()  # of the frame leaves, by the table
    footer: dict[str, Any] | None = None
    damages: Damages = field(default_factory=Damages)

    @property
    def is_whole(self) -> bool:
        """Whether the file can be kept as it is."""
        return not self.damages.found

    @property
    def lost(self) -> list[int]:
        """The numbers of the samples that are not good, in the store."""
        known = np.zeros(self.count, np.bool_)
        known[: len(self.good)] = self.good
        return (np.flatnonzero(~known) + self.first).tolist()

    def add(self, what: str, rows: tuple[int, int] | None, field: str | None = None, reason: int = 0) -> None:
        """Note a damage; `rows` are the first and the last that cannot be read because of it."""
        first, last = (None, None) if rows is None else (self.first + rows[0], self.first + rows[1])
        self.damages.add(Damage(self.path.name, what, first, last, field, reason))

    def add_all(self, what: str, reason: int = 0) -> None:
        """Note a damage for which all samples of the shard are refused."""
        self.add(what, (0, self.count - 1) if self.count else None, reason=reason)


class ShardChecker:
    """Checks the shards of one store, one after the other."""

    def __init__(
        self, schema: Schema, plans: Mapping[str, Plan], threads: int | None = None, reader: Reader | None = None
    ) -> None:
        """`reader` reads the same store, if it can be opened: where nothing is damaged, that is the quickest check."""
        self.schema = schema
        self.layout = RowLayout(schema)
        self._reader = reader
        self._frames = FrameChecker(schema, plans, threads)

    def check(self, path: Path, record: Any, step: Step = lambda nbytes: None) -> ShardFindings:
        """All of a shard; `record` is what the index says of it. `step` is told of bytes as they are done."""
        first, count = int(record["first"]), int(record["count"])
        nothing: Rows = np.empty(0, self.layout.dtype)
        found = ShardFindings(path, first, count, nothing, 0, np.zeros(0, np.bool_))
        try:
            with opened(path, "the shard") as fd:
                ends = self._open(fd, found, record)
                if ends is not None:
                    self._check_rows(fd, ends, found)
                    self._check_footer(ends, found)
                if len(found.rows):
                    self._check_frames(fd, found, step)
        except (StorageError, FormatError) as error:
            found.good[:] = False
            missing = isinstance(error, OSError) and error.errno == errno.ENOENT
            found.add_all("the shard is not there" if missing else sentence(error, found.path))
        return found

    # ---- the two ends --------------------------------------------------------------------------------------------

    def _open(self, fd: int, found: ShardFindings, record: Any) -> ShardEnds | None:
        """Header and trailer; if one is lost, what can be told without it."""
        where = str(found.path)
        ends: ShardEnds | None
        try:
            ends = read_ends_of(fd, where)
        except FormatError as error:
            ends = self._trailer_alone(fd, where)
            if ends is None:
                self._search(fd, found)
            found.add_all(f"{sentence(error, found.path)}; {self._can_be_saved(found, ends)}", error.reason)
        if ends is None:
            return None
        if ends.schema_hash != self.schema.hash:
            found.add_all("a shard of another schema than this store's")
            return None
        if int(record["file_size"]):  # else the index knows nothing of it
            try:
                shard_index.check_record(where, record, ends)
            except FormatError as error:
                found.add_all(sentence(error, found.path), error.reason)
                return None
        return ends

    def _trailer_alone(self, fd: int, where: str) -> ShardEnds | None:
        size = os.fstat(fd).st_size
        trailer = os.pread(fd, TRAILER_SIZE, max(size - TRAILER_SIZE, 0))
        try:
            ends = check_ends(where, pack_header(self.schema.hash), trailer, size)
        except FormatError:
            return None
        try:
            ShardTable.read(fd, where, ends, self.layout)
        except FormatError:  # there is none, then: the header that was lost may have been one of version 1
            return replace(ends, is_packed=False) if ends.row_size == self.layout.row_size else ends
        return ends

    def _search(self, fd: int, found: ShardFindings) -> None:
        searched = find_rows(fd, os.fstat(fd).st_size, self.layout, found.count or None)
        if searched is not None:
            found.rows, found.frames_end, found.plans = searched.rows, searched.frames_end, searched.plans
            found.good = searched.intact & self.layout.sound(searched.rows, searched.frames_end)
            found.count = max(found.count, len(found.rows))

    def _can_be_saved(self, found: ShardFindings, ends: ShardEnds | None) -> str:
        if ends is not None:
            return "its rows are there, so that its good samples can be saved"
        number = int(np.count_nonzero(found.good))
        return f"the rows of {number} of its {found.count} samples were found" if number else "its rows are lost"

    # ---- rows and footer -----------------------------------------------------------------------------------------

    def _check_rows(self, fd: int, ends: ShardEnds, found: ShardFindings) -> None:
        try:
            table = ShardTable.read(fd, str(found.path), ends, self.layout)
        except FormatError as error:  # without it no row can be understood
            found.add_all(sentence(error, found.path), error.reason)
            return
        size, begin = ends.row_size, ends.rows_offset
        found.rows, intact = table.read_rows(fd, ends.file_size, begin, ends.count, self.layout)
        found.frames_end, found.plans = table.frames_end, table.plans
        sound = self.layout.sound(found.rows, table.frames_end)
        found.good = intact & sound
        for row in np.flatnonzero(~found.good).tolist():
            what = "has another checksum than was written" if not intact[row] else "tells of what cannot be"
            found.add(f"the row at byte {begin + row * size} {what}", (row, row))
        if intact.all():
            written = np.frombuffer(read_at(fd, ends.rows_size, begin), np.uint8).reshape(ends.count, size)
            if _native.crc32c(written[:, -4:].tobytes()) != ends.rows_crc:
                # Each is good by itself, so which one is not of this shard cannot be told.
                found.good[:] = False
                found.add_all("not all rows are those that were written")
            self._check_sequence(found)

    def _check_sequence(self, found: ShardFindings) -> None:
        """Frames lie back to back, so that no byte is without an owner."""
        begins, finishes = found.rows["offsets"][:, 0], self.layout.ends(found.rows)
        expected = np.concatenate([[np.uint64(HEADER_SIZE)], finishes])
        actual = np.concatenate([begins, [np.uint64(found.frames_end)]])
        for row in np.flatnonzero(actual != expected).tolist():
            found.add(f"byte {int(actual[row])} follows byte {int(expected[row])}: frames are not back to back", None)

    def _check_footer(self, ends: ShardEnds, found: ShardFindings) -> None:
        try:
            found.footer = read_footer(found.path, ends)
        except FormatError as error:
            found.add(sentence(error, found.path), None, reason=error.reason)
            return
        told = found.footer["fields"]
        if [entry.get("name") if isinstance(entry, dict) else None for entry in told] != list(self.schema.names):
            found.add("the footer tells of other fields than the schema", None)
            return
        if not len(found.good) or not found.good.all():
            return
        states = self.layout.states(found.rows)
        states[states == APART] = PRESENT
        apart = {one.leaf: int(one.sizes.sum()) for one in self.layout.apart(found.rows)}
        for leaf, entry in zip(self.schema.leaves, told, strict=True):
            of_leaf = states[:, leaf.state] if leaf.state >= 0 else np.full(len(states), PRESENT)
            counted = {
                word: int(np.count_nonzero(of_leaf == state))
                for word, state in (("present", PRESENT), ("none", NONE), ("absent", ABSENT))
            }
            if leaf.frame >= 0:
                offsets = found.rows["offsets"]
                counted["stored_bytes"] = int((offsets[:, leaf.frame + 1] - offsets[:, leaf.frame]).sum())
            if leaf.is_column_array:
                part = self.layout.column_slices[leaf.column]
                counted["stored_bytes"] = (part.stop - part.start) * len(found.rows) + apart.get(leaf, 0)
            for word, number in counted.items():
                if entry.get(word) != number:
                    found.add(f"the footer says {word} {entry.get(word)!r}, but it is {number}", None, leaf.name)

    # ---- frames --------------------------------------------------------------------------------------------------

    def _check_frames(self, fd: int, found: ShardFindings, step: Step) -> None:
        ends = self.layout.ends(found.rows)
        for rows in _windows(found, ends):
            start, end = int(found.rows["offsets"][rows, 0].min()), int(ends[rows].max())
            if not self._reads_well(found, rows):
                memory = np.frombuffer(read_at(fd, end - start, start), np.uint8)
                for bad in self._frames.check(memory, start, found.rows[rows], found.plans):
                    row = int(rows[bad.row])
                    found.good[row] = False
                    found.add(sentence(bad.error, found.path), (row, row), bad.leaf.name, bad.error.reason)
            step(end - start)

    def _reads_well(self, found: ShardFindings, rows: npt.NDArray[np.intp]) -> bool:
        """Whether a reader gets all of these samples; which one it does not get is for the slower way to find out."""
        if self._reader is None or found.damages.found or self.layout.apart(found.rows[rows]):
            return False
        try:
            _, arrays = self._reader.fetch(rows + found.first, self.schema.frames, together=True)
            for leaf, of_leaf in zip(self.schema.frames, arrays, strict=True):
                if leaf.node.kind in BYTE_LEAVES:
                    for array in of_leaf:
                        if isinstance(array, bytes):
                            restore(leaf, array)
        except CordwoodError:
            return False
        return True


def _windows(found: ShardFindings, ends: npt.NDArray[np.uint64]) -> Iterator[npt.NDArray[np.intp]]:
    """The good rows, in runs that are read at once, of so many bytes at most, encoded and by the footer decoded."""
    rows = np.flatnonzero(found.good)
    begins = found.rows["offsets"][:, 0]
    max_rows = max(_DECODED // _decoded_size(found), 1)
    at = 0
    while at < len(rows):
        most = int(begins[rows[at]]) + _WINDOW
        # If they are not in order, some window is larger than it should be, which is only slow.
        end = max(int(np.searchsorted(ends[rows[at : at + max_rows]], most, "right")), 1) + at
        yield rows[at:end]
        at = end


def _decoded_size(found: ShardFindings) -> int:
    """The mean size of a sample by the footer, at least one byte."""
    fields = found.footer["fields"] if found.footer is not None else []
    sizes = [entry.get("raw_bytes") for entry in fields if isinstance(entry, dict)]
    return max(sum(size for size in sizes if isinstance(size, int)) // max(len(found.rows), 1), 1)
