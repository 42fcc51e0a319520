"""Batches cut into rows again, as views: the opposite of what a DataLoader's collate does.

>>> rows({"image": torch.zeros(2, 3), "path": ["a.jpg", "b.jpg"]})
[{"image": tensor([0., 0., 0.]), "path": "a.jpg"}, {"image": tensor([0., 0., 0.]), "path": "b.jpg"}]

Where all fields lie in columns, the columns of a whole batch, or of a list of samples, are made at once by
`BatchColumns`.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch

from cordwood.codecs import DTYPES
from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.store.format.rows import RowLayout
from cordwood.store.schema.schema import Leaf, Schema, SchemaNode
from cordwood.store.values.arrays import CARRIERS, Array, from_ndarray, from_tensor, known
from cordwood.store.writing.prepare import Preparer

_ARRAYS = (torch.Tensor, np.ndarray)
_CUT = (*_ARRAYS, dict, list, tuple)
_PYTHON: dict[str, type] = {"int": int, "float": float, "bool": bool, "complex": complex}
_MOST_AT_ONCE = 1 << 16  # rows
_FEWEST_AT_ONCE = 16  # samples: fewer are taken one by one in the same time


def rows(batch: Any) -> list[Any]:
    """The samples of a collated batch: a tensor, an array, or a dict or tuple of such with one value a row."""
    length = next(_lengths(batch), None)
    if length is None:
        length = next((len(part) for part in _parts(batch) if isinstance(part, list | tuple)), None)
    if length is None:
        raise UsageError(
            f"a {type(batch).__name__} without tensors or lists in it is no batch that could be cut into rows: store "
            "one sample with append, or pass a list of samples"
        )
    return _cut(batch, length, "", top=True)


def refuse_collated(samples: Sequence[Any]) -> None:
    """A list means samples; one that collate made of tuples, ``[images, labels]``, would be taken for two of them."""
    first = samples[0] if samples else None
    if not isinstance(first, _ARRAYS) or not first.ndim:
        return
    if not all(isinstance(item, (*_ARRAYS, list, tuple)) and _length(item) == len(first) for item in samples):
        return
    kinds = {(type(item), getattr(item, "dtype", None), getattr(item, "ndim", None)) for item in samples}
    if len(kinds) > 1:
        raise UsageError(
            f"a list is taken for samples, but the {len(samples)} items of this one look like the columns of a batch "
            f"of {len(first)}, as DataLoader makes them of tuples: pass tuple(batch) to store its rows, or append them "
            "if they are samples"
        )


def _length(part: Any) -> int | None:
    """The first dimension of an array, the items of a list; None of a 0-d array."""
    return len(part) if not isinstance(part, _ARRAYS) or part.ndim else None


def _parts(batch: Any) -> Iterator[Any]:
    """What the batch is made of, containers of containers opened."""
    for part in batch.values() if isinstance(batch, dict) else batch if isinstance(batch, tuple) else ():
        yield part
        if isinstance(part, dict):
            yield from _parts(part)


def _lengths(batch: Any) -> Iterator[int]:
    """First dimensions of the arrays in a batch, in order."""
    if isinstance(batch, _ARRAYS):
        if not batch.ndim:
            raise UsageError("a batch of no dimension cannot be cut into rows: store one sample with append")
        yield len(batch)
    elif isinstance(batch, dict | tuple | list):
        for part in batch.values() if isinstance(batch, dict) else batch:
            if isinstance(part, _CUT) and not (isinstance(part, _ARRAYS) and not part.ndim):
                yield from _lengths(part)


def _cut(part: Any, length: int, name: str, *, top: bool = False) -> list[Any]:
    """A part of the batch as the parts of its rows."""
    if isinstance(part, _ARRAYS):
        if _length(part) != length:
            raise odd_part(name, f"has shape {tuple(part.shape)}", length)
        return list(part.unbind(0)) if isinstance(part, torch.Tensor) else list(part)
    if isinstance(part, dict):
        columns = [_cut(item, length, below(name, key)) for key, item in part.items()]
        kind = type(part)
        return [kind(zip(part, values, strict=True)) for values in transposed(columns, length)]
    if not isinstance(part, list | tuple):
        raise odd_part(name, f"is {brief(part)}", length)
    if not top and not _is_structure(part, length, name):
        return list(part)
    keys = getattr(part, "_fields", range(len(part)))
    columns = [_cut(item, length, below(name, key)) for key, item in zip(keys, part, strict=True)]
    made = transposed(columns, length)
    return [type(part)(*values) for values in made] if hasattr(part, "_fields") else [type(part)(v) for v in made]


def _is_structure(part: Sequence[Any], length: int, name: str) -> bool:
    """Whether a list or tuple is a part of every sample, cut item by item, or has one item a row."""
    if hasattr(part, "_fields"):
        return True
    each = bool(part) and all(isinstance(item, _CUT) and _cut_length(item) == length for item in part)
    if each and len(part) == length:
        raise UsageError(
            f"part {name!r} of the batch has {length} items of length {length} each: is there one a row, or has every "
            f"row {length} of them? Pass a list of samples"
        )
    if not each and len(part) != length:
        raise odd_part(name, f"has {len(part)} items", length)
    return each


def _cut_length(part: Any) -> int | None:
    return next(_lengths(part), None) if isinstance(part, dict) else _length(part)


def transposed(columns: list[list[Any]], length: int) -> list[Any]:
    """The values of each row, of those of each column."""
    return list(zip(*columns, strict=True)) if columns else [()] * length


def below(name: str, key: object) -> str:
    """The name of a part of a part."""
    return f"{name}.{key}" if name else str(key)


def odd_part(name: str, found: str, length: int, batch: str = "the batch") -> UsageError:
    """The error for a part of a batch that has not one value per row."""
    where = f"part {name!r} of {batch}" if name else batch
    return UsageError(f"{where} {found}, but other parts have {length} rows: every part has one value a row")


def split(batch: Any, at: int) -> tuple[Any, Any] | None:
    """The first `at` rows of a batch, and the others; None if it has other parts than arrays and lists."""
    if isinstance(batch, list) or (isinstance(batch, _ARRAYS) and batch.ndim):
        return batch[:at], batch[at:]
    if type(batch) not in (dict, tuple):
        return None
    parts = [split(part, at) for part in (batch.values() if isinstance(batch, dict) else batch)]
    heads, tails = ([part[half] for part in parts if part is not None] for half in (0, 1))
    if len(heads) < len(parts):
        return None
    if isinstance(batch, dict):
        return dict(zip(batch, heads, strict=True)), dict(zip(batch, tails, strict=True))
    return tuple(heads), tuple(tails)


class ColumnRows(NamedTuple):
    """Rows that have columns alone: their bytes, one row after the other."""

    columns: bytes
    states: bytes
    samples: int


class _Unusual(Exception):  # noqa: N818 - goes no further: rows and samples one by one tell what is wrong
    pass


class BatchColumns:
    """Makes the columns of a whole batch or list, where all are samples of this schema that have nothing else."""

    def __init__(self, preparer: Preparer) -> None:
        self._schema: Schema = preparer.schema
        self._labels = {leaf.number: count for leaf, count in preparer.labels}
        self._usual_states = preparer.usual_states
        self._layout = RowLayout(preparer.schema)
        always_none = any(place.node.kind == "none" for place in preparer.schema.places)
        self._is_usable = bool(preparer.schema.columns) and not preparer.schema.frames and not always_none

    def __call__(self, batch: Any) -> list[ColumnRows] | None:
        """The rows of a batch, some at a time; None if it must be cut into rows, which may be refused."""
        if not self._is_usable:
            return None
        try:
            return self._pieces(self._arrays(self._schema.place, batch))
        except (_Unusual, UsageError, OverflowError):
            return None

    def of_samples(self, samples: Sequence[Any]) -> list[ColumnRows] | None:
        """The rows of samples, some at a time; None if they must be taken one by one, and may be refused then.

        Every value is looked at, as one by one, but by a few calls for all samples.
        """
        if not self._is_usable or len(samples) < _FEWEST_AT_ONCE:
            return None
        try:
            return self._pieces(self._gathered(self._schema.place, samples))
        except (_Unusual, UsageError, OverflowError):
            return None

    def _pieces(self, arrays: list[Array]) -> list[ColumnRows] | None:
        count = len(arrays[0])
        if any(len(array) != count for array in arrays):
            return None
        return [
            self._rows([array[at : at + _MOST_AT_ONCE] for array in arrays]) for at in range(0, count, _MOST_AT_ONCE)
        ]

    def _rows(self, arrays: list[Array]) -> ColumnRows:
        count = len(arrays[0])
        columns = np.zeros((count, self._layout.columns_size), np.uint8)
        for array, part in zip(arrays, self._layout.column_slices, strict=True):
            flat = array.reshape(count, -1).view(np.uint8)
            columns[:, part.start : part.start + flat.shape[1]] = flat
        return ColumnRows(columns.tobytes(), self._usual_states * count, count)

    def _arrays(self, place: SchemaNode, part: Any) -> list[Array]:
        """The values of all leaves below a place, in order, with a row a sample."""
        node = place.node
        if node.kind not in ("dict", "tuple"):
            return [self._array(self._schema.leaves[place.leaves.start], part)]
        if type(part) is not (dict if node.kind == "dict" else tuple) or len(part) != len(node.items):
            raise _Unusual
        if node.kind == "tuple" and place.number >= 0:  # which may be meant to have one item a row
            raise _Unusual
        items: Any = part
        if node.kind == "dict":
            types = {key: type(key) for key in part}
            if any(types.get(key) is not type(key) for key in node.keys):
                raise _Unusual
            items = [items[key] for key in node.keys]
        children = (self._schema.places[number] for number in self._schema.children(place))
        return [array for child, item in zip(children, items, strict=True) for array in self._arrays(child, item)]

    def _gathered(self, place: SchemaNode, parts: Sequence[Any]) -> list[Array]:
        """As `_arrays`, of what all samples have at a place."""
        node = place.node
        if node.kind not in ("dict", "tuple"):
            leaf = self._schema.leaves[place.leaves.start]
            return [self._array(leaf, _joined(leaf, parts))]
        if set(map(type, parts)) != {dict if node.kind == "dict" else tuple}:
            raise _Unusual
        if set(map(len, parts)) != {len(node.items)}:
            raise _Unusual
        keys: Sequence[Any] = range(len(node.items))
        if node.kind == "dict":
            keys = node.keys
            if not set(map(type, chain.from_iterable(parts))) <= {str}:  # other keys can be equal, and of another type
                raise _Unusual
        found = []
        for number, key in zip(self._schema.children(place), keys, strict=True):
            try:
                items = list(map(itemgetter(key), parts))
            except KeyError:
                raise _Unusual from None
            found += self._gathered(self._schema.places[number], items)
        return found

    def _array(self, leaf: Leaf, part: Any) -> Array:
        node = leaf.node
        if "tensor" in (node.kind, node.type):
            if type(part) is not torch.Tensor or part.dtype is not known(node.dtype):
                raise _Unusual
            array = from_tensor(part, leaf.name)
        elif node.kind == "ndarray" or node.type == "numpy":
            if type(part) is not np.ndarray or part.dtype != DTYPES[node.dtype].numpy:
                raise _Unusual
            array = from_ndarray(part)
        elif type(part) is list and set(map(type, part)) == {_PYTHON.get(node.type)}:
            array = np.array(part, DTYPES[node.dtype].numpy)
        else:
            raise _Unusual
        if array.shape[1:] != (node.shape or ()) or not array.ndim or not len(array):
            raise _Unusual
        classes = self._labels.get(leaf.number)
        if classes is not None and (array.min() < 0 or array.max() >= classes):
            raise _Unusual
        return array


def _joined(leaf: Leaf, values: Sequence[Any]) -> Any:
    """The values of a leaf as a batch has them: an array with a row a sample, or a list."""
    node = leaf.node
    if "tensor" in (node.kind, node.type):
        dtype = known(node.dtype)
        if dtype in CARRIERS or not _all(values, torch.Tensor, dtype, node.shape):
            raise _Unusual
        try:
            with torch.no_grad():
                return torch.stack(tuple(values))
        except (RuntimeError, TypeError):  # of several devices or layouts
            raise _Unusual from None
    plain = DTYPES[node.dtype].numpy if node.kind == "ndarray" or node.type == "numpy" else None
    if node.kind == "ndarray":
        if not _all(values, np.ndarray, plain, node.shape):
            raise _Unusual
        return np.concatenate(values).reshape(len(values), *node.shape or ())
    if plain is not None:
        if set(map(type, values)) != {plain.type}:
            raise _Unusual
        return np.frombuffer(b"".join(values), plain)  # their bits: as numbers NaNs might be others
    return values if type(values) is list else list(values)


def _all(values: Sequence[Any], kind: type, dtype: Any, shape: tuple[int, ...] | None) -> bool:
    """Whether all values are arrays of this type, dtype and shape."""
    if set(map(type, values)) != {kind} or set(map(attrgetter("dtype"), values)) != {dtype}:
        return False
    return set(map(attrgetter("shape"), values)) == {shape or ()}
