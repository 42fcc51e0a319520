"""The order of an epoch: all samples, given indices, weighted draws, or the draws of a torch sampler.

    order = order_of(len(ds), shuffle=True, seed=0, sampler=None)
    order.epoch(3).at(np.arange(64))           # the first 64 samples of epoch 3

Indices and weights are looked up place by place, like the permutation: nothing is drawn in advance. A torch sampler
cannot be asked for a single place, so all of its numbers are drawn when its epoch begins, with the global generators
seeded by the Loader's seed and restored afterwards.
"""

import itertools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import torch

from cordwood.common.arguments import true_or_false, whole_number
from cordwood.errors import UsageError
from cordwood.feed.order.fingerprints import fingerprint
from cordwood.feed.order.permutation import SAMPLER, WEIGHTS, InOrder, Shuffled, mixed
from cordwood.feed.order.sampler_check import as_array, check_sampler, checked_numbers, has_repeats, is_array_like
from cordwood.store import Numbers

_LONGEST_NUMPY = 1 << 32
_LONGEST_TORCH = 1 << 63


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's, NumPy's and Python's global generators seeded inside, and as they were afterwards.

    ::

        with seeded(7):
            indices = list(sampler)

    Only the CPU's generator of torch: samplers draw there, and asking for others would wake up their devices.
    """
    python, legacy = random.getstate(), np.random.get_state()
    # Not torch.manual_seed: that seeds every device, which then would have to be put back too.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % _LONGEST_TORCH)
        random.seed(seed)
        np.random.seed(seed % _LONGEST_NUMPY)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)


class Places(Protocol):
    """The numbers of an epoch, asked for by their places in it."""

    def at(self, positions: Numbers) -> Numbers:
        """The numbers in the dataset at these places."""


class EpochOrder:
    """The order of one epoch.

    ``repeats`` tells whether a sample comes, or with weights may come, twice in it: then what is drawn for it must
    depend on its place too, or both times would be alike. ``fingerprint`` is that of what a torch sampler drew, else 0.
    """

    def __init__(self, length: int, places: Places, repeats: bool = False, fingerprint: int = 0) -> None:
        self.length = length
        self.repeats = repeats
        self.fingerprint = fingerprint
        self._places = places

    def at(self, positions: Numbers) -> Numbers:
        """The numbers in the dataset at these places of the epoch."""
        return self._places.at(positions)


class Order(Protocol):
    """The order of all epochs.

    ``length`` is the number of places in an epoch, ``repeats`` tells whether a sample may come twice in one, and
    ``fingerprint`` is that of what the caller gave as sampler, 0 without one.
    """

    @property
    def length(self) -> int: ...
    @property
    def repeats(self) -> bool: ...
    @property
    def fingerprint(self) -> int: ...

    def epoch(self, number: int) -> EpochOrder:
        """The order of one epoch. Call it in the caller's own thread: samplers of torch draw from global generators."""


def order_of(length: int, shuffle: bool, seed: int, sampler: Any = None) -> Order:
    """The order that a dataset of `length` samples is read in.

    ::

        order_of(1000, shuffle=True, seed=0)
        order_of(1000, shuffle=True, seed=0, sampler=[5, 1, 9])           # these, shuffled
        order_of(1000, shuffle=False, seed=0, sampler=class_weights)      # floats: drawn with replacement
        order_of(1000, shuffle=False, seed=0, sampler=RandomSampler(ds))
    """
    true_or_false("shuffle", shuffle)
    seed = whole_number("seed", seed, 0, (1 << 64) - 1, "a whole number from 0 to 2**64 - 1")
    if sampler is None:
        return Everything(length, shuffle, seed)
    if not is_array_like(sampler):
        check_sampler(sampler, shuffle)
        return Drawn(length, seed, sampler)
    given = as_array(sampler)
    if given.dtype.kind == "f":
        if shuffle:
            raise UsageError(
                "shuffle=True with weights: samples are drawn at random already, so leave shuffle out; whole numbers "
                "name samples, which can be shuffled"
            )
        return Weighted(length, seed, given)
    return Indexed(length, shuffle, seed, checked_numbers(given, length))


class Everything:
    """All samples, each once."""

    repeats = False
    fingerprint = 0

    def __init__(self, length: int, shuffle: bool, seed: int) -> None:
        self.length = length
        self._shuffle = shuffle
        self._seed = seed

    def epoch(self, number: int) -> EpochOrder:
        places = Shuffled(self.length, self._seed, number) if self._shuffle else InOrder(self.length)
        return EpochOrder(self.length, places)


