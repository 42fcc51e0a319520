"""Measures what a packed store would save: packs some samples, and imitates training with and without it.

    trial = try_packed(loader, part, numbers, busy_ms=31.0, step_ms=52.0, seconds=12.0)
    trial.gain.saves_ms                      # of a batch and the work of a step
    trial.store_bytes                        # of the whole dataset

Both loaders feed the same stand-in for a training step, in turns. The store lies in a temporary folder and is gone
afterwards; the user's loader, dataset and generators are left as they are.
"""

import copy
import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import torch

from cordwood.common.seeding import seed_generators
from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.determinism import digest, random_numbers_kept
from cordwood.doctor.measure.pairs import Gain, gain_of
from cordwood.doctor.measure.stand_in_step import Consumer
from cordwood.doctor.trials.loader import Setting, as_in_the_run, index_batches, iteration_ms, setting_of, trial_loader
from cordwood.doctor.trials.pack_change import collates_as_usual
from cordwood.doctor.trials.pack_part import PackablePart
from cordwood.errors import CordwoodError
from cordwood.feed import Loader
from cordwood.packing import size_of
from cordwood.store import Writer, store_bytes
from cordwood.store import open as open_store

_PACK_SECONDS = 1.5
_PACK_SAMPLES = 512
_PACK_BYTES = 256 << 20
_TURN_MS = 600.0
_BATCHES = (6, 400)  # in a turn, at least and at most
_AHEAD = 2  # batches that a Loader prepares
_TURNS = (3, 7)  # at least and at most
_PATIENCE = 1.5


@dataclass(frozen=True)
class PackTrial:
    """What came of it; times are of one batch with the work of a step."""

    gain: Gain
    sample_ms: float  # one dataset[i]
    packed_ms: float  # the part of it that packing does once
    once_ms: float  # the same, and to encode and write it; a plan is chosen in it too, which long jobs hardly feel
    collate_ms: float  # a batch
    packed: int  # samples that were tried
    store_bytes: float  # of all samples
    batch_size: int

    @property
    def share(self) -> float:
        """Of the work of loading a batch, what is done once if it is packed."""
        whole = self.sample_ms * self.batch_size + self.collate_ms
        return min(1.0, self.packed_ms * self.batch_size / whole) if whole else 0.0


def try_packed(
    loader: Any,
    part: PackablePart,
    numbers: Sequence[int],
    *,
    busy_ms: float,
    step_ms: float,
    seconds: float,
    device: torch.device | str = "cpu",
) -> PackTrial:
    """Pack some samples, and measure both loaders. `busy_ms` and `step_ms` are of one batch in the user's run."""
    start = perf_counter()
    with random_numbers_kept(), tempfile.TemporaryDirectory(prefix="cordwood-doctor-") as folder:
        store = Path(folder) / "sample.cordwood"
        chosen = list(dict.fromkeys([*numbers, *_drawn(len(part.dataset), _PACK_SAMPLES)]))[:_PACK_SAMPLES]
        packed_ms, once_ms, count = _pack(part, chosen, store, at_least=len(numbers))
        sample_ms = packed_ms if part.rest is None else _time_of(part.whole.__getitem__, chosen[:count])
        samples = [part.whole[number] for number in numbers]
        collate_ms = _time_of(lambda _: loader.collate_fn(samples), range(8)) * loader.batch_size / len(samples)
        _check_batch(loader, part, store, numbers)
        # More turns than needed are taken while there is time; the needed ones may take half as long again.
        consumer = Consumer(busy_ms, device, end=start + seconds * _PATIENCE)
        gain = _measured(loader, part, store, consumer, step_ms, start + seconds)
        nbytes = store_bytes(store)
    return PackTrial(
        gain=gain,
        sample_ms=sample_ms,
        packed_ms=packed_ms,
        once_ms=once_ms,
        collate_ms=collate_ms,
        packed=count,
        store_bytes=nbytes / count * len(part.dataset),
        batch_size=loader.batch_size,
    )


# ---- packing ---------------------------------------------------------------------------------------------------------


def _drawn(length: int, count: int) -> list[int]:
    """Numbers from all over the dataset, the same every time."""
    return random.Random(0).sample(range(length), min(length, count))  # noqa: S311 - for measuring


