"""Warns if a transform of batches was written for single samples, and so draws once for the whole batch.

    warn_if_random(torchvision.transforms.RandomHorizontalFlip())   # UserWarning: ... sample_transform ...

Such a transform works on a batch without an error, since images may have leading dimensions, and every image of the
batch is flipped or none is.
"""

import functools
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, Final

import torch

# Drawn once a call, though their names do not begin with Random.
_DRAW: Final = frozenset(["AugMix", "AutoAugment", "ColorJitter", "ElasticTransform", "RandAugment"])
# One size for all samples of a batch is what their callers want.
_SIZES: Final = frozenset(["RandomResize", "RandomShortestSize"])
_FOR_BATCHES: Final = ("kornia",)  # packages whose random transforms draw for every sample of a batch
_MOST_PARTS: Final = 1000  # of a transform that is made of others; it may hold itself


def warn_if_random(transform: Any, stacklevel: int = 2) -> None:
    """Warn if a transform of batches looks like one of torchvision's that draw once a call.

    ::

        warn_if_random(Compose([RandomCrop(32), Normalize(mean, std)]))   # warns of RandomCrop

    `stacklevel` is counted from the caller, as in `warnings.warn`.
    """
    found = next((type(part).__name__ for part in _parts(transform) if _draws_once(part)), None)
    if found is not None:
        warnings.warn(
            f"transform= is called with whole batches, and {found} draws once a call: every sample of a batch would "
            "get the same. Give it as sample_transform=, which is called for each sample, or use cw.augment, which "
            "draws for each sample while it is decoded",
            stacklevel=stacklevel + 1,
        )


def _parts(transform: Any) -> Iterator[Any]:
    """A transform and those it is made of; what is made for batches is not looked into."""
    waiting, seen = [transform], 0
    while waiting and seen < _MOST_PARTS:
        part = waiting.pop()
        seen += 1
        if any(_is_of(part, package) for package in _FOR_BATCHES):
            continue
        yield part
        if isinstance(part, functools.partial):
            waiting.append(part.func)
        elif hasattr(part, "__self__"):  # a bound method
            waiting.append(part.__self__)
        below: Any = part.children() if isinstance(part, torch.nn.Sequential) else getattr(part, "transforms", None)
        if isinstance(below, Iterable) and not isinstance(below, str | bytes | torch.Tensor):
            waiting.extend(reversed(list(below)))


def _draws_once(part: Any) -> bool:
    name = type(part).__name__
    if name in _SIZES or not (name in _DRAW or name.startswith(("Random", "TrivialAugment"))):
        return False
    return _is_of(part, "torchvision") or callable(getattr(part, "get_params", None))


def _is_of(part: Any, package: str) -> bool:
    """Whether its class, or one that it is derived from, is of that package."""
    return any(cls.__module__.partition(".")[0] == package for cls in type(part).__mro__)
