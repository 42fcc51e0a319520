"""Augmentation at decode time: a part of every image in one size, mirrored or not, drawn for each sample.

    loader = cw.Loader(ds, augment={"image": [cw.augment.RandomResizedCrop(224), cw.augment.RandomFlip()]})

The steps mean what torchvision's transforms of these names mean, and are drawn from the same distributions. However
many they are, together they cut out one part, resize it once and mirror it or not, which the thread that decodes the
image does on the way. A sample's draw is a hash of (seed, epoch, sample) alone: batch size, threads, ranks and resuming
do not change it.

Resizing is bilinear and antialiased. Bytes are those of Pillow's ``crop(box).resize(size, BILINEAR)`` up to version 12,
which goes across and then down; from 13 on Pillow goes down first where the height shrinks more, and a byte may differ
by 1. Floats are within 1e-6, relative to the largest value, of ``torch.nn.functional.interpolate(mode="bilinear",
antialias=True)`` in float64.

Reading order: ``crops`` has the steps, ``boxes`` the parts of images that they cut, this file checks a list of steps
and draws for each sample, ``treatments`` turns a loader's options into one treatment per field, ``random_check`` warns
of transforms that draw once per batch. Imports ``order``, ``store``, ``codecs``, ``common`` and ``native``; used by
``loader``.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from cordwood.common.arguments import whole_number
from cordwood.common.suggest import no_attribute
from cordwood.errors import UsageError
from cordwood.feed.augment.boxes import Lengths, Parts, Words
from cordwood.feed.augment.crops import CenterCrop, RandomCrop, RandomFlip, RandomResizedCrop, Size, size_of
from cordwood.feed.order.permutation import mixed
from cordwood.native import _native
from cordwood.store import Numbers

__all__ = ["CenterCrop", "RandomCrop", "RandomFlip", "RandomResizedCrop", "apply"]


if not TYPE_CHECKING:  # a type checker would take any name then

    def __getattr__(name: str) -> object:
        raise no_attribute("cordwood.augment", name, __all__)


Images = TypeVar("Images", npt.NDArray[Any], torch.Tensor)

Step = RandomResizedCrop | RandomCrop | CenterCrop | RandomFlip
_STEPS: Final = (RandomResizedCrop, RandomCrop, CenterCrop, RandomFlip)


class Augmentation:
    """Steps that follow one another, checked, and what they draw.

    ::

        augmentation = Augmentation.of([RandomResizedCrop(224), RandomFlip()], "image")
        boxes, size = augmentation.draw(256, 256, seeds)

    ``fill`` is the value of what is outside of the image.
    """

    def __init__(self, steps: Sequence[Step], where: str) -> None:
        self.steps = tuple(steps)
        self.fill = next((step.fill for step in steps if isinstance(step, RandomCrop) and step.padded), 0.0)
        self._where = where
        self._keys = mixed(np.arange(sum(step.words for step in steps), dtype=np.uint64))[:, np.newaxis]
        self._check()

    @classmethod
    def of(cls, given: Any, field: str) -> "Augmentation":
        """As a loader's option says it: a list of steps, or one."""
        where = f"augment of field {field!r}"
        steps = list(given) if isinstance(given, list | tuple) else [given]
        names = ", ".join(f"cw.augment.{kind.__name__}" for kind in _STEPS)
        for step in steps:
            if not isinstance(step, _STEPS):
                raise UsageError(f"{where}: {step!r} is none of {names}. Use sample_transform= for other transforms")
        if not steps:
            raise UsageError(f"{where} is empty; leave the field out, or give a list of {names}")
        return cls(steps, where)

    def draw(self, heights: Lengths, widths: Lengths, seeds: Words) -> tuple[Numbers, Size]:
        """The part of every image, [samples, 5] of top, left, height, width and mirrored, and the size it arrives in.

        A place below 0, or a part that ends beyond the image, means pixels of the value ``fill``.
        """
        parts = Parts(self._where, self._lengths(heights), self._lengths(widths), len(seeds))
        words = mixed(self._keys ^ seeds)
        at = 0
        size: Size | None = None
        for step in self.steps:
            step.apply(parts, words[at : at + step.words])
            at += step.words
            if not isinstance(step, RandomFlip):
                size = size_of("", step.size)
        size = size or parts.size()
        if size is None:
            raise UsageError(
                f"{self._where}: the images have different sizes, and these steps leave them so. Begin with "
                "RandomResizedCrop, RandomCrop or CenterCrop"
            )
        return parts.boxes(), size

    def _lengths(self, given: Lengths) -> Lengths:
        lengths = given if isinstance(given, int) else np.asarray(given, np.int64)
        least = lengths if isinstance(lengths, int) else lengths.min(initial=1)
        if least < 1:
            raise UsageError(f"{self._where}: an image has no pixels, so no part can be cut out of it")
        return lengths

    def _check(self) -> None:
        """Refuse what is not one part, resized once."""
        before: RandomResizedCrop | RandomCrop | CenterCrop | None = None
        for step in self.steps:
            if isinstance(step, RandomFlip):
                continue
            if isinstance(before, RandomResizedCrop):
                raise UsageError(
                    f"{self._where}: {step} comes after {before}, but a part is cut out and then resized, once. Put "
                    "it before, or use transform= or sample_transform= for what follows a resized crop"
                )
            if before is not None and isinstance(step, RandomCrop) and step.padded:
                raise UsageError(
                    f"{self._where}: {step} comes after {before}, but padding is added to whole images only"
                )
            if before is not None and not isinstance(step, RandomResizedCrop):
                has, wanted = size_of("", before.size), size_of("", step.size)
                if has[0] < wanted[0] or has[1] < wanted[1]:
                    raise UsageError(f"{self._where}: {step} is larger than what {before} leaves of an image")
            before = step


