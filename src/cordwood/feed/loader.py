"""``cw.Loader``: batches of a store, shuffled, divided among ranks, resumable."""

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np
import torch

from cordwood.common.arguments import callable_or_none, checks_keywords, one_of, true_or_false, whole_number
from cordwood.common.forks import ForkSafeLock
from cordwood.errors import UsageError
from cordwood.feed.ahead import shard_memory
from cordwood.feed.ahead.background import Background
from cordwood.feed.ahead.pace import ReadAhead
from cordwood.feed.arguments import count, store_of
from cordwood.feed.augment.random_check import warn_if_random
from cordwood.feed.augment.treatments import check_first, treatments_of
from cordwood.feed.batches.collate import Collate, Collation
from cordwood.feed.batches.epoch import Epoch
from cordwood.feed.batches.maker import BatchMaker, Samples
from cordwood.feed.batches.sample_processes import process_batches
from cordwood.feed.batches.sample_threads import ThreadBatches
from cordwood.feed.device.host_memory import allocator
from cordwood.feed.device.mover import Mover
from cordwood.feed.device.streams import device_of
from cordwood.feed.iterator import Iteration, IterationProgress, LoaderIterator
from cordwood.feed.order.fingerprints import fingerprint_of
from cordwood.feed.order.ranks import rank_and_world
from cordwood.feed.order.samplers import order_of
from cordwood.feed.order.steps import RankBatches
from cordwood.feed.state import LAST_EPOCH, OrderIdentity, OrderPosition, check_drawn, new_state, read_state
from cordwood.feed.stats import LoaderStats
from cordwood.store import Dataset, idle_bytes

log = logging.getLogger("cordwood.feed")

_AT_ONCE = 8192  # places of an order
_DATALOADER_KEYWORDS = {  # what its users look for here
    "batch_sampler": "takes batch_size and sampler",
    "collate_fn": "is collate here, a function or what to do with fields whose shapes differ",
    "generator": "is seed here, from which order and augmentation follow",
    "num_workers": "is not needed: native threads decode, and threads= bounds them; a Python function for every sample "
    "is sample_transform, with sample_workers= processes if it needs them",
    "persistent_workers": "is not needed: threads stay from epoch to epoch",
    "pin_memory": "is not needed: with device= memory is pinned where that helps",
    "prefetch_factor": "is called prefetch here",
    "worker_init_fn": "is not needed: there are no worker processes",
}


_MOST_WORKERS = 4096


