"""A sample in the terms of its schema, ready to be copied to the encoder."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from cordwood.codecs.dtypes import Array
from cordwood.store.flatten import Flattener
from cordwood.store.rounding import store_as
from cordwood.store.schema import Schema


class Prepared(NamedTuple):
    """Arrays may still be the caller's memory. `errors`: the largest one of each leaf that is stored narrower."""

    arrays: Sequence[Array | None]
    columns: bytes
    states: bytes
    errors: tuple[float, ...]


class Preparer:
    """Makes samples fit a schema, or says why they do not."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._flatten = Flattener(schema)
        self._lossy = [leaf for leaf in schema.frames if leaf.store_as]

    def prepare(self, sample: Any) -> Prepared:
        """UsageError names the field, what was expected and what came."""
        flat = self._flatten(sample)
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
