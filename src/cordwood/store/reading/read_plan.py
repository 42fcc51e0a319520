"""What a dataset reads: which samples, which of their fields, and the named tuples to build.

    plan = ReadPlan(Reader(["train.cordwood"]), names=("image", "label"))
    plan.assembler.batch(plan.numbers([0, -1]))

A dataset has one, and so have the parts of Cordwood that read batches on its behalf.
"""

from collections.abc import Sequence
from typing import Any

from cordwood.store.reading.assemble import Assembler
from cordwood.store.reading.reader import Reader
from cordwood.store.reading.selection import Choice, Numbers, numbers_of


class ReadPlan:
    """The samples `selection` of a reader (None: all), and of each the fields `names` (None: all)."""

    def __init__(
        self,
        reader: Reader,
        selection: Choice | None = None,
        names: tuple[str, ...] | None = None,
        types: Sequence[type] = (),
    ) -> None:
        self.reader = reader
        self.selection = range(len(reader)) if selection is None else selection
        self.names = names
        self.types = tuple(types)
        self.assembler = Assembler(reader, names, self.types)

    def __len__(self) -> int:
        return len(self.selection)

    @property
    def field_names(self) -> tuple[str, ...]:
        """The fields that are read, in order."""
        return self.reader.schema.names if self.names is None else self.names

    def numbers(self, indices: Any) -> Numbers:
        """The numbers in the store of the samples at these positions of the selection."""
        return numbers_of(self.selection, indices)

    def select(self, selection: Choice) -> "ReadPlan":
        """The same fields of other samples."""
        return ReadPlan(self.reader, selection, self.names, self.types)

    def reopen(self, *, sparse: bool) -> "ReadPlan":
        """The same samples by a reader of its own."""
        shards = self.reader.shards
        own = Reader(shards.paths, threads=self.reader.threads, lengths=shards.lengths, sparse=sparse)
        return ReadPlan(own, self.selection, self.names, self.types)