def _pack(part: PackablePart, numbers: Sequence[int], store: Path, at_least: int) -> tuple[float, float, int]:
    """Milliseconds to make one sample, to make and store it, and how many were packed."""
    times: list[float] = []
    nbytes = 0
    begin = perf_counter()
    end = begin + _PACK_SECONDS
    try:
        with Writer(store) as writer:
            for number in numbers:
                start = perf_counter()
                sample = part.dataset[number]
                times.append((perf_counter() - start) * 1e3)
                writer.append(sample)
                nbytes += size_of(sample)
                if len(times) >= at_least and (perf_counter() > end or nbytes > _PACK_BYTES):
                    break
    except CordwoodError as error:
        raise Abstain(f"samples cannot be stored as they are: {error}") from error
    return sum(times) / len(times), (perf_counter() - begin) * 1e3 / len(times), len(times)


def _time_of(work: Callable[[int], Any], numbers: Iterable[int]) -> float:
    """Milliseconds of a call, half a second of them at most."""
    times: list[float] = []
    end = perf_counter() + 0.5
    for number in numbers:
        start = perf_counter()
        work(number)
        times.append((perf_counter() - start) * 1e3)
        if perf_counter() > end:
            break
    return sum(times) / len(times)


def packed_loader(
    loader: Any, part: PackablePart, store: Path, places: Sequence[int], batch_size: int | None = None
) -> Loader:
    """The Loader that would take the place of the user's, over these samples of a store."""
    return Loader(
        open_store(store),
        batch_size=batch_size or loader.batch_size,
        sampler=list(places),
        sample_transform=part.rest,
        collate=None if collates_as_usual(loader) else loader.collate_fn,
    )


def _check_batch(loader: Any, part: PackablePart, store: Path, numbers: Sequence[int]) -> None:
    """A batch from the store must be what the user's own loader makes of the same samples."""
    try:
        ours = next(iter(packed_loader(loader, part, store, range(len(numbers)), len(numbers))))
        theirs = []
        for seed in (1, 2):
            seed_generators(seed)
            theirs.append(loader.collate_fn([part.whole[number] for number in numbers]))
    except Exception as error:  # whatever a collate function raises for samples that it does not expect
        raise Abstain(f"no batch could be made of packed samples: {type(error).__name__}: {error}") from error
    if digest(theirs[0]) == digest(theirs[1]):
        same = digest(ours, lists_as_tuples=True) == digest(theirs[0], lists_as_tuples=True)
    else:  # random steps, or a random collate function: the form must do
        same = _form(ours) == _form(theirs[0])
    if not same:
        raise Abstain("a batch of packed samples is not what the loader gives now, so nothing is advised")


def _form(batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return batch.dtype, batch.dim()
    if isinstance(batch, dict):
        return {key: _form(value) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        return [_form(value) for value in batch]
    return type(batch).__name__


# ---- measuring -------------------------------------------------------------------------------------------------------


def _measured(loader: Any, part: PackablePart, store: Path, consumer: Consumer, step_ms: float, end: float) -> Gain:
    """Milliseconds of a batch with the user's loader and with the packed one, in turns."""
    setting = setting_of(loader)
    ahead = max(loader.num_workers * (loader.prefetch_factor or 0), _AHEAD)
    count = int(min(max(_TURN_MS / max(step_ms, 0.01), _BATCHES[0]), _BATCHES[1]))
    # At the end there is nothing left to load, and cores are free: a turn is over before that.
    batches = 1 + ahead + count + ahead
    packed: Any = packed_loader(loader, part, store, _places(store, batches * loader.batch_size))

    def before(consumer: Consumer) -> float:
        anew = trial_loader(loader, index_batches(loader, batches), setting, dataset=part.whole)
        return iteration_ms(anew, consumer, 1 + ahead, count)

    if loader.num_workers:
        consumer = as_in_the_run(consumer, before, step_ms)
    turns: list[tuple[float, float]] = []
    longest = 0.0
    while len(turns) < _TURNS[0] or (len(turns) < _TURNS[1] and perf_counter() + longest < end):
        start = perf_counter()
        turns.append((before(consumer), iteration_ms(packed, consumer, 1 + ahead, count)))
        longest = max(longest, perf_counter() - start)
    return gain_of(np.array(turns))


def _places(store: Path, count: int) -> list[int]:
    return random.Random(1).choices(range(len(open_store(store))), k=count)  # noqa: S311 - for measuring


def same_in_worker(loader: Any, part: PackablePart, numbers: Sequence[int]) -> bool:
    """Whether a worker process gets the samples that this process gets: random numbers may depend on the worker."""
    if not loader.num_workers or part.rest is not None:
        return True
    own = copy.copy(loader)
    own.collate_fn = _as_they_are
    there = trial_loader(own, [[number] for number in numbers], Setting(1, 2), dataset=part.whole)
    found = [digest(sample) for batch in there for sample in batch]
    return found == [digest(part.whole[number]) for number in numbers]


def _as_they_are(samples: list[Any]) -> list[Any]:
    return samples
