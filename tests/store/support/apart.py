"""Samples taken apart and put together again without a store: through rows and arrays, in memory.

schema, again = put_together(samples, fields)
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.store.format.rows import RowLayout
from cordwood.store.reading.rebuild import Rebuilder, restore
from cordwood.store.schema.field import Field
from cordwood.store.schema.schema import Schema
from cordwood.store.values.rounding import store_as
from cordwood.store.writing.flatten import Flat, flatten
from cordwood.store.writing.infer import infer

START = 32  # where frames of a shard begin


def bytes_of(rows: Sequence[bytes]) -> npt.NDArray[np.uint8]:
    """Rows of as many bytes as an array."""
    return np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), -1)


def rows_of(schema: Schema, flats: Sequence[Flat], first: int = 0) -> bytes:
    """The rows of samples whose frames are as long as their arrays, and a byte."""
    sizes = [[0 if array is None else array.nbytes + 1 for array in flat.arrays] for flat in flats]
    ends = START + np.cumsum(np.array(sizes, np.uint64).reshape(-1)).reshape(len(flats), -1)
    starts = np.full(len(flats), START, np.uint64)
    if ends.size:
        starts[1:] = ends[:-1, -1]
    offsets = np.concatenate([starts[:, None], ends], axis=1).astype(np.uint64)
    tags = np.array([[array is not None for array in flat.arrays] for flat in flats], np.uint32)
    shaped = tags.reshape(len(flats), len(schema.frames))
    columns, states = bytes_of([flat.columns for flat in flats]), bytes_of([flat.states for flat in flats])
    return RowLayout(schema).pack_rows(first, offsets, shaped, columns, states)


def put_together(
    samples: Iterable[Any],
    fields: Mapping[str, Field] | None = None,
    names: tuple[str, ...] | None = None,
    types: Sequence[type] = (),
) -> tuple[Schema, list[Any]]:
    """The schema of the samples, and what comes back of each."""
    taken = list(samples)
    schema = infer(taken, fields)
    schema = Schema.from_json(schema.to_json(), [leaf.store_as for leaf in schema.leaves])
    layout, rebuilder = RowLayout(schema), Rebuilder(schema, names, types)
    flats = [flatten(schema, sample) for sample in taken]
    rows = layout.rows(rows_of(schema, flats))
    assert layout.intact(rows, 0).all()
    assert layout.sound(rows, 1 << 60).all()
    again = []
    for row, states, flat in zip(rows, layout.states(rows).tolist(), flats, strict=True):
        values: list[Any] = []
        for number in rebuilder.leaves:
            leaf = schema.leaves[number]
            if leaf.column >= 0:
                values.append(restore(leaf, row["columns"].tobytes()[layout.column_slices[leaf.column]], types))
            else:
                array = flat.arrays[leaf.frame]
                values.append(None if array is None else restore(leaf, store_as(array, leaf)[0].copy(), types))
        again.append(rebuilder.build(values, states))
    return schema, again
