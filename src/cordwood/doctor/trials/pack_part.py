"""Finds the part of a dataset's work that gives the same result every time, and so can be done once.

    part = part_to_pack(dataset, numbers)
    part.dataset[3]         # what is packed
    part.rest               # what is left to do with each sample, or None: nothing

All of ``dataset[i]`` if that does not change with random numbers. Else what comes before the random part of a
``transform`` that the dataset has as an attribute, as torchvision's have: it is set aside on a copy, or cut where its
list of ``transforms`` begins to draw.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cordwood.common.seeding import seed_generators
from cordwood.doctor.evidence.findings import Abstain
from cordwood.doctor.measure.determinism import digest, first_that_changes, random_numbers_kept, set_apart
from cordwood.doctor.trials.pack_change import KeptLoading

_MOST_STEPS = 64  # of a transform
_MOST_COMPARED = 3  # samples, made in one go and in two
_SEED = 4_711


@dataclass(frozen=True)
class PackablePart:
    """What can be packed."""

    dataset: Any  # gives what is packed; a copy, so it may be drawn from
    whole: Any  # gives samples as training gets them; a copy, too
    rest: Callable[[Any], Any] | None = None  # makes of the one what the other gives
    kept: KeptLoading | None = None  # the same as code
    what: str = "dataset[i]"  # the part that is always the same, in words
    why_not: str = ""  # why it cannot be packed, though it is always the same


def part_to_pack(dataset: Any, numbers: Sequence[int]) -> PackablePart:
    """The largest part that is always the same. Abstains if there is none, or if samples cannot be had here."""
    whole = set_apart(dataset)
    try:
        changing = first_that_changes(whole, numbers)
    except Exception as error:  # whatever a dataset raises that only works inside a worker
        raise Abstain(f"dataset[i] could not be tried by itself: {type(error).__name__}: {error}") from error
    if changing is None:
        return PackablePart(whole, whole)
    found = next(_cuts(whole, numbers), None)
    if found is None:
        raise Abstain(
            f"sample {changing} of the dataset is another one each time it is fetched, and no part of the work is "
            "known to give the same each time"
        )
    return found


def _cuts(whole: Any, numbers: Sequence[int]) -> Iterator[PackablePart]:
    """Parts that leave random steps out, the largest first."""
    transform = getattr(whole, "transform", None)
    if not callable(transform):
        return
    steps = getattr(transform, "transforms", None)
    count = len(steps) if isinstance(steps, list | tuple | torch.nn.ModuleList) else 0
    for cut in range(max(0, min(count, _MOST_STEPS) - 1), -1, -1):
        plain = copy.copy(whole)
        try:
            plain.transform = _steps_of(transform, slice(cut)) if cut else None
            if first_that_changes(plain, numbers) is not None:
                continue
            sample = plain[numbers[0]]
        except Exception:  # noqa: S112 - it needs its transform, or cannot do with less of it: another cut may do
            continue
        yield _described(whole, plain, transform, cut, sample, numbers)


def _steps_of(transform: Any, which: slice) -> Any:
    part = copy.copy(transform)
    part.transforms = part.transforms[which]
    return part


def _described(whole: Any, plain: Any, transform: Any, cut: int, sample: Any, numbers: Sequence[int]) -> PackablePart:
    names = ", ".join(type(step).__name__ for step in transform.transforms[:cut]) if cut else ""
    what = f"dataset[i] up to {names}" if cut else "dataset[i] without its transform"
    rest = _steps_of(transform, slice(cut, None)) if cut else transform
    if not _can_be_stored(sample):
        return PackablePart(plain, whole, what=what, why_not="what it gives is no tensor, array, number or text")
    for key in _keys(sample):
        apply = _Applied(rest, key)
        if _gives_the_same(whole, plain, apply, numbers):
            return PackablePart(plain, whole, apply, _kept(key, cut), what)
    return PackablePart(plain, whole, what=what, why_not="the rest of the work is not the transform alone")


class _Applied:
    """Does the rest of the work to the one value of a sample that it is for; `key` None: to the sample itself."""

    def __init__(self, rest: Callable[[Any], Any], key: Any) -> None:
        self._rest = rest
        self._key = key

    def __call__(self, sample: Any) -> Any:
        key = self._key
        if key is None:
            return self._rest(sample)
        if isinstance(sample, dict):
            return {**sample, key: self._rest(sample[key])}
        return (*sample[:key], self._rest(sample[key]), *sample[key + 1 :])


def _keys(sample: Any) -> list[Any]:
    if type(sample) is dict:
        return list(sample)
    return list(range(len(sample))) if type(sample) is tuple else [None]


def _gives_the_same(whole: Any, plain: Any, apply: _Applied, numbers: Sequence[int]) -> bool:
    """Whether both ways make the same sample of the same random numbers."""
    try:
        with random_numbers_kept():
            for number in numbers[:_MOST_COMPARED]:
                part = plain[number]
                seed_generators(_SEED)
                in_one_go = digest(whole[number])
                seed_generators(_SEED)
                if digest(apply(part)) != in_one_go:
                    return False
    except Exception:  # a transform that does not take this value
        return False
    return True


def _can_be_stored(sample: Any) -> bool:
    if isinstance(sample, dict):
        return all(isinstance(key, str) for key in sample) and all(map(_can_be_stored, sample.values()))
    if isinstance(sample, list | tuple):
        return all(map(_can_be_stored, sample))
    return isinstance(sample, torch.Tensor | np.ndarray | np.generic | int | float | complex | str | bytes | None)


def _kept(key: Any, cut: int) -> KeptLoading:
    """The same change as code."""
    lines = ["import copy", "plain = copy.copy({dataset})"]
    rest = "{dataset}.transform"
    if cut:
        lines.append("plain.transform, rest = copy.copy({dataset}.transform), copy.copy({dataset}.transform)")
        lines.append(f"plain.transform.transforms = plain.transform.transforms[:{cut}]")
        lines.append(f"rest.transforms = rest.transforms[{cut}:]")
        rest = "rest"
    else:
        lines.append("plain.transform = None")
    if key is None:
        function = rest
    elif isinstance(key, str):
        function = f"lambda sample: {{**sample, {key!r}: {rest}(sample[{key!r}])}}"
    else:
        before = f"*sample[:{key}], " if key else ""
        function = f"lambda sample: ({before}{rest}(sample[{key}]), *sample[{key + 1}:])"
    return KeptLoading(tuple(lines), "plain", (f"sample_transform={function}",))
