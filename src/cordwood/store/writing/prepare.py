"""A sample in the terms of its schema, ready to be copied to the encoder."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from cordwood.codecs.dtypes import Array
from cordwood.errors import FormatError, UsageError
from cordwood.images import probe
from cordwood.store.format.rows import RowLayout
from cordwood.store.schema.schema import Leaf, Schema
from cordwood.store.values.rounding import store_as
from cordwood.store.writing.flatten import Flat, Flattener


class Prepared(NamedTuple):
    """Arrays may still be the caller's memory. `errors`: the largest one of each leaf that is stored narrower."""

    arrays: Sequence[Array | None]
    columns: bytes
    states: bytes
    errors: tuple[float, ...]


class Preparer:
    """Makes samples fit a schema, or says why they do not."""

    def __init__(
        self, schema: Schema, classes: Mapping[str, int] | None = None, pictures: Collection[str] = ()
    ) -> None:
        """`classes` tells for fields of labels how many there are; `pictures` are the fields of encoded images."""
        self.schema = schema
        self._flatten = Flattener(schema)
        self._lossy = [leaf for leaf in schema.frames if leaf.store_as]
        self._labels = [(leaf, classes[leaf.name]) for leaf in schema.leaves if classes and leaf.name in classes]
        self._pictures = [leaf for leaf in schema.frames if leaf.name in pictures]
        self._layout = RowLayout(schema)

    def prepare(self, sample: Any) -> Prepared:
        """UsageError names the field, what was expected and what came."""
        flat = self._flatten(sample)
        for leaf, count in self._labels:
            self._check_label(leaf, count, flat)
        for leaf in self._pictures:
            _check_picture(leaf, flat)
        if not self._lossy:
            return Prepared(flat.arrays, flat.columns, flat.states, ())
        arrays = list(flat.arrays)
        errors = []
        for leaf in self._lossy:
            given, error = arrays[leaf.frame], 0.0
            if given is not None:
                arrays[leaf.frame], error = store_as(given, leaf)
            errors.append(error)
        return Prepared(arrays, flat.columns, flat.states, tuple(errors))

    def _check_label(self, leaf: Leaf, count: int, flat: Flat) -> None:
        if leaf.column >= 0:  # zero where there is none, which is a label
            dtype = self._layout.column_dtypes[leaf.column]
            found = np.frombuffer(flat.columns[self._layout.column_slices[leaf.column]], dtype)
        else:
            array = flat.arrays[leaf.frame]
            found = np.zeros(0) if array is None else array.reshape(-1)
        wrong = found[(found < 0) | (found >= count)]
        if len(wrong):
            raise UsageError(
                f"field {leaf.name!r}: the label {wrong[0]} came, but there are {count} classes, 0 to {count - 1}; a "
                "sample without a label holds None, or lacks the field"
            )


def _check_picture(leaf: Leaf, flat: Flat) -> None:
    """What is no image now would be found out when it is read, when nobody can help it."""
    array = flat.arrays[leaf.frame]
    try:
        if array is not None:
            probe(array.tobytes())
    except FormatError as error:
        raise UsageError(f"field {leaf.name!r} keeps encoded images, but what came is none: {error}") from None
