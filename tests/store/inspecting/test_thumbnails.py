"""Pictures of image-like arrays: which arrays are images, what of them is shown, and that a PNG reader agrees."""

import struct
import zlib
from typing import Any

import numpy as np
import pytest

from cordwood.store.inspecting.thumbnails import data_url, looks_like_image, picture_of, png


def read_png(data: bytes) -> Any:
    """The pixels of a PNG without filters, read by the letter of its specification."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    position, chunks = 8, {}
    while position < len(data):
        (size,) = struct.unpack_from(">I", data, position)
        kind, body = data[position + 4 : position + 8], data[position + 8 : position + 8 + size]
        assert struct.unpack_from(">I", data, position + 8 + size) == (zlib.crc32(kind + body),)
        chunks[kind] = body
        position += 12 + size
    width, height, depth, color, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert (depth, rest, list(chunks)) == (8, [0, 0, 0], [b"IHDR", b"IDAT", b"IEND"])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, -1)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, {0: 1, 2: 3}[color])


def shades(array: Any) -> list[int]:
    """The different bytes in an array's picture."""
    picture = picture_of(array)
    assert picture is not None
    return sorted(set(picture.ravel().tolist()))


@pytest.mark.parametrize("shape", [(3, 8, 9), (8, 9, 3), (1, 8, 9), (8, 9, 1), (8, 9), (3, 90, 96)])
def test_small_images_of_bytes_are_shown_as_they_are(shape: tuple[int, ...]) -> None:
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    picture = picture_of(image)
    assert picture is not None
    expected = image[:, :, None] if image.ndim == 2 else image.transpose(1, 2, 0) if shape[0] in (1, 3) else image
    assert np.array_equal(picture, expected)
    assert np.array_equal(read_png(png(picture)), expected)
    assert looks_like_image(shape, "uint8")


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((), "uint8"),
        ((100,), "uint8"),
        ((3, 7, 100), "uint8"),
        ((100, 7, 3), "uint8"),
        ((2, 64, 64), "float32"),
        ((3, 64, 64), "int64"),
        ((3, 64, 64), "bool"),
        ((1, 3, 64, 64), "float32"),
        ((10, 1000), "float32"),
    ],
)
def test_what_is_no_image(shape: tuple[int, ...], dtype: str) -> None:
    assert not looks_like_image(shape, dtype)
    assert picture_of(np.zeros(shape, dtype)) is None


def test_a_large_image_becomes_the_mean_of_its_squares() -> None:
    tiles = np.random.default_rng(1).integers(0, 256, (3, 50, 40), np.uint8)
    picture = picture_of(tiles.repeat(4, axis=1).repeat(4, axis=2))
    assert picture is not None
    assert picture.shape == (67, 54, 3)  # 200 x 160, by threes
    checkers = np.indices((192, 192)).sum(0).astype(np.uint8) % 2 * 200
    assert shades(checkers) == [100]


def test_floats_from_0_to_1_are_not_stretched() -> None:
    image = np.full((8, 8), 0.5, np.float32)
    image[0, 0] = 0.2
    assert shades(image) == [51, 128]


def test_normalised_floats_are_stretched() -> None:
    ramp = np.linspace(-2.1, 2.6, 256, dtype=np.float32).reshape(16, 16)
    picture = picture_of(np.stack([ramp, ramp, ramp]))
    assert picture is not None
    assert np.array_equal(picture[:, :, 1].ravel(), np.arange(256))


def test_numbers_that_cannot_be_shown_do_no_harm() -> None:
    image = np.zeros((200, 200), np.float64)
    image[0, :4] = np.inf, -np.inf, np.nan, np.finfo(np.float64).max
    image[100, 100] = -np.finfo(np.float64).max
    picture = picture_of(image)
    assert picture is not None
    assert picture.shape == (67, 67, 1)
    nothing = picture_of(np.full((8, 8), np.nan, np.float16))
    assert nothing is not None
    assert not nothing.any()
    assert len(shades(np.full((8, 8), 7.0))) == 1


def test_a_link_holds_the_picture() -> None:
    assert data_url(np.zeros((8, 8, 1), np.uint8)).startswith("data:image/png;base64,iVBORw0KGgo")