def apply(
    images: Images, steps: Step | Sequence[Step], seeds: Words, *, channels_last: bool = False, threads: int = 1
) -> Images:
    """The same on images in memory: to look at what a loader would make of them.

    ::

        seen = cw.augment.apply(batch["image"], [cw.augment.RandomResizedCrop(96)], np.arange(64, dtype=np.uint64))

    :param images: an array or a tensor of uint8 or float32: images, channels, height, width.
    :param seeds: a number for each image, of uint64; the same number draws the same.
    :param channels_last: the images are stored as height, width, channels. What comes out is not.
    """
    if isinstance(images, torch.Tensor):
        return torch.from_numpy(_applied(images.detach().cpu().numpy(), steps, seeds, channels_last, threads))
    return _applied(images, steps, seeds, channels_last, threads)


def _applied(
    images: npt.NDArray[Any], steps: Step | Sequence[Step], seeds: Words, channels_last: bool, threads: int
) -> npt.NDArray[Any]:
    if images.ndim != 4 or images.dtype not in (np.uint8, np.float32) or 0 in images.shape[1:]:
        raise UsageError(
            f"apply: images are {images.dtype} of shape {images.shape}, but are four-dimensional, of uint8 or float32"
        )
    threads = whole_number("apply: threads", threads, 1)
    if not isinstance(seeds, np.ndarray):
        raise UsageError(f"apply: seeds are {type(seeds).__name__}, but are an array of uint64, one an image")
    if seeds.dtype != np.uint64 or seeds.shape != images.shape[:1]:
        raise UsageError(
            f"apply: seeds are {seeds.dtype} of shape {seeds.shape}, but are {len(images)} of uint64, one an image"
        )
    augmentation = Augmentation.of(steps, "images")
    height, width, channels = (images.shape[axis] for axis in ((1, 2, 3) if channels_last else (2, 3, 1)))
    boxes, size = augmentation.draw(height, width, seeds)
    out = np.empty((len(images), channels, *size), images.dtype)
    _native.resize(np.ascontiguousarray(images), boxes, out, channels_last, augmentation.fill, threads)
    return out
