"""Shards being written: frames as they come, then the rows, the footer and the trailer.

    shards = ShardSequence(store, fixed, committed=0, shards=0)
    shards.begin()
    done = shards.add(encoded, 0)               # up to the sample that makes the shard full
    if shards.open.is_full:
        shards.commit()                         # in a thread: synced, and in its place
    shards.finish()
    shards.stop()

Until it is finished, a shard is in a temporary file, which is removed when the shard is dropped, unless it was given a
name: then another process that has the rows can resume it. Rows are spooled, because a million small samples have more
bytes in rows than in frames, and packed at the end, when it is known how many bytes a size takes. Where a shard ends
depends on the samples and on its wanted size alone. The caller neither waits for the disk nor gets more than a shard
ahead of it.
"""

import json
import logging
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cordwood.common.atomic_file import GatheringFile, replacing, staying
from cordwood.common.files import opened
from cordwood.errors import FormatError, StorageError
from cordwood.native import _native
from cordwood.store.format import shard_index
from cordwood.store.format.row_search import read_at
from cordwood.store.format.rows import RowLayout, pack_apart
from cordwood.store.format.shard_file import HEADER_SIZE, ShardEnds, check_ends, pack_header, pack_trailer, shard_name
from cordwood.store.format.shard_table import MAX_COVERED, ShardTable
from cordwood.store.writing.encode import Encoded, encode_again, tags
from cordwood.store.writing.first_samples import FixedSchema
from cordwood.store.writing.shard_statistics import ShardStatistics

_IN_MEMORY = 1 << 20
_AT_ONCE = 1 << 20