class Indexed:
    """The samples that the caller names, as they come or shuffled."""

    def __init__(self, samples: int, shuffle: bool, seed: int, numbers: Numbers) -> None:
        self.length = len(numbers)
        self.fingerprint = fingerprint("indices", numbers)
        self._samples = samples
        self._numbers = numbers
        self._order = Everything(len(numbers), shuffle, seed)

    @cached_property
    def repeats(self) -> bool:
        """Whether a sample is named twice."""
        return has_repeats(self._numbers, self._samples)

    def epoch(self, number: int) -> EpochOrder:
        return EpochOrder(self.length, _LookedUp(self._numbers, self._order.epoch(number)), self.repeats)


class Weighted:
    """As many draws as there are samples, with replacement, each sample as likely as its weight is large."""

    repeats = True

    def __init__(self, length: int, seed: int, weights: npt.NDArray[Any]) -> None:
        if len(weights) != length:
            raise UsageError(
                f"sampler has {len(weights)} weights, but the dataset {length} samples: give one for each; samples "
                "themselves are named by whole numbers, not by floats"
            )
        exact = weights.astype(np.float64)
        wrong = np.flatnonzero(~(np.isfinite(exact) & (exact >= 0)))
        if len(wrong):
            raise UsageError(
                f"the weight of sample {wrong[0]} is {exact[wrong[0]]}, but weights are finite and not negative"
            )
        self.length = length
        self.fingerprint = fingerprint("weights", exact)
        self._seed = seed
        with np.errstate(over="ignore"):
            self._sums = np.cumsum(exact)  # one after the other, so that the sums are the same everywhere
        if length and not (self._sums[-1] > 0 and np.isfinite(self._sums[-1])):
            raise UsageError(
                f"the weights add up to {self._sums[-1]}, but the sum must be above 0 and finite: scale them"
            )
        # Rounding may carry a draw up to the sum itself: that is the last sample that can be drawn at all.
        self._last = int(np.flatnonzero(exact)[-1]) if length else 0

    def epoch(self, number: int) -> EpochOrder:
        return EpochOrder(self.length, _Lots(self._sums, self._last, self._seed, number), self.repeats)


class Drawn:
    """What a torch sampler draws; the same by seed, as long as it has no generator of its own."""

    repeats = True  # nobody knows before it has drawn

    def __init__(self, samples: int, seed: int, sampler: Any) -> None:
        self._samples = samples
        self._seed = seed
        self._sampler = sampler

    @property
    def length(self) -> int:
        """What the sampler says now."""
        length = len(self._sampler)
        if length < 0:
            raise UsageError(f"{type(self._sampler).__name__} has a length of {length}")
        return length

    @property
    def fingerprint(self) -> int:
        """Of its kind: what it draws is known only when it does."""
        kind = type(self._sampler)
        return fingerprint("sampler", f"{kind.__module__}.{kind.__qualname__}")

    def epoch(self, number: int) -> EpochOrder:
        set_epoch = getattr(self._sampler, "set_epoch", None)
        if callable(set_epoch):
            set_epoch(number)
        length, name = self.length, type(self._sampler).__name__
        with seeded(int(mixed(SAMPLER, self._seed, number))):
            items = list(itertools.islice(self._sampler, length + 1))  # some have no end
        if len(items) != length:
            drew = f"only {len(items)}" if len(items) < length else "more"
            raise UsageError(f"{name} says that it draws {length} numbers, and drew {drew}: its __len__ must be right")
        numbers = checked_numbers(as_array(items, f"{name} drew"), self._samples, f"{name} drew")
        repeats = has_repeats(numbers, self._samples)
        return EpochOrder(length, _LookedUp(numbers, InOrder(length)), repeats, fingerprint("drawn", numbers))


class _LookedUp:
    """Numbers in an array, their places told by another order."""

    def __init__(self, numbers: Numbers, order: Places) -> None:
        self._numbers = numbers
        self._order = order

    def at(self, positions: Numbers) -> Numbers:
        return self._numbers[self._order.at(positions)]


class _Lots:
    """A draw with replacement for every place, by its hash."""

    def __init__(self, sums: npt.NDArray[np.float64], last: int, seed: int, epoch: int) -> None:
        self._sums = sums
        self._last = last
        self._key = (seed, epoch)

    def at(self, positions: Numbers) -> Numbers:
        hashes = mixed(WEIGHTS, *self._key, positions.view(np.uint64))
        points = (hashes >> np.uint64(11)).astype(np.float64) * 2.0**-53 * self._sums[-1]
        found: Numbers = np.searchsorted(self._sums, points, "right").astype(np.int64, copy=False)
        return np.minimum(found, self._last)
