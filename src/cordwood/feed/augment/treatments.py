"""Turns the image options of a Loader into one treatment per field."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from cordwood.codecs import Normalize
from cordwood.common.arguments import true_or_false
from cordwood.common.suggest import did_you_mean
from cordwood.common.text import brief
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.feed.augment import Augmentation
from cordwood.store import CHANNELS, Dataset, Leaf, Treatment, shown_names


def treatments_of(
    dataset: Dataset,
    leaves: Sequence[Leaf],
    normalize: Mapping[str, Any] | None,
    augment: Mapping[str, Any] | None,
    channels_last: bool,
) -> dict[int, Treatment]:
    """By the numbers of frame leaves: what is done with which; fields without any are not in it.

    Arrays that lie in columns are too small to be images.
    """
    normal = {name: _normalize(name, given) for name, given in _named(dataset, leaves, "normalize", normalize)}
    augmented = {name: Augmentation.of(given, name) for name, given in _named(dataset, leaves, "augment", augment)}
    true_or_false("channels_last", channels_last)
    found = {}
    for leaf in leaves:
        if not dataset.read_plan.assembler.holds_arrays(leaf):
            continue
        if leaf.name not in normal and leaf.name not in augmented and not channels_last:
            continue
        cut = augmented.get(leaf.name)
        treatment = Treatment(
            normalize=normal.get(leaf.name),
            channels_last=channels_last,
            draw=None if cut is None else cut.draw,
            fill=0.0 if cut is None else cut.fill,
        )
        if leaf.node.shape is None:
            found[leaf.frame] = treatment
        elif treatment.named:
            treatment.check(leaf.name, leaf.node.dtype, leaf.node.shape)
            raise UsageError(f"field {leaf.name!r} is kept in columns, and images that are so small are not treated")
    return found


def check_first(dataset: Dataset, treatments: Mapping[int, Treatment]) -> None:
    """Refuse what the first sample shows to be impossible; what is wrong with the sample itself is told when it is
    read."""
    if not len(dataset):
        return
    first, reader = dataset.read_plan.numbers([0]), dataset.reader
    for leaf in dataset.read_plan.assembler.frames:
        treatment = treatments.get(leaf.frame)
        if treatment is None or not treatment.named:
            continue
        if leaf.number in dataset.read_plan.assembler.pictures:
            treatment.check(leaf.name, "uint8", (CHANNELS, 1, 1))
            continue
        shape = None
        with suppress(FormatError, StorageError):
            (shape,) = reader.shapes(first, leaf)
        if shape is not None and leaf.stored is not None:
            treatment.check(leaf.name, leaf.stored, shape)


def _named(
    dataset: Dataset, leaves: Sequence[Leaf], option: str, given: Mapping[str, Any] | None
) -> list[tuple[str, Any]]:
    """The items of an option, whose names are those of arrays that are read."""
    if given is None:
        return []
    arrays = [leaf.name for leaf in leaves if dataset.read_plan.assembler.holds_arrays(leaf)]
    if not isinstance(given, Mapping):
        raise UsageError(f"{option} is {brief(given)}, but is a dict by names of fields, of {shown_names(arrays)}")
    for name in given:
        if name not in arrays:
            raise UsageError(
                f"{option} names {name!r}, but the fields that hold arrays are {shown_names(arrays)}"
                f"{did_you_mean(name, arrays)}"
            )
    return list(given.items())


def _normalize(name: str, given: Any) -> Normalize:
    if isinstance(given, Normalize):
        return _checked(name, given)
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise UsageError(
            f"normalize of field {name!r} is {brief(given)}, but is (mean, std), numbers or one a channel, on the "
            "scale of 0 to 1"
        )
    mean, std = (_numbers(name, part) for part in given)
    return _checked(name, Normalize(mean, std))


def _checked(name: str, normalize: Normalize) -> Normalize:
    for channel, (mean, std) in enumerate(zip(normalize.mean, normalize.std, strict=True)):
        if not (math.isfinite(mean) and math.isfinite(std) and std != 0):
            raise UsageError(
                f"normalize of field {name!r}: channel {channel} has mean {mean} and std {std}, but both are finite, "
                "and std is not 0"
            )
    return normalize


def _numbers(name: str, given: Any) -> list[float]:
    try:
        plain = given.detach().cpu().numpy() if isinstance(given, torch.Tensor) else given
        return [float(number) for number in np.asarray(plain, np.float64).reshape(-1)]
    except (TypeError, ValueError):
        raise UsageError(f"normalize of field {name!r}: {brief(given)} is no number, and no list of numbers") from None
