"""Batches made sample by sample in worker processes, for transforms that need Python's lock.

    for batch in process_batches(fetch, transform, Collation(), workers=4, plans=[(numbers, seeds), ...]):
        ...

The workers are those of torch's own ``DataLoader``: batches come back through shared memory, in order. The generators
of Python, NumPy and torch are set by every sample's own seed before its turn, so what a transform draws from them
depends on nothing else: not on the number of workers, and not on where an epoch was resumed.
"""

import pickle
import random
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader

from cordwood.errors import FeedError, FormatError, UsageError
from cordwood.feed.collate import Collation, Remark
from cordwood.feed.samplework import Fetch, SampleTransform, collated
from cordwood.store.choice import Numbers
from cordwood.store.treatment import Seeds

Plan = tuple[Numbers, Seeds]


def process_batches(
    fetch: Fetch,
    transform: Callable[..., Any] | None,
    collation: Collation,
    workers: int,
    plans: Iterable[Plan],
    ahead: int = 2,
    context: str | None = None,
    mend: Callable[[Numbers, Seeds], Any] | None = None,
) -> Generator[Any, None, None]:
    """The batches of these plans, made by `workers` processes that are `ahead` batches ahead each.

    Closing the generator ends the processes. `fetch`, `transform` and the collation must survive pickling where
    processes are not forked; `context` is the way they are started (default: the system's). `mend` makes, in this
    process, what takes the place of a batch that a worker could not make for damaged samples.
    """
    if workers < 1:
        raise UsageError(f"sample_workers is {workers}, but at least one process must do the work: 0 uses threads")
    loader: DataLoader[Any] = DataLoader(
        _Samples(fetch, transform),  # type: ignore[arg-type] # all that it is asked for is `__getitems__`
        batch_sampler=(given := _Plans(plans)),  # type: ignore[arg-type] # what it yields goes to `__getitems__` as it is
        num_workers=workers,
        collate_fn=_Collator(collation),
        prefetch_factor=ahead,
        multiprocessing_context=context,
        generator=torch.Generator(),  # seeds of workers are not drawn from the caller's
    )
    try:
        arriving: Any = iter(loader)
    except (AttributeError, TypeError, pickle.PicklingError) as error:
        error.add_note(
            "worker processes that are not forked get sample_transform and collate by pickling: make them functions or "
            "classes of a module, or use sample_workers=0"
        )
        raise
    try:
        while True:
            try:
                made = next(arriving)
            except StopIteration:
                return
            except FormatError:
                if mend is None:
                    raise
                made = _Made(mend(*given.waiting[0]), [])
            except RuntimeError as error:
                if not str(error).startswith("DataLoader worker (pid"):
                    raise
                raise FeedError(
                    f"a worker process of sample_transform died: {error}; the system may have ended it for want of "
                    "memory (use fewer sample_workers or smaller batches), or native code crashed in it "
                    "(sample_workers=0 shows where)"
                ) from error
            given.waiting.popleft()
            collation.tell(made.remarks)
            yield made.batch
            del made  # its memory is the caller's now
    finally:
        # The errors that it raised refer to it, so it would not go by itself.
        arriving._shutdown_workers()


class _Made(NamedTuple):
    batch: Any
    remarks: list[Remark]


class _Plans:
    """What a DataLoader takes for a sampler of batches; `waiting` are the plans whose batches have not arrived."""

    def __init__(self, plans: Iterable[Plan]) -> None:
        self.waiting: deque[Plan] = deque()
        self._plans = plans

    def __iter__(self) -> Iterator[Plan]:
        for plan in self._plans:
            self.waiting.append(plan)
            yield plan


class _Samples:
    """What a DataLoader takes for a dataset: the samples of a plan, transformed."""

    def __init__(self, fetch: Fetch, transform: Callable[..., Any] | None) -> None:
        self._fetch = fetch
        self._transform = SampleTransform(transform)

    def __getitems__(self, plan: Plan) -> list[tuple[int, Any]]:
        numbers, seeds = plan
        found = []
        for sample, number, seed in zip(self._fetch(numbers, seeds), numbers.tolist(), seeds.tolist(), strict=True):
            seed_generators(seed)
            found.append((number, self._transform(sample, number, seed)))
        return found


class _Collator:
    """Puts samples together; what is to be told travels with the batch."""

    def __init__(self, collation: Collation) -> None:
        self._collation = collation

    def __call__(self, found: list[tuple[int, Any]]) -> _Made:
        return _Made(*collated(self._collation, [sample for _, sample in found], [number for number, _ in found]))


def seed_generators(seed: int) -> None:
    """Set this process's generators of Python, NumPy and torch's CPU by a sample's seed."""
    random.seed(seed)
    # All three are Mersenne Twisters: the last number keeps NumPy's from drawing what Python's draws.
    np.random.seed([seed & 0xFFFFFFFF, seed >> 32, 1])
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would also look for devices, for every sample