class SpooledRows:
    """Bytes that are added at the end and read anywhere; `folder` is where a file may be made."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.size = 0
        self._folder = folder
        self._memory = bytearray()  # what is not in the file
        self._in_file = 0
        self._fd = -1
        self._closing: weakref.finalize[[int], SpooledRows] | None = None

    def append(self, data: bytes) -> None:
        """Add bytes behind all others."""
        self._memory += data
        self.size += len(data)
        if len(self._memory) >= _IN_MEMORY:
            self._spool()

    def _spool(self) -> None:
        try:
            if self._fd < 0:
                # A descriptor alone, used by offsets: a forked process, which has it too, changes nothing in the file.
                with tempfile.TemporaryFile(dir=self._folder, buffering=0) as file:
                    self._fd = os.dup(file.fileno())
                self._closing = weakref.finalize(self, os.close, self._fd)
            view = memoryview(self._memory)
            while view:
                done = os.pwrite(self._fd, view, self._in_file)
                self._in_file += done
                view = view[done:]
        except OSError as error:
            raise _failure(error) from error
        self._memory = bytearray()

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`."""
        found = []
        try:
            while start < min(end, self._in_file):
                found.append(os.pread(self._fd, min(end, self._in_file) - start, start))
                start += len(found[-1])
        except OSError as error:
            raise _failure(error) from error
        found.append(bytes(self._memory[start - self._in_file : max(end - self._in_file, 0)]))
        return b"".join(found)

    def pieces(self, row_size: int) -> Iterator[bytes]:
        """All rows, some at a time."""
        step = max(_AT_ONCE // row_size, 1) * row_size
        for start in range(0, self.size, step):
            yield self.read(start, min(start + step, self.size))

    def close(self) -> None:
        """Let go of the file; once is enough."""
        if self._closing is not None:
            self._closing()


def _failure(error: OSError) -> StorageError:
    return StorageError(error.errno, f"{error.strerror or error}: the rows of a shard cannot be kept until it ends")


log = logging.getLogger("cordwood.store")

MOST_SAMPLES = 1 << 20  # of a shard
_LARGE = 1 << 18  # bytes of a frame that is worth a system call
_FULL_FRAME = ord("C")  # its first byte; that of a short one is the number of a chain
# What a packed row is counted as, beside columns and states, before it is packed: an offset and a checksum, and a size.
_ROW, _ROW_LEAF = 8, 2


class _Dropped(Exception):  # noqa: N818 - tells the file that it shall not take its place, and goes no further
    pass


class ResumedShard(NamedTuple):
    """The file of a shard that is kept if the shard is not finished, and what another process left in it."""

    path: Path
    rows: bytes = b""
    statistics: Any = None


class OpenShard:
    """A shard that takes samples."""

    def __init__(
        self,
        store: str | os.PathLike[str],
        number: int,
        layout: RowLayout,
        plans: Sequence[str | None],
        footer: dict[str, Any],
        shard_bytes: int,
        resumed: ResumedShard | None = None,
    ) -> None:
        self.path = Path(store) / shard_name(number)
        self.number = number
        self.count = 0
        self._layout = layout
        self._plans = plans
        self._largest = np.zeros(layout.frames, np.int64)  # size of a frame, by leaf
        self._all_short = np.ones(layout.frames, np.bool_)
        self._row_bytes = _ROW + _ROW_LEAF * layout.frames + layout.columns_size + layout.states_size
        self._footer = footer
        self._shard_bytes = shard_bytes
        self._statistics = ShardStatistics(layout.schema)
        self._rows = SpooledRows(store)
        self._position = HEADER_SIZE
        self._header = pack_header(layout.schema.hash)
        self._open = ExitStack()
        self._open.callback(self._rows.close)
        self._synced = 0  # samples that `sync` has returned the rows of
        if resumed is not None and resumed.rows:
            self._file = self._resume(resumed)
            return
        opening = replacing(self.path, durable=True) if resumed is None else staying(self.path, resumed.path)
        self._file = self._open.enter_context(opening)
        self._file.write(self._header)

    def _resume(self, left: ResumedShard) -> GatheringFile:
        """Take the samples that are in the file already; their frames have checksums that every reader verifies."""
        rows = self._layout.rows(left.rows)
        offsets = rows["offsets"]
        ends = self._layout.ends(rows)
        end = int(ends[-1])
        following = offsets[0, 0] == HEADER_SIZE and (offsets[1:, 0] == ends[:-1]).all()
        if not (following and self._layout.intact(rows, 0).all() and self._layout.sound(rows, end).all()):
            raise FormatError(f"{left.path}: the rows of this unfinished shard are damaged")
        with opened(left.path, "an unfinished shard") as fd:
            if os.fstat(fd).st_size < end or os.pread(fd, HEADER_SIZE, 0) != self._header:
                raise FormatError(f"{left.path}: this unfinished shard is not the one that its rows speak of")
            memory = np.frombuffer(read_at(fd, end, 0), np.uint8)
        sizes: npt.NDArray[np.int64] = offsets[:, 1:].astype(np.int64) - offsets[:, :-1].astype(np.int64)
        first_bytes = memory[np.minimum(offsets[:, :-1].astype(np.int64), end - 1)]
        self._notice(sizes, (first_bytes != _FULL_FRAME) | (sizes == 0))
        self._statistics.restore(left.statistics)
        self._rows.append(left.rows)
        self._position = end
        self.count = self._synced = len(rows)
        return self._open.enter_context(staying(self.path, left.path, end))

    def sync(self) -> tuple[bytes, list[dict[str, Any]]]:
        """Wait until all samples are in the file on the disk; return the rows since the last call, and statistics."""
        self._file.sync()
        row_size = self._layout.row_size
        rows = self._rows.read(self._synced * row_size, self.count * row_size)
        self._synced = self.count
        return rows, self._statistics.to_json()

    @property
    def is_full(self) -> bool:
        """Whether it has its size, rows included, or as many samples as a shard may have."""
        return self._size >= self._shard_bytes or self.count >= MOST_SAMPLES

    @property
    def raw_bytes(self) -> int:
        """Bytes of the values of its samples."""
        return sum(field.raw_bytes for field in self._statistics.fields)

    @property
    def _size(self) -> int:
        return self._position - HEADER_SIZE + self.count * self._row_bytes

    def room_for(self, sizes: npt.NDArray[np.int64]) -> int:
        """How many samples with frames of these sizes go into the shard: it ends with the one that makes it full."""
        after = self._size + np.cumsum(sizes + self._row_bytes)
        return min(int(np.searchsorted(after, self._shard_bytes)) + 1, MOST_SAMPLES - self.count, len(sizes))

    def add(self, part: Encoded) -> None:
        """Samples, as many as there is room for."""
        of_samples = part.frame_bytes().astype(np.uint64)
        offsets = np.empty((len(part), self._layout.frames + 1), np.uint64)
        offsets[:, 0] = self._position + np.cumsum(of_samples) - of_samples
        offsets[:, 1:] = offsets[:, :1] + np.cumsum(part.sizes, axis=1, dtype=np.uint64)
        frames, columns = self._with_apart(part, offsets[:, -1])
        found, short = tags(part)
        self._notice(part.sizes, short)
        self._rows.append(self._layout.pack_rows(self.count, offsets, found, columns, part.states))
        self._statistics.add(part)
        self._write(frames, int(of_samples.sum()))
        self.count += len(part)

    def _notice(self, sizes: npt.NDArray[np.int64], short: npt.NDArray[np.bool_]) -> None:
        """Keep in mind what the table tells of the frames; those that are not there count as short."""
        if len(sizes):
            np.maximum(self._largest, sizes.max(axis=0), out=self._largest)
            self._all_short &= short.all(axis=0)

    def _with_apart(self, part: Encoded, ends: npt.NDArray[np.uint64]) -> tuple[list[bytes], npt.NDArray[np.uint8]]:
        """All frames, those that lie apart behind the others of their samples; and columns that tell where."""
        if not part.apart:
            return part.frames, part.columns
        frames: list[bytes] = []
        columns, done, width, end = part.columns.copy(), 0, self._layout.frames, 0
        for before, one in zip([None, *part.apart], part.apart, strict=False):
            if before is None or before.sample != one.sample:
                frames += part.frames[done : (one.sample + 1) * width]
                done, end = (one.sample + 1) * width, int(ends[one.sample])
            start = self._layout.column_slices[one.column].start
            told = pack_apart(end, len(one.frame))
            columns[one.sample, start : start + len(told)] = np.frombuffer(told, np.uint8)
            frames.append(one.frame)
            end += len(one.frame)
        return frames + part.frames[done:], columns

    def _write(self, frames: list[bytes], size: int) -> None:
        """Small frames in one piece, large ones without another copy."""
        for piece in [b"".join(frames)] if size < _LARGE * len(frames) else frames:
            self._file.write(piece)
        self._position += size

    def finish(self) -> ShardEnds:
        """Write the rest, sync, and put the shard in its place: when this returns it cannot be lost any more."""
        footer = json.dumps(
            {"fields": self._statistics.to_json(), **self._footer}, separators=(",", ":"), allow_nan=False
        ).encode()
        covered = self._all_short & (self._largest <= MAX_COVERED)
        largest = self._largest.tolist()
        table = ShardTable.of(self._layout, self._position, largest, covered.tolist(), self._plans)
        rows_offset = self._position + len(table.packed)
        checksums = bytearray()
        try:
            self._file.write(table.packed)
            first = 0
            for piece in self._rows.pieces(self._layout.row_size):
                rows = self._layout.rows(piece)
                packed = table.pack_rows(self._layout, rows, first)
                first += len(rows)
                # Of the rows' checksums: over data that end with their own a checksum would say nothing.
                checksums += np.frombuffer(packed, np.uint8).reshape(len(rows), -1)[:, -4:].tobytes()
                self._file.write(packed)
            crcs = _native.crc32c(footer), _native.crc32c(checksums)
            trailer = pack_trailer(rows_offset, self.count, table.row_size, len(footer), *crcs)
            size = rows_offset + self.count * table.row_size + len(footer) + len(trailer)
            ends = check_ends(str(self.path), self._header, trailer, size)
            self._file.write(footer)
            self._file.write(trailer)
        except BaseException as error:
            self.drop(error)
            raise
        self._open.close()
        log.info("%s is written: %d samples, %d bytes", self.path, self.count, ends.file_size)
        return ends

    def drop(self, reason: BaseException | None = None) -> None:
        """Remove what was written, unless it stays aside; nothing happens if it was finished or dropped before."""
        error = reason or _Dropped()
        self._open.__exit__(type(error), error, error.__traceback__)


# Returns the plans for shard n + 2, by what shard n in its place shows; given are n and the plans of the shard between.
AfterShard = Callable[[int, FixedSchema], FixedSchema]


class ShardSequence:
    """The shards of a store from number `shards` on, before which there are `committed` samples.

    `fixed` has the plans of the shard that is open. With `after_shard` (of `LaterPlans`) a shard can change those of
    the shard after the next one: by then it is in its place, so a job that was killed chooses the same.
    """

    def __init__(
        self, store: Path, fixed: FixedSchema, committed: int, shards: int, after_shard: AfterShard | None = None
    ) -> None:
        self.committed = committed  # samples that are on the disk permanently
        self.open: OpenShard | None = None
        self.next = shards  # the number of the next shard to begin
        self.fixed = fixed
        self._store = store
        self._after_shard = after_shard
        self._seen = {fixed.plan_names: fixed}  # all plans that samples were encoded by
        self._layout = RowLayout(fixed.schema)
        self._shard_bytes = fixed.manifest.shard_bytes
        self._committer = ThreadPoolExecutor(1, "cordwood-commit")
        self._committing: Future[None] | None = None
        self._choosing: Future[FixedSchema] | None = None

    def begin(self, resumed: ResumedShard | None = None) -> OpenShard:
        """Open the next shard; the one before it was committed."""
        if self._choosing is not None:
            self.use(self._choosing.result())
        if self._after_shard is not None and self.next:  # behind the commit in the same thread
            self._choosing = self._committer.submit(self._after_shard, self.next - 1, self.fixed)
        manifest, names = self.fixed.manifest, self.fixed.plan_names
        used = dict.fromkeys(name for name in (*manifest.plan_names, *names) if name is not None)
        footer = {"plans": list(used), "store": manifest.to_json()}
        wanted = self._layout, names, footer, self._shard_bytes
        self.open = OpenShard(self._store, self.next, *wanted, resumed)
        self.next += 1
        return self.open

    def add(self, encoded: Encoded, start: int) -> int:
        """Write samples from number `start` on until the open shard is full; return the number of the next sample."""
        shard, rest = self.open or self.begin(), encoded.part(start, len(encoded))
        if rest.plans != self.fixed.plan_names:
            rest = encode_again(rest, self._seen[rest.plans], self.fixed, threads=1)
        end = shard.room_for(rest.frame_bytes())
        shard.add(rest.part(0, end))
        return start + end

    def commit(self, ending: AbstractContextManager[None] | None = None) -> None:
        """Let a thread put the open shard in its place, within the context `ending`.

        Waits for the shard before it, so that shards are numbered without gaps, and raises what went wrong with it.
        """
        self._wait()
        shard, self.open = self.open, None
        assert shard is not None  # noqa: S101 - for the type checker
        self._committing = self._committer.submit(self._put_in_place, shard, ending or nullcontext())

    def use(self, fixed: FixedSchema) -> None:
        """Encode the shard that begins next by these plans."""
        self.fixed = self._seen.setdefault(fixed.plan_names, fixed)

    def finish(self) -> None:
        """Commit the shard that is open, however small, and wait until everything is on the disk."""
        if self.open is not None:
            self.commit()
        self._wait()

    def stop(self) -> None:
        """End the thread, and drop the shard that was not finished."""
        self._committer.shutdown()
        if self.open is not None:
            self.open.drop()
            self.open = None

    def _wait(self) -> None:
        if self._committing is not None:
            self._committing.result()

    def _put_in_place(self, shard: OpenShard, ending: AbstractContextManager[None]) -> None:
        with ending:
            ends = shard.finish()
            first, self.committed = self.committed, self.committed + ends.count
            shard_index.append(self._store, shard.number, shard_index.pack_record(shard.number, first, ends))