class Loader:
    """Batches of a store.

    ::

        loader = cw.Loader(ds, batch_size=256, shuffle=True, normalize={"image": (mean, std)})
        for epoch in range(10):
            for batch in loader: ...

    Batches are what torch's ``default_collate`` makes of the samples. Native threads read and decode them, some
    batches ahead of the consumer, into memory that is used again when nothing refers to a batch any more: a batch that
    you keep is yours for good.

    The order of an epoch depends on ``seed`` and the number of the epoch alone. Each ``iter()`` starts the next epoch
    unless :meth:`set_epoch` was called. Ranks are found when an iteration starts (``rank`` and ``world_size``, else
    ``torch.distributed``, else the environment): together they see every sample once, in the same number of batches.
    :meth:`state_dict` is a few numbers, the same on all ranks, from which any number of ranks goes on.

    :param dataset: what ``cw.open`` gave; also ``select``, ``subset``, ``concat``, ``Subset``, ``random_split`` of it.
    :param batch_size: samples of a batch, on each rank.
    :param shuffle: another order in every epoch.
    :param seed: of the order and of everything that is drawn.
    :param drop_last: leave out the samples at the end that do not fill a batch on every rank; else they are shared out.
    :param pad: fill the last batches up with samples from the beginning of the epoch instead.
    :param device: where batches arrive. Memory is pinned, and copies run on a stream of their own.
    :param transform: called with every batch, after the copy to the device, in the consumer's thread.
    :param sample_transform: called with every sample, on threads; a parameter ``seed`` gets the sample's own seed.
    :param sample_workers: processes for ``sample_transform`` instead of threads.
    :param normalize: for fields of uint8 images: (mean, std). Gives ``x.float().div(255).sub(mean).div(std)``, bit for
        bit, while decoding. Without it uint8 arrives as uint8.
    :param augment: for fields of images: a list of :mod:`cordwood.augment`'s, drawn for every sample by (seed, epoch,
        sample).
    :param channels_last: images arrive in torch's channels_last memory format.
    :param collate: for fields whose shapes differ: ``"pad"``, ``("pad", value)`` or ``"list"``; or a function that
        makes a batch of a list of samples.
    :param sampler: numbers of samples; weights, as floats; or a sampler of ``torch.utils.data``.
    :param memory: ``"mmap"`` reads the files where they are, ``"ram"`` keeps them in memory, compressed as they are;
        ``"auto"`` does so if they are on a network and fit.
    :param threads: that decode; "auto" starts with all cores that the process may use, and lets those go that it
        does not need.
    :param prefetch: batches that are ready before they are asked for.
    :param rank: of this process, together with ``world_size``; found by itself where a distributed job runs.
    :param on_damage: ``"raise"``, or ``"skip"`` to leave damaged samples out; they are logged and counted.
    """

    @checks_keywords("cw.Loader", _DATALOADER_KEYWORDS)
    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        seed: int = 0,
        drop_last: bool = False,
        pad: bool = False,
        device: torch.device | str | None = None,
        transform: Callable[[Any], Any] | None = None,
        sample_transform: Callable[..., Any] | None = None,
        sample_workers: int = 0,
        normalize: Mapping[str, Any] | None = None,
        augment: Mapping[str, Any] | None = None,
        channels_last: bool = False,
        collate: Mapping[str, Collate] | Callable[[list[Any]], Any] | None = None,
        sampler: Any = None,
        memory: shard_memory.Memory = "auto",
        threads: int | Literal["auto"] = "auto",
        prefetch: int | Literal["auto"] = "auto",
        rank: int | None = None,
        world_size: int | None = None,
        on_damage: Literal["raise", "skip"] = "raise",
    ) -> None:
        self.dataset = dataset
        self.batch_size = whole_number("batch_size", batch_size, 1)
        self.drop_last = true_or_false("drop_last", drop_last)
        self.pad = true_or_false("pad", pad)
        self.device = device_of(device)
        self.batch_sampler = None  # frameworks ask for it where there is a sampler
        self._store = store_of(dataset)
        self._order = order_of(len(self._store), shuffle, seed, sampler)
        self._seed, self._shuffle = int(seed), shuffle
        self._rank, self._world_size = rank, world_size
        self._steps()  # refuses what cannot be before anything is begun
        self._transform = callable_or_none("transform", transform)
        self._sample_transform = callable_or_none("sample_transform", sample_transform)
        self._pace = ReadAhead(count("threads", threads, most=256), count("prefetch", prefetch, most=1 << 16))
        self._sample_workers = whole_number(
            "sample_workers", sample_workers, 0, _MOST_WORKERS, "a number of processes, 0 for threads"
        )
        self._memory: str = one_of("memory", memory, shard_memory.CHOICES)
        self._skip = one_of("on_damage", on_damage, ("raise", "skip")) == "skip"
        leaves = self._store.read_plan.assembler.leaves
        self._treatments = treatments_of(self._store, leaves, normalize, augment, channels_last)
        check_first(self._store, self._treatments)
        self._seeded = any(one.draw is not None for one in self._treatments.values()) or sample_transform is not None
        names = [leaf.name for leaf in leaves]
        transformed = sample_transform is not None
        self._collation = Collation(collate, names, self._store.read_plan.names, transformed, later=True)
        self._check_together()
        if transform is not None:
            warn_if_random(transform, stacklevel=3)  # behind the check of keywords
        self._lock = ForkSafeLock()
        self._next: OrderPosition | None = OrderPosition(0, 0, 0)
        self._progress: IterationProgress | None = None
        self._epoch: Epoch | None = None
        self._reading: Dataset | None = None
        self._copying: shard_memory.Copying | None = None
        self._identity: OrderIdentity | None = None

    def _check_together(self) -> None:
        if self._sample_workers and self._sample_transform is None and self._collation.function is None:
            raise UsageError("sample_workers are for sample_transform or a collate function, and neither was given")

    # ---- batches -----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of batches of an epoch on this rank, and so on every rank."""
        return self._steps().left(0)

    def __iter__(self) -> Iterator[Any]:
        return LoaderIterator(self._begin, self._transform, self._collation.tell_waiting)

    def _begin(self) -> Iteration:
        """The iteration that comes next, when its first batch is asked for."""
        steps = self._steps()
        with self._lock:
            place = self._start()
            if place.consumed and not steps.left(place.consumed):
                place = OrderPosition(place.epoch + 1, 0, 0)  # what is left is a tail that this many ranks drop
            order = self._order.epoch(place.epoch)
            check_drawn(place, order.fingerprint)
            dataset = self._readable()
            mover = None if self.device is None else Mover(self.device)  # "cuda" is the one that is current here
            epoch = Epoch(
                number=place.epoch,
                order=order,
                steps=steps,
                consumed=place.consumed,
                seed=self._seed,
                maker=self._maker(dataset),
                pace=self._pace,
                mover=mover,
                seeded=self._seeded,
            )
            progress = IterationProgress(place.epoch, place.consumed, order.length, order.fingerprint)
            source, name = self._source(epoch, dataset), f"cordwood-feed-{place.epoch}"
            background = Background(source, self._pace.depth, name, epoch.maker.stop)
            self._next, self._progress, self._epoch = None, progress, epoch
            log.debug(
                "epoch %d begins behind %d of %d samples: %d threads, %d batches ahead, %s",
                place.epoch,
                place.consumed,
                order.length,
                self._pace.threads,
                self._pace.depth,
                self._memory,
            )
        return Iteration(background, self._pace, mover, progress)

    def _source(self, epoch: Epoch, dataset: Dataset) -> Callable[[], Iterator[Any]]:
        if not self._sample_workers:
            return epoch.groups
        fetch = Samples(dataset, self._treatments, threads=1)  # what its processes read is not counted
        mend = epoch.maker.mended if self._skip else None
        workers = partial(
            process_batches, fetch, self._sample_transform, self._collation, self._sample_workers, mend=mend
        )
        return partial(epoch.groups_from, workers)

    def _maker(self, dataset: Dataset) -> BatchMaker:
        by_samples: ThreadBatches | None = None
        bytes_read = np.zeros(1, np.uint64)
        if self._sample_transform is not None or self._collation.function is not None:
            fetch = Samples(dataset, self._treatments, threads=self._pace.threads, bytes_read=bytes_read)
            by_samples = ThreadBatches(fetch, self._sample_transform, self._collation, self._pace.threads)
        return BatchMaker(
            dataset,
            self._treatments,
            self._collation,
            allocate=allocator(self.device),
            skip=self._skip,
            by_samples=by_samples,
            bytes_read=bytes_read,
        )

    def _readable(self) -> Dataset:
        """The dataset to read from: the caller's own, or one whose shards a thread brings into memory."""
        if self._reading is None:
            plan = self._store.read_plan
            shards = plan.reader.shards.shards_of(plan.selection)
            chosen = shard_memory.chosen(self._memory, plan.reader, shards)
            self._memory = chosen.memory
            self._reading = self._store
            if chosen != ("mmap", False):
                self._reading = Dataset(plan.reopen(sparse=chosen.is_sparse))
                if self._memory == "ram":
                    self._copying = shard_memory.Copying(self._reading.reader, shards)
        return self._reading

    def _steps(self) -> RankBatches:
        rank, world_size = rank_and_world(self._rank, self._world_size)
        return RankBatches(self._order.length, self.batch_size, rank, world_size, self.drop_last, self.pad)

    # ---- epochs and states -------------------------------------------------------------------------------------------

    def set_epoch(self, epoch: int) -> None:
        """The next ``iter()`` is of this epoch. A state that was loaded for this very epoch stays in force."""
        epoch = whole_number("epoch", epoch, 0, LAST_EPOCH - 1)
        with self._lock:
            if self._next is None or self._next.epoch != epoch:
                self._next = OrderPosition(epoch, 0, 0)

    @property
    def sampler(self) -> "SamplerShim":
        """What training frameworks look for: ``loader.sampler.set_epoch(n)``; iterating tells the next order."""
        return SamplerShim(self)

    def _numbers(self) -> Iterator[int]:
        with self._lock:
            order = self._order.epoch(self._start().epoch)
        for start in range(0, order.length, _AT_ONCE):
            yield from order.at(np.arange(start, min(start + _AT_ONCE, order.length))).tolist()

    def state_dict(self) -> dict[str, Any]:
        """Where the consumer is: a few numbers, for JSON or a checkpoint, the same on every rank.

        ::

            torch.save({"model": model.state_dict(), "loader": loader.state_dict()}, "checkpoint.pt")

        It counts batches that were received. After the last one of an epoch, it is the beginning of the next.
        """
        with self._lock:
            return new_state(self._identified(), self._place())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on, with the next ``iter()``, where the state was taken; a state of something else is refused."""
        place = read_state(state, self._identified())
        with self._lock:
            self._next = place

    def _start(self) -> OrderPosition:
        """Where the next iteration begins."""
        return self._next or OrderPosition(self._progress.epoch + 1 if self._progress else 0, 0, 0)

    def _place(self) -> OrderPosition:
        if self._next is not None:
            return self._next
        progress = self._progress
        if progress is None:
            return OrderPosition(0, 0, 0)
        if progress.consumed >= progress.length:
            return OrderPosition(progress.epoch + 1, 0, 0)
        return OrderPosition(progress.epoch, progress.consumed, progress.drawn)

    def _identified(self) -> OrderIdentity:
        if self._identity is None:
            self._identity = OrderIdentity(
                seed=self._seed,
                shuffle=self._shuffle,
                samples=self._order.length,
                store=fingerprint_of(self._store),
                sampler=self._order.fingerprint,
                drop_last=self.drop_last,
                pad=self.pad,
            )
        return self._identity

    # ---- what it does ------------------------------------------------------------------------------------------------

    def stats(self) -> LoaderStats:
        """Figures of the iteration that was begun last: what it chose, and whether the training waits for it."""
        progress, epoch = self._progress or IterationProgress(0, 0, 0, 0), self._epoch
        return LoaderStats(
            epoch=progress.epoch,
            batches=progress.batches,
            samples=progress.samples,
            samples_per_second=progress.counted / progress.seconds if progress.seconds > 0 else 0.0,
            seconds=progress.seconds,
            first=progress.first,
            waited=progress.waited,
            waits=progress.waits,
            decoding=epoch.decoding if epoch is not None else 0.0,
            bytes_read=int(epoch.maker.bytes_read[0]) if epoch is not None else 0,
            damaged=epoch.maker.skipped if epoch is not None else 0,
            threads=self._pace.threads,
            prefetch=self._pace.depth,
            memory=self._memory if self._copying is None else self._copying.told,
            pool_bytes=idle_bytes(),
        )

    def __repr__(self) -> str:
        rank, world_size = rank_and_world(self._rank, self._world_size)
        ranks = f", rank {rank} of {world_size}" if world_size > 1 else ""
        return (
            f"<Loader of {self._order.length:,} samples in {len(self):,} batches of {self.batch_size}"
            f"{', shuffled' if self._shuffle else ''}{ranks}>"
        )

    def _repr_html_(self) -> str:
        from cordwood.common.html import sentence, together

        parts = [sentence(repr(self).strip("<>"))]
        if self._progress is not None:
            parts.append(self.stats()._repr_html_())
        return together(parts)

    def __getstate__(self) -> dict[str, Any]:
        """Another process goes on from the same state, and begins threads of its own."""
        with self._lock:
            kept = dict(self.__dict__)
            kept.update(_next=self._place(), _progress=None, _epoch=None, _reading=None, _copying=None)
        return kept


class SamplerShim:
    """Stands where frameworks expect a sampler: knows how many samples an epoch has, and sets the next one."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def set_epoch(self, epoch: int) -> None:
        self._loader.set_epoch(epoch)

    def __len__(self) -> int:
        return self._loader._order.length

    def __iter__(self) -> Iterator[int]:
        """The numbers of the samples of the next epoch, in order, of all ranks."""
        return self._loader._numbers()
