"""All frames of an animation, or all pages of a TIFF, by Pillow, which composes each frame with those before it.

    found = Frames(data, probe(data), MAX_PIXELS)
    for image in found: ...             # PIL images in Pillow's modes, upright
    found.stacked()                     # uint8, frames x 3 x height x width, RGB

The number of frames is checked before the first one is decoded, and so are the sizes and modes of pages: a file of a
few hundred bytes can claim millions of frames.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch

from cordwood.errors import FormatError, Reason
from cordwood.images.fast_decoders import Pixels, planes
from cordwood.images.header import MAX_FRAMES, ImageHeader
from cordwood.images.orientation import upright_pil
from cordwood.images.pillow_decoder import opened, refusing, to_rgb

if TYPE_CHECKING:
    from PIL import Image

_Kind = tuple[tuple[int, int], str]  # size and mode


class Frames:
    """The frames of an image that has several, each as Pillow gives it; ``count`` is their number.

    ::

        Frames(data, probe(data), MAX_PIXELS).count
    """

    def __init__(self, data: bytes, header: ImageHeader, max_pixels: int) -> None:
        self._data = data
        self._header = header
        self._word = "page" if header.format == "tiff" else "frame"
        self._check_count(header.frames, max_pixels)
        with refusing(data, header):
            self._image = opened(data, header)
            self.count: int = getattr(self._image, "n_frames", 1)
            self._check_count(self.count, max_pixels)
            if header.format == "tiff":
                self._check_pages()

    def __iter__(self) -> "Iterator[Image.Image]":
        image = self._image
        orientation = 1 if self._header.format == "tiff" else self._header.orientation  # Pillow turns pages itself
        stored: tuple[int, int] | None = None
        loaded: tuple[int, int] | None = None
        with refusing(self._data, self._header):
            for number in range(self.count):
                image.seek(number)
                stored = stored or image.size
                self._check_kind(number, (image.size, ""), (stored, ""))  # before memory is taken for it
                image.load()
                loaded = loaded or image.size
                self._check_kind(number, (image.size, ""), (loaded, ""))
                # A copy: Pillow makes the next frame out of this one.
                yield upright_pil(image.copy(), orientation)

    def stacked(self) -> torch.Tensor:
        """All frames in RGB, one behind the other."""
        out: Pixels | None = None
        for number, image in enumerate(self):
            pixels = np.asarray(to_rgb(image))
            if out is None:
                out = np.empty((self.count, 3, *pixels.shape[:2]), np.uint8)
            planes(pixels, out[number])
        assert out is not None  # noqa: S101 - for the type checker: there is at least one
        return torch.from_numpy(out)

    def _check_count(self, count: int, max_pixels: int) -> None:
        name, width, height = self._header[:3]
        if count >= MAX_FRAMES:
            raise FormatError(f"the {name} image has {MAX_FRAMES:,} frames or more, which is too many", Reason.LIMIT)
        if count * width * height > max_pixels:
            raise FormatError(
                f"the {name} image says that it has {count:,} {self._word}s of {width} x {height}, "
                f"{count * width * height:,} pixels; {max_pixels:,} are allowed (max_pixels)",
                Reason.LIMIT,
            )

    def _check_pages(self) -> None:
        """Pages are pictures of their own: only those alike can be in one array."""
        first: _Kind | None = None
        for number in range(self.count):
            self._image.seek(number)
            found = self._image.size, self._image.mode
            first = first or found
            self._check_kind(number, found, first)
        self._image.seek(0)

    def _check_kind(self, number: int, found: _Kind, first: _Kind) -> None:
        if found != first:
            raise FormatError(
                f"{self._word} {number + 1} of {self.count} is {_told(found)}, but {self._word} 1 is {_told(first)}: "
                f'{self._word}s of one sample are alike; frames="first" reads the first one alone, and decode="none" '
                "gives the bytes of the file"
            )


def _told(kind: _Kind) -> str:
    (width, height), mode = kind
    return f"{width} x {height}" + (f" of mode {mode}" if mode else "")
