"""A sample in the terms of its schema, ready to be copied to the encoder."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cordwood.codecs import Array
from cordwood.errors import FormatError, UsageError
from cordwood.images import probe
from cordwood.store.format.manifest import FieldEntry
from cordwood.store.format.rows import RowLayout
from cordwood.store.schema.field import Field
from cordwood.store.schema.schema import Leaf, Schema
from cordwood.store.values.rounding import store_as
from cordwood.store.writing.flatten import Apart, Flat, Flattener


class Prepared(NamedTuple):
    """Arrays may still be the caller's memory. `errors`: the largest one of each leaf that is stored narrower."""

    arrays: Sequence[Array | None]
    columns: bytes
    states: bytes
    errors: tuple[float, ...]
    apart: Apart = ()

    @property
    def nbytes(self) -> int:
        """Bytes of the sample's values."""
        apart = sum(array.nbytes for _, array in self.apart)
        return sum(array.nbytes for array in self.arrays if array is not None) + len(self.columns) + apart


class Preparer:
    """Makes samples fit a schema, or says why they do not.

    `fields` says which fields hold labels, whose number is checked, and which hold encoded images; `optional` names
    the places that a sample may lack (None: all).
    """

    def __init__(
        self,
        schema: Schema,
        fields: Mapping[str, Field | FieldEntry] = MappingProxyType({}),
        optional: Sequence[str] | None = None,
    ) -> None:
        self.schema = schema
        self.fields = fields
        self.optional = optional
        self._flatten = Flattener(schema, None if optional is None else frozenset(optional))
        self._lossy = [leaf for leaf in schema.frames if leaf.store_as]
        asked = [(leaf, fields[leaf.name]) for leaf in schema.leaves if leaf.name in fields]
        self.labels = [(leaf, len(field.classes)) for leaf, field in asked if field.classes is not None]
        self._encoded_images = [leaf for leaf, field in asked if field.keep_encoded and leaf.frame >= 0]
        self._layout = RowLayout(schema)

    @property
    def usual_states(self) -> bytes:
        """The states of a sample that has everything."""
        return self._flatten.all_present

    def prepare(self, sample: Any) -> Prepared:
        """UsageError names the field, what was expected and what came."""
        flat = self._flatten(sample)
        for leaf, count in self.labels:
            self._check_label(leaf, count, flat)
        for leaf in self._encoded_images:
            _check_encoded_image(leaf, flat)
        if not self._lossy:
            return Prepared(flat.arrays, flat.columns, flat.states, (), flat.apart)
        arrays = list(flat.arrays)
        errors = []
        for leaf in self._lossy:
            given, error = arrays[leaf.frame], 0.0
            if given is not None:
                arrays[leaf.frame], error = store_as(given, leaf)
            errors.append(error)
        return Prepared(arrays, flat.columns, flat.states, tuple(errors), flat.apart)

    def _check_label(self, leaf: Leaf, count: int, flat: Flat) -> None:
        if leaf.column >= 0:  # zero where there is none, which is a label
            dtype = self._layout.column_dtypes[leaf.column]
            start = self._layout.column_slices[leaf.column].start
            apart = (array.reshape(-1) for column, array in flat.apart if column == leaf.column)
            found = next(apart, np.frombuffer(flat.columns[start : start + dtype.itemsize], dtype.base))
        else:
            array = flat.arrays[leaf.frame]
            found = np.zeros(0) if array is None else array.reshape(-1)
        wrong = found[(found < 0) | (found >= count)]
        if len(wrong):
            raise UsageError(
                f"field {leaf.name!r}: the label {wrong[0]} came, but there are {count} classes, 0 to {count - 1}; a "
                "sample without a label holds None, or lacks the field (cw.Field(optional=True))"
            )


def _check_encoded_image(leaf: Leaf, flat: Flat) -> None:
    """Bytes that are not an image would be found when they are read, which is too late."""
    array = flat.arrays[leaf.frame]
    try:
        if array is not None:
            probe(array.tobytes())
    except FormatError as error:
        raise UsageError(f"field {leaf.name!r} keeps encoded images, but what came is none: {error}") from None
