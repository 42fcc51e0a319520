"""Makes batches out of a store: by native calls, or sample by sample for a function that works on samples.

    maker = BatchMaker(ds, treatments, collation)
    maker.batches(numbers, per=64, seeds=None, threads=2)

Damaged samples are left out where the caller asked for that, and told.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from cordwood.codecs import DTYPES
from cordwood.errors import CordwoodError, FeedError, FormatError
from cordwood.feed.batches.collate import PAD, Collation
from cordwood.feed.batches.padding import Fill, check_fill
from cordwood.feed.batches.sample_threads import ThreadBatches
from cordwood.store import ARRAYS, Allocate, Dataset, Leaf, Numbers, ReadOptions, Seeds, Treatment, known, new_tensor

log = logging.getLogger("cordwood.feed")


class Batch(NamedTuple):
    """A batch, and of how many samples it is; of none, if all were damaged and are left out."""

    values: Any
    samples: int


NOTHING = Batch(None, 0)


class Samples:
    """Samples of a dataset, as the options ask for them; a worker process gets it by pickling."""

    def __init__(
        self,
        dataset: Dataset,
        treatments: dict[int, Treatment],
        threads: int | None = None,
        bytes_read: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        self.dataset = dataset
        self.treatments = treatments
        self.threads = threads
        self._delivery = ReadOptions(treatments, threads=threads, bytes_read=bytes_read)

    def __call__(self, indices: Numbers, seeds: Seeds) -> list[Any]:
        """The samples of these numbers, each in memory of its own."""
        plan = self.dataset.read_plan
        return plan.assembler.samples(plan.numbers(indices), seeds=seeds, delivery=self._delivery)

    def __reduce__(self) -> Any:
        return Samples, (self.dataset, self.treatments, self.threads)


class BatchMaker:
    """Makes batches of a dataset, whose numbers are checked already.

    ``skip`` tells whether damaged samples are left out, ``skipped`` how many were.
    """

    def __init__(
        self,
        dataset: Dataset,
        treatments: dict[int, Treatment],
        collation: Collation,
        *,
        allocate: Allocate = new_tensor,
        skip: bool = False,
        by_samples: ThreadBatches | None = None,
        bytes_read: npt.NDArray[np.uint64] | None = None,
    ) -> None:
        self.is_sparse = dataset.reader.shards.is_sparse
        self.skip = skip
        self.skipped = 0
        self.bytes_read = np.zeros(1, np.uint64) if bytes_read is None else bytes_read
        self._plan = dataset.read_plan
        self._assembler = self._plan.assembler
        self._treatments = treatments
        self._collate = partial(collation.field, new=self._new)
        # A field that a whole batch lacks is a list of None: batches have one form, whatever chance brings together.
        self._always = tuple(leaf.name for leaf in self._assembler.leaves)
        self._fills = _fills(self._assembler.leaves, collation, treatments)
        self._allocate = allocate
        self._by_samples = by_samples
        self.is_alone = by_samples is not None  # batches gain nothing from being made together

    def _new(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Memory for what is put together here."""
        return self._allocate(shape, DTYPES[str(dtype).removeprefix("torch.")].numpy, dtype)[0]

    def stop(self) -> None:
        """What is under way is not wanted any more; from any thread."""
        if self._by_samples is not None:
            self._by_samples.stop()

    def close(self) -> None:
        """End what works for it."""
        if self._by_samples is not None:
            self._by_samples.close()

    def advise(self, indices: Numbers) -> int:
        """Tell the system which samples come soon; what is wrong with them is told when they are read."""
        with suppress(CordwoodError):
            return self._assembler.reader.advise(self._plan.numbers(indices), self._assembler.frames)
        return 0

    def batches(self, indices: Numbers, per: int, seeds: Seeds | None, threads: int) -> list["Batch"]:
        """Batches of `per` samples, in one native call if nothing speaks against it."""
        parts = [slice(start, start + per) for start in range(0, len(indices), per)]
        by_samples = self._by_samples
        if by_samples is not None:
            return [self._batch_of_samples(by_samples, indices[part], _part(seeds, part)) for part in parts]
        try:
            made = self._read(indices, per, seeds, threads)
        except FormatError:
            if not self.skip:
                raise
            return [self._careful(indices[part], _part(seeds, part), threads) for part in parts]
        return [Batch(one, len(indices[part])) for one, part in zip(made, parts, strict=True)]

    def _read(self, indices: Numbers, per: int, seeds: Seeds | None, threads: int) -> list[Any]:
        numbers = self._plan.numbers(indices)
        delivery = ReadOptions(self._treatments, self._allocate, threads, self.bytes_read, self._fills)
        return self._assembler.batches(
            numbers, per, seeds=seeds, delivery=delivery, collate=self._collate, always=self._always
        )

    def mended(self, indices: Numbers, seeds: Seeds) -> "Batch":
        """A batch of those samples that are not damaged, where a worker process found that some are."""
        if self._by_samples is None:
            return NOTHING
        return self._batch_of_samples(self._by_samples, indices, seeds)

    def _batch_of_samples(self, by_samples: ThreadBatches, indices: Numbers, seeds: Seeds | None) -> "Batch":
        told = np.zeros(len(indices), np.uint64) if seeds is None else seeds
        try:
            return Batch(by_samples.batch(indices, told), len(indices))
        except FormatError:
            if not self.skip:
                raise
        good = self._good(indices, 1)
        return Batch(by_samples.batch(indices[good], told[good]), int(good.sum())) if good.any() else NOTHING

    def _careful(self, indices: Numbers, seeds: Seeds | None, threads: int) -> "Batch":
        """A batch of the samples that can be read."""
        try:
            return Batch(self._read(indices, len(indices), seeds, threads)[0], len(indices))
        except FormatError:
            good = self._good(indices, threads)
        count = int(good.sum())
        if not count:
            return NOTHING
        return Batch(self._read(indices[good], count, None if seeds is None else seeds[good], threads)[0], count)

    def _good(self, indices: Numbers, threads: int) -> npt.NDArray[np.bool_]:
        """Which of these samples can be read; of the others the reason is logged."""
        good = np.ones(len(indices), np.bool_)
        delivery = ReadOptions(threads=threads)
        for position, index in enumerate(indices):
            number = self._plan.numbers(indices[position : position + 1])
            try:
                self._assembler.samples(number, delivery=delivery)
            except FormatError as error:
                good[position] = False
                self.skipped += 1
                log.warning("sample %d is left out: %s", index, error)
        return good


