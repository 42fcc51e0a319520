"""Stores made of the shards of others: shards are linked or copied, or written anew with frames byte for byte.

    new = NewStore(folder, manifest)
    new.take_plans(store, plan_files.found(store))
    new.take_shard(store / "shard-00000000.cws")
    new.finish()

Frames stay as they are, but for short frames of a shard whose plan is not the one that the new shard has for their
field: these are encoded again as full frames, which name what they need.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.codecs import NO_PLANS, SHORT_FRAMES, Array, Plan, decode, encode, raise_if_refused
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


class LeafFrames:
    """The frames of one leaf on their way to another shard; `plan` is the one that the table of theirs names."""

    def __init__(self, store: Path, plan: str | None, wanted: str | None) -> None:
        self._store = store
        self._name = plan
        self._stays_short = plan == wanted

    @cached_property
    def _plan(self) -> Plan | None:
        return None if self._name is None else plan_files.load(self._store, self._name)

    def take(self, frame: bytes) -> tuple[bytes, tuple[int, ...]]:
        """Return the frame as the new shard has it, and the shape of its array."""
        if frame[0] >= SHORT_FRAMES:
            return frame, _shape(frame, NO_PLANS)
        if self._plan is None:
            raise FormatError("a short frame in a shard that names no plan for its field")
        shape = _shape(frame, self._plan.handle)
        if self._stays_short:
            return frame, shape
        return encode(decode(frame, plans=self._plan), self._plan, dtype=self._plan.dtype), shape

    def array(self, frame: bytes) -> Array:
        """Return the array of a frame; FormatError where it needs a plan that the table does not name."""
        return decode(frame, plans=self._plan)


def _shape(frame: bytes, plans: Any) -> tuple[int, ...]:
    header: Any = _native.parse(frame, plans, 0)
    raise_if_refused(header, "frame")
    shape: tuple[int, ...] = header["shape"]
    return shape


def leaf_frames(store: Path, plans: Sequence[str | None], wanted: Sequence[str | None]) -> list[LeafFrames]:
    """Of each frame leaf of a shard, whose table names these plans; a shard of version 1 names none."""
    return [LeafFrames(store, *pair) for pair in zip(plans or [None] * len(wanted), wanted, strict=True)]


def copied(fd: int, layout: RowLayout, rows: Rows, leaves: Sequence[LeafFrames], errors: tuple[float, ...]) -> Encoded:
    """The samples of these sound rows of the shard at `fd`; `errors` is the worst one of each lossy field."""
    frames: list[bytes] = []
    shapes: list[tuple[int, ...] | None] = []
    offsets = rows["offsets"].astype(np.int64)
    sizes = np.diff(offsets, axis=1)
    if layout.frames:
        for places, of_frames in zip(offsets.tolist(), sizes.tolist(), strict=True):
            memory = bytes(read_at(fd, places[-1] - places[0], places[0]))
            for leaf, place, size in zip(leaves, places, of_frames, strict=False):
                frame, shape = b"", None
                if size:
                    frame, shape = leaf.take(memory[place - places[0] : place - places[0] + size])
                shapes.append(shape)
                frames.append(frame)
        sizes = np.fromiter(map(len, frames), np.int64, len(frames)).reshape(sizes.shape)
    columns, apart = rows["columns"].copy(), []
    for column, numbers, begins, frame_sizes in layout.apart(rows):
        columns[numbers, layout.column_slices[column.column]] = 0
        for number, begin, size in zip(numbers.tolist(), begins.tolist(), frame_sizes.tolist(), strict=True):
            frame = bytes(read_at(fd, size, begin))
            apart.append(ApartFrame(number, column.column, _shape(frame, NO_PLANS), frame))
    of_samples = np.tile(np.array(errors, np.float64), (len(rows), 1))
    return Encoded(frames, sizes, shapes, columns, rows["states"].copy(), of_samples, sorted(apart))


@dataclass
class SourceShard:
    """A sound shard that samples are copied from; its frames may need `plans`."""

    rows: Rows
    plans: list[str]
    table_plans: tuple[str | None, ...]  # one per frame leaf; none in a shard of version 1
    _layout: RowLayout
    _leaves: Sequence[LeafFrames]
    _fd: int
    _errors: tuple[float, ...]  # the worst one of each lossy field

    def samples(self, start: int, end: int) -> Iterator[Encoded]:
        """The samples from number `start` up to `end`, some at a time."""
        if start < end:
            for some in pieces(self._layout, self.rows[start:end], np.ones(end - start, np.bool_)):
                yield copied(self._fd, self._layout, some, self._leaves, self._errors)

    def arrays(self, numbers: npt.NDArray[np.int64], leaf: int, most_bytes: int) -> list[Array]:
        """The arrays that these samples have in frames of a leaf, until they have so many bytes."""
        found: list[Array] = []
        for start, end in self.rows["offsets"][numbers, leaf : leaf + 2].astype(np.int64).tolist():
            if most_bytes <= 0:
                break
            if start < end:
                found.append(self._leaves[leaf].array(bytes(read_at(self._fd, end - start, start))))
                most_bytes -= found[-1].nbytes
        return found


@contextmanager
def opened_shard(path: Path, layout: RowLayout, wanted: Sequence[str | None]) -> Iterator[SourceShard]:
    """Open a shard to copy from it, to shards with the plans `wanted`; FormatError if a row of it is damaged."""
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
        plans += [name for name in table.plans if name is not None]
        leaves = leaf_frames(path.parent, table.plans, wanted)
        yield SourceShard(rows, list(dict.fromkeys(plans)), table.plans, layout, leaves, fd, errors)


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

    def opened_source(self, path: Path) -> AbstractContextManager[SourceShard]:
        """Open a shard of another store, to copy samples of it to shards that are begun here."""
        return opened_shard(path, self.layout, self._manifest.frame_plans)

    def leaf_frames(self, store: Path, plans: Sequence[str | None]) -> list[LeafFrames]:
        """Of each frame leaf of a shard of another store, whose table names these plans."""
        return leaf_frames(store, plans, self._manifest.frame_plans)

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
