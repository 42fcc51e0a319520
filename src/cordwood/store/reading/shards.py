"""The shards of one store, or of several with the same schema: finds the shard of a sample, and maps it on first use.

    shards = Shards(["train.cordwood"])
    len(shards), shards.where(7)

Opening reads ``store.json`` and the shard index, nothing else. A shard is mapped when one of its samples is first read,
or all shards are copied into memory by a background thread. Several stores are read as one only if their schemas and
the meaning of their labels agree; a length per store limits how many of its samples are read.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.common.files import opened
from cordwood.common.forks import ForkSafeLock
from cordwood.common.text import brief
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.native import _native
from cordwood.store.format import manifest, shard_index
from cordwood.store.format.rows import RowLayout, pack_states
from cordwood.store.format.shard_file import ShardEnds, read_ends_of, shard_name
from cordwood.store.format.shard_table import ShardTable
from cordwood.store.reading.plans import LoadedPlans
from cordwood.store.schema.schema import NONE, PRESENT, Leaf, Schema

_EMPTY = Schema.from_json({"kind": "dict", "keys": [], "items": []})


def common_schema(paths: Sequence[Path], found: Sequence[manifest.Manifest]) -> Schema:
    """The schema of all stores that have one."""
    there = [(path, one.schema) for path, one in zip(paths, found, strict=True) if one.schema is not None]
    for path, schema in there[1:]:
        if schema.hash != there[0][1].hash:
            raise UsageError(
                f"{there[0][0]} and {path} hold different samples, and cannot be read as one. The first has\n"
                f"{there[0][1]}\nthe other\n{schema}"
            )
    return there[0][1] if there else _EMPTY


def check_meanings(paths: Sequence[Path], found: Sequence[manifest.Manifest]) -> None:
    """Labels, and bytes that are images, must not mean one thing in one store and another in the next."""
    there = [(path, one.fields) for path, one in zip(paths, found, strict=True) if one.schema is not None]
    for path, fields in there[1:]:
        for first, other in zip(there[0][1], fields, strict=True):
            if first.classes != other.classes:
                raise UsageError(
                    f"field {first.name!r} has the classes {brief(first.classes)} in {there[0][0]}, but "
                    f"{brief(other.classes)} in {path}: their labels mean different things, and cannot be read as one"
                )
            if first.keep_encoded != other.keep_encoded:
                images, plain = (there[0][0], path) if first.keep_encoded else (path, there[0][0])
                raise UsageError(
                    f"field {first.name!r} holds encoded images in {images}, but plain bytes in {plain}: they cannot "
                    "be read as one"
                )


def index_of(path: Path, schema: Schema | None) -> shard_index.ShardIndex:
    """The shards of a store, of which its manifest must know."""
    index = shard_index.read(path)
    if schema is None and len(index.records):
        raise FormatError(
            f"{path / manifest.NAME}: it knows of no samples, but there are {len(index.records)} shards: the file is "
            "older than they are; restore it from a copy, or make a new store of the shards with "
            "`cordwood verify --salvage`"
        )
    return index


def length_of(path: Path, records: shard_index.Records, most: int | None) -> int:
    """The samples of a store, or the first so many of them."""
    samples = int(records["first"][-1] + records["count"][-1]) if len(records) else 0
    if most is None:
        return samples
    if most > samples:
        raise FormatError(f"{path}: {most} samples are expected, but {samples} are there: the store was cut short")
    return most


_MOST_MAPPED = 32768  # shards; the system allows a process about twice as many mappings
_PIECE = 16 << 20


class Shards:
    """Stores whose samples are alike, one after the other; `lengths` cuts each off after so many samples.

    `sparse` tells the system that more is read, in random order, than its cache holds: of a file it then brings what is
    asked for, and nothing around it.
    """

    def __init__(
        self,
        paths: Sequence[str | os.PathLike[str]],
        *,
        lengths: Sequence[int] | None = None,
        sparse: bool = False,
    ) -> None:
        self.is_sparse = sparse
        self.paths = tuple(Path(os.path.abspath(path)) for path in paths)  # noqa: PTH100 - links stay links
        self.manifests = tuple(manifest.read(path) for path in self.paths)
        self.schema = common_schema(self.paths, self.manifests)
        check_meanings(self.paths, self.manifests)
        self.layout = RowLayout(self.schema)
        self.indexes = tuple(index_of(path, one.schema) for path, one in zip(self.paths, self.manifests, strict=True))
        self.records = tuple(index.records for index in self.indexes)
        self.lengths = tuple(
            length_of(path, records, None if lengths is None else lengths[i])
            for i, (path, records) in enumerate(zip(self.paths, self.records, strict=True))
        )
        self._firsts = self._place_shards()
        self._shard_starts = np.cumsum([0, *map(len, self.records)])
        self.handle = self._new_handle()
        self._mapped = 0
        self._lock = ForkSafeLock()
        self._plans = LoadedPlans()

    def _place_shards(self) -> npt.NDArray[np.uint64]:
        """The number of every shard's first sample, and at last that of all samples."""
        firsts, start = [], 0
        for records, length in zip(self.records, self.lengths, strict=True):
            firsts.append(np.minimum(records["first"], length) + np.uint64(start))
            start += length
        return np.concatenate([*firsts, np.array([start], np.uint64)]).astype(np.uint64)

    def _new_handle(self) -> Any:
        usual = pack_states(bytes(NONE if place.node.kind == "none" else PRESENT for place in self.schema.places))
        return _native.store_new(self._firsts.tobytes(), self.layout.row_size, self.layout.frames, usual)

    def __len__(self) -> int:
        return int(self._firsts[-1])

    @property
    def fields(self) -> tuple[manifest.FieldEntry, ...]:
        """What is recorded of every leaf, by the first store that has samples."""
        return next((one.fields for one in self.manifests if one.schema is not None), ())

    # ---- where a sample is ---------------------------------------------------------------------------------------

    def shard_of(self, number: int) -> tuple[Path, int]:
        """The shard that a sample is in, and the sample's number there."""
        shard = int(np.searchsorted(self._firsts, number, "right")) - 1
        return self._shard_path(shard), number - int(self._firsts[shard])

    def _shard_path(self, shard: int) -> Path:
        store = int(np.searchsorted(self._shard_starts, shard, "right")) - 1
        return self.paths[store] / shard_name(shard - int(self._shard_starts[store]))

    def where(self, number: int, leaf: Leaf | None = None) -> str:
        """A sample, or a field of it, in the words of messages."""
        path, row = self.shard_of(number)
        field = f", field {leaf.name!r}" if leaf is not None else ""
        return f"{path}: sample {number} (row {row} of the shard){field}"

    def attach(self, found: Sequence[int]) -> None:
        """Map the shards that a native read asked for."""
        shards = list(dict.fromkeys(found))
        with self._lock:
            if self._mapped and self._mapped + len(shards) > _MOST_MAPPED:
                # The older handle goes when the last call that uses it returns; the next one tells all that it needs.
                self.handle, self._mapped = self._new_handle(), 0
                return
            for shard in shards:
                self._map(shard)
                self._mapped += 1

    def _about(self, shard: int) -> tuple[Path, Any, str]:
        """A shard's file, its record, and what is lost without it."""
        store = int(np.searchsorted(self._shard_starts, shard, "right")) - 1
        record = self.records[store][shard - int(self._shard_starts[store])]
        samples = f"samples {int(self._firsts[shard])} to {int(self._firsts[shard + 1]) - 1}"
        return self._shard_path(shard), record, f"{samples} cannot be read"

    def _map(self, shard: int) -> None:
        path, record, lost = self._about(shard)
        try:
            with opened(path, f"the shard, {lost}") as fd:
                ends, table = self._checked(fd, path, record)
                size, rows = ends.file_size, ends.rows_offset
                failed = _native.store_attach(self.handle, shard, fd, size, rows, table.packed, self.is_sparse)
        except FormatError as error:
            raise FormatError(f"{error}; {lost}", error.reason) from None
        except StorageError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            raise FormatError(f"{path}: the shard is not there, {lost}: restore the file from a copy") from None
        if failed:
            raise StorageError(failed, f"{os.strerror(failed)}: the shard cannot be mapped, {lost}", str(path))

    def _checked(self, fd: int, path: Path, record: Any) -> tuple[ShardEnds, ShardTable]:
        """The ends and the table of a shard that fits its record and the schema."""
        ends = read_ends_of(fd, str(path))
        shard_index.check_record(str(path), record, ends)
        if ends.schema_hash != self.schema.hash:
            raise FormatError(
                f"{path}: a shard of another schema ({ends.schema_hash:016x}) than this store's "
                f"({self.schema.hash:016x})"
            )
        return ends, ShardTable.read(fd, str(path), ends, self.layout)

    def _plan_places(self, number: int) -> tuple[Path, tuple[str, ...], Path]:
        """Where the plans of a sample's frames may be: the store, the names that it and the table state, the shard."""
        shard = int(np.searchsorted(self._firsts, number, "right")) - 1
        store = int(np.searchsorted(self._shard_starts, shard, "right")) - 1
        path, record, _ = self._about(shard)
        with opened(path, "the shard") as fd:
            _, table = self._checked(fd, path, record)
        names = dict.fromkeys(name for name in (*self.manifests[store].plan_names, *table.plans) if name is not None)
        return self.paths[store], tuple(names), path

    @property
    def plans(self) -> Any:
        """The plans loaded so far, for native calls."""
        return self._plans.handle

    def load_plans(self, used: Any, number: int) -> bool:
        """Load the plans of a sample's shard; whether there are others now than in `used`."""
        return self._plans.load(used, *self._plan_places(number))

    def explain_plans(self, number: int, where: str) -> None:
        """Raise what is wrong with the plans of a sample's shard, if anything is."""
        self._plans.explain(*self._plan_places(number), where)

    # ---- shards in memory ----------------------------------------------------------------------------------------

    def shards_of(self, numbers: npt.NDArray[np.int64] | range) -> npt.NDArray[np.int64]:
        """The shards that these samples are in."""
        if isinstance(numbers, range) and abs(numbers.step) == 1 and len(numbers):
            ends = np.array([min(numbers[0], numbers[-1]), max(numbers[0], numbers[-1])], np.uint64)
            low, high = np.searchsorted(self._firsts, ends, "right") - 1
            found = np.arange(low, high + 1)
        else:
            found = np.unique(np.searchsorted(self._firsts, np.asarray(numbers, np.uint64), "right") - 1)
        with_samples: npt.NDArray[np.int64] = found[self._firsts[found] < self._firsts[found + 1]].astype(np.int64)
        return with_samples

    def nbytes_of(self, shards: npt.NDArray[np.int64]) -> int:
        """The bytes of these shards' files, as their records tell."""
        sizes = np.concatenate([records["file_size"] for records in self.records]) if self.records else np.zeros(0)
        return int(sizes[shards].sum())

    def loading(self, shards: npt.NDArray[np.int64]) -> Iterator[None]:
        """Copy these shards into memory, piece by piece, and read from there when all are there.

        Whoever reads meanwhile reads the files. The shards' ends are checked as when they are mapped, the rest when it
        is read.
        """
        loaded = []
        for shard in map(int, shards):
            path, record, lost = self._about(shard)
            with opened(path, f"the shard, {lost}") as fd:
                ends, table = self._checked(fd, path, record)
                memory = np.empty(ends.file_size, np.uint8)
                for start in range(0, ends.file_size, _PIECE):
                    self._fill(fd, memory[start : start + _PIECE], start, path)
                    yield
            loaded.append((shard, memory, ends.rows_offset, table.packed))
        handle = self._new_handle()
        for attached in loaded:
            _native.store_attach_memory(handle, *attached)
        with self._lock:
            self.handle, self._mapped = handle, 0

    def _fill(self, fd: int, memory: npt.NDArray[np.uint8], start: int, path: Path) -> None:
        done = 0
        while done < len(memory):
            got = os.preadv(fd, [memory[done:]], start + done)
            if not got:
                raise FormatError(f"{path}: the file ends at byte {start + done}: it was cut short while it was read")
            done += got