def _fills(leaves: Sequence[Leaf], collation: Collation, treatments: Mapping[int, Treatment]) -> dict[int, Fill]:
    """What fields are padded with that can be decoded straight into their padded rows."""
    found = {}
    for leaf in leaves:
        rule = collation.rules.get(leaf.name)
        if rule is None or rule.word != PAD or leaf.node.kind not in ARRAYS:
            continue
        check_fill(rule.fill, known(leaf.node.dtype), leaf.name)
        treatment = treatments.get(leaf.frame)
        if leaf.frame >= 0 and leaf.store_as is None and (treatment is None or not treatment.named):
            found[leaf.frame] = rule.fill
    return found


def _part(seeds: Seeds | None, part: slice) -> Seeds | None:
    return None if seeds is None else seeds[part]


def nbytes_of(batch: Any) -> int:
    """The bytes of a batch's tensors."""
    if isinstance(batch, torch.Tensor):
        return batch.nbytes
    if isinstance(batch, dict):
        return sum(map(nbytes_of, batch.values()))
    if isinstance(batch, list | tuple):
        return sum(map(nbytes_of, batch))
    return 0


def nothing_left(rank_count: int) -> FeedError:
    """Where a batch has no good sample, and other ranks wait for it."""
    return FeedError(
        f"every sample of a batch is damaged, and {rank_count} ranks would not have the same number of batches without "
        "it: make a store of what is good with `cordwood verify STORE --salvage OUT`"
    )
