"""Stores made of the shards of others: shards are linked or copied, or written anew with frames byte for byte.

    new = NewStore(folder, manifest)
    new.take_plans(store, plan_files.found(store))
    new.take_shard(store / "shard-00000000.cws")
    new.finish()

Nothing is decoded or encoded.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.codecs import raise_if_refused
from cordwood.common.files import opened
from cordwood.errors import FormatError
from cordwood.native import _native
from cordwood.store.format import plan_files, shard_index
from cordwood.store.format.folder import sync_parent
from cordwood.store.format.manifest import Manifest
from cordwood.store.format.manifest import write as write_manifest
from cordwood.store.format.new_folder import copy_file, link_or_copy
from cordwood.store.format.row_search import read_at
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import ShardEnds, read_ends, read_footer, shard_name
from cordwood.store.format.shard_table import ShardTable
from cordwood.store.writing.encode import ApartFrame, Encoded
from cordwood.store.writing.open_shard import OpenShard

_AT_ONCE = 16 << 20  # bytes

Rows = npt.NDArray[np.void]


def pieces(layout: RowLayout, rows: Rows, chosen: npt.NDArray[np.bool_]) -> Iterator[Rows]:
    """The chosen ones of a shard's rows, about 16 MiB of frames at a time."""
    numbers = np.flatnonzero(chosen)
    sizes = (layout.ends(rows)[numbers] - rows["offsets"][numbers, 0]).astype(np.int64)
    parts = np.cumsum(sizes) // _AT_ONCE
    for some in np.split(numbers, np.flatnonzero(np.diff(parts)) + 1):
        yield rows[some]


def copied(fd: int, layout: RowLayout, rows: Rows, errors: tuple[float, ...]) -> Encoded:
    """The samples of these sound rows of the shard at `fd`; `errors` is the worst one of each lossy field."""
    frames: list[bytes] = []
    shapes: list[tuple[int, ...] | None] = []
    offsets = rows["offsets"].astype(np.int64)
    sizes = np.diff(offsets, axis=1)
    if layout.frames:
        for places, of_frames in zip(offsets.tolist(), sizes.tolist(), strict=True):
            memory = bytes(read_at(fd, places[-1] - places[0], places[0]))
            for place, size in zip(places, of_frames, strict=False):
                frame = memory[place - places[0] : place - places[0] + size]
                shapes.append(_shape(frame) if size else None)
                frames.append(frame)
    columns, apart = rows["columns"].copy(), []
    for leaf, numbers, begins, frame_sizes in layout.apart(rows):
        columns[numbers, layout.column_slices[leaf.column]] = 0
        for number, begin, size in zip(numbers.tolist(), begins.tolist(), frame_sizes.tolist(), strict=True):
            frame = bytes(read_at(fd, size, begin))
            apart.append(ApartFrame(number, leaf.column, _shape(frame), frame))
    of_samples = np.tile(np.array(errors, np.float64), (len(rows), 1))
    return Encoded(frames, sizes, shapes, columns, rows["states"].copy(), of_samples, sorted(apart))


def _shape(frame: bytes) -> tuple[int, ...]:
    header: Any = _native.parse(frame)
    raise_if_refused(header, "frame")
    shape: tuple[int, ...] = header["shape"]
    return shape


@dataclass
class SourceShard:
    """A sound shard that samples are copied from; its frames may need `plans`."""

    rows: Rows
    plans: list[str]
    _layout: RowLayout
    _fd: int
    _errors: tuple[float, ...]  # the worst one of each lossy field

    def samples(self, start: int, end: int) -> Iterator[Encoded]:
        """The samples from number `start` up to `end`, some at a time."""
        if start < end:
            for some in pieces(self._layout, self.rows[start:end], np.ones(end - start, np.bool_)):
                yield copied(self._fd, self._layout, some, self._errors)


@contextmanager
def opened_shard(path: Path, layout: RowLayout) -> Iterator[SourceShard]:
    """Open a shard to copy from it; FormatError if a row of it is damaged."""
    ends = read_ends(path)
    footer = read_footer(path, ends)
    worst = {entry.get("name"): entry.get("worst_error") for entry in footer["fields"] if isinstance(entry, dict)}
    errors = tuple(float(worst.get(leaf.name) or 0.0) for leaf in layout.schema.frames if leaf.store_as)
    names = footer.get("plans")
    plans = [name for name in names if plan_files.is_plan_name(name)] if isinstance(names, list) else []
    with opened(path, "the shard") as fd:
        table = ShardTable.read(fd, str(path), ends, layout)
        rows, good = table.read_rows(fd, ends.file_size, ends.rows_offset, ends.count, layout)
        good = good & layout.sound(rows, table.frames_end)
        if not good.all():
            raise FormatError(
                f"{path}: row {int(np.flatnonzero(~good)[0])} is damaged: restore the shard from a copy, or keep what "
                "is good with `cordwood verify --salvage`"
            )
        yield SourceShard(rows, plans, layout, fd, errors)


class NewStore:
    """A store in a new folder, and what was put into it so far. If `link`, files are shared with other stores."""

    def __init__(self, folder: Path, manifest: Manifest, *, link: bool = True) -> None:
        assert manifest.schema is not None  # noqa: S101 - for the type checker: a store of shards has one
        self.layout = RowLayout(manifest.schema)
        self.shards = 0
        self.samples = 0
        self._folder = folder
        self._manifest = manifest
        self._link = link
        self._records = bytearray()
        write_manifest(folder, manifest)

    def take_plans(self, store: Path, names: Iterable[str]) -> None:
        """Take plans of another store."""
        for name in names:
            target = plan_files.plan_path(self._folder, name)
            if not target.exists():
                target.parent.mkdir(exist_ok=True)
                self._take(plan_files.plan_path(store, name), target, "the plan")

    def take_shard(self, path: Path) -> tuple[ShardEnds, bool]:
        """Take a whole shard; return its ends, and whether it is a link."""
        target = self._folder / shard_name(self.shards)
        linked = self._take(path, target, "the shard")
        return self._count(read_ends(target)), linked

    def _take(self, path: Path, target: Path, what: str) -> bool:
        if self._link:
            return link_or_copy(path, target, what)
        copy_file(path, target, what)
        return False

    def begin_shard(self, plans: Iterable[str] = (), growth: int = 1) -> OpenShard:
        """Open the next shard, of up to `growth` times the usual size; its frames may need these plans, too."""
        names = list(dict.fromkeys([*self._manifest.plan_names, *plans]))
        footer = {"plans": names, "store": self._manifest.to_json()}
        wanted = self._manifest.frame_plans, footer, self._manifest.shard_bytes * growth
        return OpenShard(self._folder, self.shards, self.layout, *wanted)

    def finish_shard(self, shard: OpenShard) -> None:
        """Put the shard that was begun in its place."""
        self._count(shard.finish())

    def _count(self, ends: ShardEnds) -> ShardEnds:
        self._records += shard_index.pack_record(self.shards, self.samples, ends)
        self.shards += 1
        self.samples += ends.count
        return ends

    def finish(self) -> None:
        """Write the index; everything is on the disk when this returns."""
        shard_index.mend(self._folder, shard_index.ShardIndex(np.frombuffer(self._records, shard_index.RECORD)))
        if (self._folder / plan_files.FOLDER).is_dir():
            sync_parent(self._folder / plan_files.FOLDER / "x")
        sync_parent(self._folder / shard_index.NAME)
