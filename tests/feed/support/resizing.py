"""Many resizings of made-up images, and what Pillow and torch make of the same; run as a program, prints digests."""

import hashlib
import json
import sys
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from cordwood.native import _native

Array = npt.NDArray[Any]


class Case(NamedTuple):
    channels: int
    height: int
    width: int
    box: tuple[int, int, int, int]  # top, left, height, width
    size: tuple[int, int]
    flip: bool
    interleaved: bool

    def bytes_(self) -> Array:
        """An image of noise that is the same for the same case."""
        shape = (self.channels, self.height, self.width)
        numbers: Array = np.random.default_rng(list(shape)).integers(0, 256, shape, dtype=np.uint8)
        numbers[:, :: max(1, self.height // 2)] = 255  # sums that are as large as they may be
        return numbers


def resized(image: Array, case: Case, fill: float = 0.0, threads: int = 1) -> Array:
    """By the native call, from an image of channels, height and width."""
    given = np.ascontiguousarray(image.transpose(1, 2, 0)) if case.interleaved else image
    out = np.full((1, case.channels, *case.size), 77, image.dtype)
    boxes = np.array([[*case.box, case.flip]], np.int64)
    _native.resize(given[np.newaxis], boxes, out, case.interleaved, fill, threads)
    image_out: Array = out[0]
    return image_out


def by_pillow(image: Array, case: Case) -> Array:
    """Across, then down, in two calls: so it was in one call before Pillow 13, which chooses the order."""
    top, left, height, width = case.box
    box = (left, top, left + width, top + height)
    rows, columns = case.size
    found = np.stack(
        [
            np.asarray(
                Image.fromarray(channel)
                .crop(box)
                .resize((columns, height), Image.Resampling.BILINEAR)
                .resize((columns, rows), Image.Resampling.BILINEAR)
            )
            for channel in image
        ]
    )
    return found[..., ::-1] if case.flip else found


def by_torch(image: Array, case: Case, dtype: torch.dtype) -> Array:
    top, left, height, width = case.box
    part = torch.from_numpy(image)[np.newaxis, :, top : top + height, left : left + width].to(dtype)
    found: Array = torch.nn.functional.interpolate(part, case.size, mode="bilinear", antialias=True)[0].numpy()
    return found[..., ::-1] if case.flip else found


def cases(count: int) -> list[Case]:
    """Boxes inside images and beyond them, of sizes that take every path: few taps and many, narrow rows and wide."""
    draw = np.random.default_rng(0)
    found = []
    for number in range(count):
        height, width = (int(side) for side in draw.integers(1, 90 if number % 4 else 700, 2))
        rows, columns = int(draw.integers(1, height + 1)), int(draw.integers(1, width + 1))
        top, left = int(draw.integers(0, height - rows + 1)), int(draw.integers(0, width - columns + 1))
        if number % 5 == 0:
            top, left = top - int(draw.integers(0, 40)), left - int(draw.integers(-40, 40))
        out_rows, out_columns = (int(side) for side in draw.integers(1, 130, 2))
        size = (rows if number % 7 == 0 else out_rows, columns if number % 3 == 0 else out_columns)
        flip, interleaved = bool(draw.integers(2)), bool(draw.integers(2))
        found.append(Case(int(draw.integers(1, 6)), height, width, (top, left, rows, columns), size, flip, interleaved))
    return found


def digests() -> dict[str, str]:
    """Of bytes and floats, for every case."""
    found = {}
    for case in cases(150):
        image = case.bytes_()
        arrays = resized(image, case), resized(image.astype(np.float32) / 255, case, fill=0.5)
        found[str(tuple(case))] = hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()
    return found


if __name__ == "__main__":
    json.dump({"fast": _native.fast_cpu(), "digests": digests()}, sys.stdout)
