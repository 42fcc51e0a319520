"""Small image files for tests."""

import io
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image


def pixels(seed: int, height: int = 6, width: int = 7) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def encoded(seed: int, kind: str = "PNG") -> bytes:
    """An image file's bytes; all kinds but JPEG give the pixels back."""
    buffer = io.BytesIO()
    Image.fromarray(pixels(seed)).save(buffer, kind)
    return buffer.getvalue()


def write(root: Path, *paths: str) -> None:
    """A PNG at each path, whatever its ending says; the pixels are those of its place in the list."""
    for seed, path in enumerate(paths):
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(encoded(seed))
