"""What a shard's footer tells of each field, gathered while the shard is written."""

import math
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.codecs import DTYPES
from cordwood.errors import FormatError
from cordwood.store.format.rows import RowLayout, unpack_states
from cordwood.store.schema.schema import ABSENT, APART, NONE, PRESENT, Leaf, Schema
from cordwood.store.writing.encode import Encoded


class FieldStatistics:
    """One field of one shard."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.raw_bytes = 0
        self.stored_bytes = 0
        self.states = {PRESENT: 0, ABSENT: 0, NONE: 0}
        self.worst_error: float | None = 0.0 if leaf.store_as else None
        self._ranks: set[int] = set()
        self._least: list[int] | None = None
        self._most: list[int] | None = None

    def count_states(self, counts: dict[int, int]) -> None:
        """Samples in which the field has each state."""
        for state, count in counts.items():
            self.states[state] += count
        if self.leaf.column >= 0 and not self.leaf.is_column_array:
            itemsize = DTYPES[self.leaf.node.dtype].itemsize
            self.raw_bytes += itemsize * counts[PRESENT]
            self.stored_bytes += itemsize * sum(counts.values())

    def count_shapes(self, shapes: Counter[tuple[int, ...] | None]) -> None:
        """The shapes of arrays as they were given, and how many there are of each."""
        itemsize = DTYPES[self.leaf.node.dtype or "uint8"].itemsize
        for shape, count in shapes.items():
            if shape is None:
                continue
            self.raw_bytes += math.prod(shape) * itemsize * count
            self._ranks.add(len(shape))
            if len(self._ranks) > 1:
                self._least = self._most = None
            elif self._least is None or self._most is None:
                self._least, self._most = list(shape), list(shape)
            else:
                self._least = [min(pair) for pair in zip(self._least, shape, strict=True)]
                self._most = [max(pair) for pair in zip(self._most, shape, strict=True)]

    def to_json(self) -> dict[str, Any]:
        """As in the footer."""
        shapes = None if self._least is None else {"min": self._least, "max": self._most}
        return {
            "name": self.leaf.name,
            "raw_bytes": self.raw_bytes,
            "stored_bytes": self.stored_bytes,
            "present": self.states[PRESENT],
            "none": self.states[NONE],
            "absent": self.states[ABSENT],
            "ranks": [min(self._ranks), max(self._ranks)] if self._ranks else None,
            "shapes": shapes,
            "worst_error": self.worst_error,
        }

    def restore(self, found: dict[str, Any]) -> None:
        """Go on with what `to_json` told of this field."""
        self.raw_bytes, self.stored_bytes = int(found["raw_bytes"]), int(found["stored_bytes"])
        self.states = {PRESENT: int(found["present"]), ABSENT: int(found["absent"]), NONE: int(found["none"])}
        self.worst_error = None if found["worst_error"] is None else float(found["worst_error"])
        self._ranks = set() if found["ranks"] is None else {int(rank) for rank in found["ranks"]}
        if found["shapes"] is not None:
            self._least, self._most = ([int(side) for side in found["shapes"][end]] for end in ("min", "max"))


class ShardStatistics:
    """All fields of one shard."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.fields = [FieldStatistics(leaf) for leaf in schema.leaves]
        self._widths = [part.stop - part.start for part in RowLayout(schema).column_slices]
        self._lossy = [leaf.number for leaf in schema.frames if leaf.store_as]

    def add(self, part: Encoded) -> None:
        """Samples that were put into the shard."""
        counts = self._state_counts(part)
        for field in self.fields:
            state = field.leaf.state
            field.count_states({kind: int(counts[kind][state]) if state >= 0 else 0 for kind in counts})
            if state < 0:
                field.count_states({PRESENT: len(part), ABSENT: 0, NONE: 0})
        for leaf, stored in zip(self.schema.frames, part.sizes.sum(axis=0).tolist(), strict=True):
            field = self.fields[leaf.number]
            field.stored_bytes += stored
            field.count_shapes(Counter(part.shapes[leaf.frame :: len(self.schema.frames)]))
        for place, number in enumerate(self._lossy):
            met = float(part.errors[:, place].max())
            self.fields[number].worst_error = max(self.fields[number].worst_error or 0.0, met)
        for leaf in self.schema.column_arrays:
            self._add_arrays(leaf, part, int(counts[PRESENT][leaf.state]))

    def _add_arrays(self, leaf: Leaf, part: Encoded, present: int) -> None:
        """The arrays of a column, in it and apart."""
        apart = [one for one in part.apart if one.column == leaf.column]
        shapes: Counter[tuple[int, ...] | None] = Counter(one.shape for one in apart)
        if present > len(apart):
            shapes[leaf.node.shape] += present - len(apart)
        field = self.fields[leaf.number]
        field.stored_bytes += self._widths[leaf.column] * len(part) + sum(len(one.frame) for one in apart)
        field.count_shapes(shapes)

    def _state_counts(self, part: Encoded) -> dict[int, npt.NDArray[np.intp]]:
        """Of each state, in how many samples each place has it."""
        places = len(self.schema.places)
        states = unpack_states(part.states, places)
        counts = {kind: np.count_nonzero(states == kind, axis=0) for kind in (PRESENT, ABSENT, NONE, APART)}
        counts[PRESENT] += counts.pop(APART)
        return counts

    def to_json(self) -> list[dict[str, Any]]:
        """As in the footer."""
        return [field.to_json() for field in self.fields]

    def restore(self, found: Any) -> None:
        """Go on with what `to_json` told of the first samples of a shard; FormatError if it cannot have."""
        try:
            if [entry["name"] for entry in found] != [field.leaf.name for field in self.fields]:
                raise ValueError("they are of other fields")
            for field, entry in zip(self.fields, found, strict=True):
                field.restore(entry)
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"the statistics of an unfinished shard are not what they should be: {error}") from None
