"""The first samples of a store: kept until there are enough of them to tell the schema and to choose plans.

look = Look(fields)
look.check(sample)            # UsageError if it can never be stored
look.take(sample)
look.full                     # 256 samples, or 16 MiB
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from cordwood.store.schema.field import Field
from cordwood.store.schema.node import ARRAYS, Node
from cordwood.store.schema.schema import Schema
from cordwood.store.writing.infer import infer, observe
from cordwood.store.writing.prepare import Prepared, Preparer

LOOK_SAMPLES = 256
LOOK_BYTES = 16 << 20


class Look:
    """Samples that wait for a schema."""

    def __init__(self, fields: Mapping[str, Field]) -> None:
        self.samples: list[Any] = []
        self.nbytes = 0
        self._fields = fields
        self._seen: Node | None = None  # the structure of the last sample
        self._alone: Preparer | None = None  # for samples of that structure
        self._classes = {name: len(field.classes) for name, field in fields.items() if field.classes is not None}
        self._pictures = frozenset(name for name, field in fields.items() if field.keep_encoded)
        self._varying = {name: field for name, field in fields.items() if field.varies}

    def full_with(self, samples: int, nbytes: int) -> bool:
        """Whether so many more samples, of so many bytes, would be enough."""
        return len(self.samples) + samples >= LOOK_SAMPLES or self.nbytes + nbytes >= LOOK_BYTES

    def check(self, sample: Any) -> int:
        """The bytes of a sample's arrays; UsageError if something in it cannot be stored, whatever comes after it."""
        seen = observe(sample, frozenset(self._varying))
        if self._alone is None or seen != self._seen:
            self._alone, self._seen = Preparer(self._schema_of(sample), self._classes, self._pictures), seen
        prepared = self._alone.prepare(sample)
        return sum(array.nbytes for array in prepared.arrays if array is not None)

    def _schema_of(self, sample: Any) -> Schema:
        alone = infer([sample], self._varying)
        # Fields that this sample lacks may come with another one, so only those that are there are asked for.
        asked = {
            leaf.name: self._fields[leaf.name]
            for leaf in alone.leaves
            if leaf.name in self._pictures
            or (leaf.node.kind in ARRAYS and leaf.name in self._fields and self._fields[leaf.name].store_as)
        }
        return infer([sample], {**self._varying, **asked}) if asked else alone

    def take(self, sample: Any, nbytes: int) -> None:
        """Keep a copy of a sample that was found good."""
        self.samples.append(snapshot(sample))
        self.nbytes += nbytes

    def prepare(self, more: list[Any]) -> "tuple[Preparer, list[Prepared]]":
        """The schema of what was kept and of more samples that complete it, and all of these in its terms."""
        samples = [*self.samples, *more]
        preparer = Preparer(infer(samples, self._fields), self._classes, self._pictures)
        return preparer, [preparer.prepare(sample) for sample in samples]


def snapshot(value: Any) -> Any:
    """A sample that stays as it is when the caller writes to its tensors and lists again."""
    if isinstance(value, torch.Tensor):
        plain = value.detach()
        # Torch warns that half complex numbers are new to it, but not of their bits.
        halves = plain.dtype == torch.complex32 and not plain.is_conj()
        return plain.view(torch.int32).clone().view(torch.complex32) if halves else plain.clone()
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, dict):
        return type(value)((key, snapshot(item)) for key, item in value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)._make(map(snapshot, value))  # type: ignore[attr-defined]
    if isinstance(value, list | tuple):
        return type(value)(map(snapshot, value))
    return value
