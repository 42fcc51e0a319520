"""Reads values of some samples of a store: enough to describe its fields, few enough to be quick.

Arrays and texts are read of up to 256 evenly chosen samples, numbers of all samples up to a million, else of a thousand
evenly chosen runs of a thousand. What cannot be read is left out and reported.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.errors import CordwoodError
from cordwood.store.checking.survey import sentence
from cordwood.store.format.shard_file import read_ends, shard_name
from cordwood.store.inspecting.result import FieldRow, StoreInspection
from cordwood.store.inspecting.thumbnails import data_url, looks_like_image, picture_of
from cordwood.store.inspecting.value_statistics import Values, numbers_of
from cordwood.store.reading.reader import Arrays, Reader, Rows
from cordwood.store.reading.selection import Numbers
from cordwood.store.schema.node import ARRAYS
from cordwood.store.schema.schema import PRESENT, Leaf

_MOST_SAMPLES = 256  # whose arrays are looked at
_MOST_BYTES = 256_000_000  # of a field's arrays
_TOGETHER = 16_000_000
_MOST_ROWS = 1_000_000
_RUN = 1000  # rows that are read in a row
_ROWS_AT_ONCE = 1 << 16
_MOST_PICTURES = 8  # of a field
_MOST_DAMAGE = 20  # then no more is tried


class DamageNotes:
    """What could not be read, each thing told once; shards that are bad as a whole are not tried again."""

    def __init__(self, told: list[str]) -> None:
        self.told = told
        self._bad: list[range] = []  # the samples of bad shards
        self._samples = 0

    @property
    def has_enough(self) -> bool:
        """Whether so many samples are damaged that looking further is of no use."""
        return self._samples >= _MOST_DAMAGE

    def tell(self, path: Path, error: Exception) -> None:
        """Note what is wrong with a file, unless it is known."""
        what = f"{path.name}: {sentence(error, path)}"
        if what not in self.told:
            self.told.append(what)

    def shard(self, path: Path, samples: range, error: Exception) -> None:
        """Note that a whole shard cannot be read."""
        self._bad.append(samples)
        self.tell(path, error)

    def sample(self, reader: Reader, number: int, error: Exception) -> None:
        """Note that a sample cannot be read; it may be because of its shard."""
        path, samples = _shard_of(reader, number)
        try:
            read_ends(path)
        except CordwoodError as of_shard:
            self.shard(path, samples, of_shard)
        else:
            self._samples += 1
            self.tell(path, error)

    def without_bad(self, numbers: Numbers) -> Numbers:
        """The samples that are not in bad shards."""
        for samples in self._bad:
            numbers = numbers[(numbers < samples.start) | (numbers >= samples.stop)]
        return numbers


def _shard_of(reader: Reader, number: int) -> tuple[Path, range]:
    """The shard that a sample is in, and all samples of that shard."""
    start = 0
    for store, length in enumerate(reader.shards.lengths):
        if number < start + length:
            shard = int(np.searchsorted(reader.shards.records[store]["first"], np.uint64(number - start), "right")) - 1
            return shard_place(reader, store, shard)
        start += length
    raise IndexError(number)


def shard_place(reader: Reader, store: int, shard: int) -> tuple[Path, range]:
    """Where a shard is, and its samples, by the numbers that the reader gives them."""
    record = reader.shards.records[store][shard]
    first = sum(reader.shards.lengths[:store]) + int(record["first"])
    return reader.shards.paths[store] / shard_name(shard), range(first, first + int(record["count"]))


def look_at_columns(found: StoreInspection, reader: Reader, trouble: DamageNotes) -> None:
    """Fill in the values and classes of number fields."""
    columns = [leaf for leaf in reader.schema.columns if not leaf.is_column_array]
    if not columns or not len(reader):
        return
    for leaf in columns:
        found.fields[leaf.number].values = Values()
    for numbers in _row_numbers(len(reader)):
        for rows, _ in _readable(reader, numbers, [], trouble):
            states = reader.layout.states(rows)
            for leaf in columns:
                row = found.fields[leaf.number]
                row.values_of += len(rows)
                row.checked += len(rows)
                column = reader.layout.column(rows, leaf.column)
                if leaf.state >= 0:
                    column = column[states[:, leaf.state] == PRESENT]
                values = numbers_of(column, leaf.node.dtype)
                if values is not None and row.values is not None:
                    row.values.add(values)
                    _count_classes(row, values)
    for leaf in columns:
        row = found.fields[leaf.number]
        if row.values is not None and not row.values.count:
            row.values = None


def _row_numbers(samples: int) -> Iterator[Numbers]:
    if samples <= _MOST_ROWS:
        for start in range(0, samples, _ROWS_AT_ONCE):
            yield np.arange(start, min(start + _ROWS_AT_ONCE, samples), dtype=np.int64)
        return
    for start in np.linspace(0, samples - _RUN, _MOST_ROWS // _RUN).astype(np.int64).tolist():
        yield np.arange(start, start + _RUN, dtype=np.int64)


def look_at_arrays(found: StoreInspection, reader: Reader, trouble: DamageNotes) -> None:
    """Fill in the values, classes and pictures of array fields; texts and the like are only read."""
    captions = _Captions(found, reader)
    for leaf in (*reader.schema.frames, *reader.schema.column_arrays):
        row = found.fields[leaf.number]
        if not row.present or not len(reader):
            row.checked = min(row.none + row.absent, len(reader))  # there is nothing to read of these
            continue
        size = max(row.before // row.present, 1)
        count = min(len(reader), _MOST_SAMPLES, max(_MOST_BYTES // size, 1))
        numbers = np.unique(np.linspace(0, len(reader) - 1, count).astype(np.int64))
        _look_at_leaf(row, leaf, reader, numbers, max(_TOGETHER // size, 1), captions, trouble)


class _Captions:
    """What stands below a sample's picture: the name of its class, if the store tells of classes."""

    def __init__(self, found: StoreInspection, reader: Reader) -> None:
        self._layout = reader.layout
        numbers = (leaf for leaf in reader.schema.columns if not leaf.is_column_array)
        labels = (leaf for leaf in numbers if found.fields[leaf.number].classes)
        self._leaf = next(labels, None)
        classes = None if self._leaf is None else found.fields[self._leaf.number].classes
        self._names = [name for name, _ in classes or ()]

    def of(self, rows: Rows, place: int) -> str:
        leaf, rows = self._leaf, rows[place : place + 1]
        if leaf is None or (leaf.state >= 0 and self._layout.states(rows)[0, leaf.state] != PRESENT):
            return ""
        label = int(self._layout.column(rows, leaf.column)[0])
        return self._names[label] if 0 <= label < len(self._names) else ""


