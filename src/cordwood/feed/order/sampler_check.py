"""Checks the ``sampler`` argument: indices, weights, or a sampler of torch."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import BatchSampler
from torch.utils.data.distributed import DistributedSampler

from cordwood.common.text import brief
from cordwood.errors import UsageError
from cordwood.store import Numbers

_KINDS: Final = "whole numbers (the samples of an epoch), floats (weights, one a sample) or a torch sampler"


def is_array_like(sampler: Any) -> bool:
    """Numbers that can be looked up; anything else is drawn from."""
    return isinstance(sampler, Sequence | torch.Tensor) or hasattr(sampler, "__array__")


def check_sampler(sampler: Any, shuffle: bool) -> None:
    """Refuse what cannot be drawn from as torch does, with what to do instead."""
    name = type(sampler).__name__
    if isinstance(sampler, DistributedSampler) or (hasattr(sampler, "num_replicas") and hasattr(sampler, "rank")):
        raise UsageError(
            f"sampler is a {name}, but the Loader shares samples out among the ranks itself: leave it out, and say "
            "shuffle=True if it shuffles"
        )
    if isinstance(sampler, BatchSampler):
        raise UsageError(
            f"sampler is a {name}, but the Loader makes batches itself: give the sampler inside it, and batch_size"
        )
    if isinstance(sampler, Mapping | Set):
        raise UsageError(f"sampler is a {name}, which has no order of its own: give a list, say sorted(...)")
    if not isinstance(sampler, Iterable) or not hasattr(sampler, "__len__"):
        more = ": make a list of it" if isinstance(sampler, Iterable) else ""
        raise UsageError(f"sampler is a {name}, but can be {_KINDS}{more}")
    if shuffle:
        raise UsageError(f"shuffle=True with a {name} as sampler: it has an order of its own, so leave shuffle out")


def as_array(given: Any, what: str = "sampler has") -> npt.NDArray[Any]:
    """Whole numbers or floats, one-dimensional."""
    if isinstance(given, torch.Tensor):
        given = given.detach().cpu()
        array = (given.double() if given.is_floating_point() else given).numpy()
    elif isinstance(given, str | bytes):
        raise UsageError(f"sampler is {brief(given)}, but can be {_KINDS}")
    elif isinstance(given, range):
        array = np.arange(given.start, given.stop, given.step, dtype=np.int64)
    else:
        try:
            array = np.asarray(given)
        except (TypeError, ValueError, OverflowError):
            raise UsageError(f"{what} items of different sizes, but samples are single numbers") from None
    if array.ndim == 2:
        raise UsageError(
            f"{what} lists of numbers, of shape {array.shape}, but the Loader makes batches itself: give single "
            "numbers, and batch_size"
        )
    if array.ndim != 1:
        raise UsageError(f"{what} numbers of shape {array.shape}, but one dimension is needed")
    if array.dtype == np.bool_:
        raise UsageError(f"{what} bools: give the Loader ds.subset(mask), or np.flatnonzero(mask) as sampler")
    if array.size and array.dtype.kind not in "iuf":
        raise UsageError(f"{what} items of type {array.dtype}, but can have {_KINDS}")
    return array if array.size else np.zeros(0, np.int64)


def checked_numbers(given: npt.NDArray[Any], samples: int, what: str = "sampler has") -> Numbers:
    """Numbers of samples, negative ones counted from the end as everywhere; a copy, since the caller's may change."""
    if given.dtype.kind == "f":
        raise UsageError(f"{what} {given.dtype} numbers, but samples have whole ones")
    wrong = given[(given < -samples) | (given >= samples)] if given.dtype.kind == "i" else given[given >= samples]
    if len(wrong):
        raise UsageError(f"{what} sample {wrong[0]}, but the dataset has {samples} samples: 0 to {samples - 1}")
    numbers = given.astype(np.int64)
    numbers[numbers < 0] += samples
    return numbers


def has_repeats(numbers: Numbers, samples: int) -> bool:
    """Whether a number of a dataset of so many samples comes twice."""
    if len(numbers) > samples:
        return True
    if samples > 64 * len(numbers):  # a mark for each sample of the dataset would be mostly empty
        return len(np.unique(numbers)) < len(numbers)
    seen = np.zeros(samples, np.bool_)
    seen[numbers] = True
    return int(np.count_nonzero(seen)) < len(numbers)