def _look_at_leaf(
    row: FieldRow,
    leaf: Leaf,
    reader: Reader,
    numbers: Numbers,
    together: int,
    captions: _Captions,
    trouble: DamageNotes,
) -> None:
    values = Values()
    shown = set(np.linspace(0, len(numbers) - 1, min(len(numbers), _MOST_PICTURES)).astype(np.int64).tolist())
    dtype = leaf.stored or leaf.node.dtype
    for start in range(0, len(numbers), together):
        for rows, (arrays,) in _readable(reader, numbers[start : start + together], [leaf], trouble):
            row.checked += len(rows)
            for at, array in enumerate(arrays if leaf.node.kind in ARRAYS else ()):
                place = row.values_of
                row.values_of += 1
                given = None if array is None else numbers_of(array, dtype)
                if given is None:
                    continue
                values.add(given)
                _count_classes(row, given)
                if place in shown and looks_like_image(given.shape, dtype):
                    picture = picture_of(given)
                    if picture is not None:
                        row.pictures.append(data_url(picture))
                        row.captions.append(captions.of(rows, at))
    row.values = values if values.count else None


def _readable(
    reader: Reader, numbers: Numbers, leaves: Sequence[Leaf], trouble: DamageNotes
) -> Iterator[tuple[Rows, list[Arrays]]]:
    """What can be read of these samples, in pieces; of the first damages it is told what they are."""
    numbers = trouble.without_bad(numbers)
    if trouble.has_enough or not len(numbers):
        return
    try:
        yield reader.fetch(numbers, leaves, together=False)
    except CordwoodError as error:
        if len(numbers) == 1:
            trouble.sample(reader, int(numbers[0]), error)
            return
        half = len(numbers) // 2
        yield from _readable(reader, numbers[:half], leaves, trouble)
        yield from _readable(reader, numbers[half:], leaves, trouble)


def _count_classes(row: FieldRow, values: npt.NDArray[Any]) -> None:
    if row.classes is None or values.dtype.kind not in "iu":
        return
    labels = values[(values >= 0) & (values < len(row.classes))]
    counts = np.bincount(labels.ravel().astype(np.int64), minlength=len(row.classes)).tolist()
    row.classes = [(name, before + more) for (name, before), more in zip(row.classes, counts, strict=True)]
