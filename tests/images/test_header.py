"""Headers: sizes and orientations by content, limits, and what is no image."""

import struct
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from cordwood.errors import FormatError
from cordwood.images import FORMATS, Decoder, decode, decode_pil, probe
from cordwood.images.exif import directory, orientation
from tests.images.pictures import DECODERS, WRITABLE, by_pillow, exif, picture, tensor, written


@pytest.mark.parametrize("format", WRITABLE)
@given(width=st.integers(1, 300), height=st.integers(1, 300))
def test_the_size_is_told(format: str, width: int, height: int) -> None:
    header = probe(written(Image.new("L", (width, height)), format))
    assert header[:4] == (format.lower(), width, height, 1)


def test_lossy_webp_tells_its_size_in_another_place() -> None:
    assert probe(written(picture(), "WEBP", lossless=False))[:3] == ("webp", 61, 47)


def test_os2_bitmaps() -> None:
    data = b"BM" + struct.pack("<IHHI", 26 + 8, 0, 0, 26) + struct.pack("<IHHHH", 12, 1, 2, 1, 24) + b"\1\2\3\0\4\5\6\0"
    assert probe(data)[:3] == ("bmp", 1, 2)
    assert decode(data)[:, 1, 0].tolist() == [3, 2, 1]


def test_every_format_is_found_by_content() -> None:
    assert set(FORMATS) == {format.lower() for format in WRITABLE}


ORIENTED: list[tuple[str, dict[str, Any]]] = [("JPEG", {"quality": 95}), ("PNG", {}), ("WEBP", {}), ("TIFF", {})]


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("turn", range(1, 9))
@pytest.mark.parametrize(("format", "options"), ORIENTED)
def test_all_eight_orientations(decoder: Decoder, format: str, options: dict[str, Any], turn: int) -> None:
    data = written(picture(width=40, height=24), format, exif=exif(turn), **options)
    assert probe(data).orientation == turn
    assert probe(data)[1:3] == (40, 24)
    image = decoder.decode(data)
    assert probe(data).upright == tuple(image.shape[1:])
    assert tuple(image.shape) == ((3, 24, 40) if turn < 5 else (3, 40, 24))
    assert image.is_contiguous()
    assert torch.equal(image, by_pillow(data))
    assert torch.equal(tensor(decoder.decode_pil(data)), image)


def test_a_turned_jpeg_is_scaled_too() -> None:
    data = written(picture(width=160, height=96), "JPEG", exif=exif(6))
    assert tuple(decode(data, size=24).shape) == (3, 40, 24)
    assert decode_pil(data, size=24).size == (24, 40)


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders(order: str) -> None:
    mark = b"II" if order == "<" else b"MM"
    block = mark + struct.pack(f"{order}HIH", 42, 8, 1) + struct.pack(f"{order}HHIHH", 274, 3, 1, 7, 0)
    assert orientation(block) == 7
    assert orientation(b"Exif\0\0" + block) == 7
    big = mark + struct.pack(f"{order}HHHQQ", 43, 8, 0, 16, 1) + struct.pack(f"{order}HHQHHHH", 274, 3, 1, 5, 0, 0, 0)
    assert orientation(big) == 5


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"II",
        b"XX*\0\x08\0\0\0",
        b"II+\0\x08\0\0\0" + b"\xff" * 16,  # a directory far behind the end
        b"II*\0\xff\xff\xff\x7f",
        b"II*\0\0\0\0\0",
        b"II*\0\x08\0\0\0\xff\xff" + struct.pack("<HHIHH", 274, 3, 1, 9, 0),  # no ninth orientation
        b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHH", 274, 2, 1, 6, 0),  # text
        b"II*\0\x08\0\0\0\x01\0" + struct.pack("<HHIHH", 274, 3, 9, 6, 0),  # nine values, elsewhere
    ],
)
def test_exif_without_sense_turns_nothing(block: bytes) -> None:
    assert orientation(block) == 1
    data = written(picture(), "JPEG", exif=b"Exif\0\0" + block) if block else written(picture(), "JPEG")
    assert probe(data).orientation == 1


@given(st.binary(max_size=80))
def test_directories_of_any_bytes(noise: bytes) -> None:
    for start in (b"II*\0\x08\0\0\0", b"MM\0*\0\0\0\x08", b"II+\0\x08\0\0\0\x10\0\0\0\0\0\0\0"):
        assert all(value >= 0 for value in directory(start + noise, (256, 257, 274)).values())


@pytest.mark.parametrize("data", [b"", b"\xff\xd8", b"hello, world", b"RIFF\0\0\0\0WAVEfmt ", b"\0" * 100])
def test_what_is_no_image(data: bytes) -> None:
    with pytest.raises(FormatError, match="no image"):
        probe(data)


def test_the_limit_is_looked_at_before_decoding() -> None:
    data = bytearray(written(picture(), "PNG"))
    data[16:24] = struct.pack(">II", 50_000, 50_000)
    with pytest.raises(FormatError, match=r"50000 x 50000, 2,500,000,000 pixels; 178,956,970 are allowed") as caught:
        decode(bytes(data))
    assert caught.value.reason_name == "limit"


@pytest.mark.parametrize("format", WRITABLE)
def test_the_limit_is_the_callers(format: str) -> None:
    data = written(picture("L"), format)
    assert decode(data, max_pixels=61 * 47).shape[1:] == (47, 61)
    for call in (decode, decode_pil):
        with pytest.raises(FormatError, match="2,866 are allowed"):
            call(data, max_pixels=61 * 47 - 1)


def test_an_image_that_grows_when_it_is_opened_is_refused() -> None:
    # The picture of a GIF may be larger than the screen that the header tells.
    data = bytearray(written(picture("P"), "GIF"))
    data[6:10] = struct.pack("<HH", 10, 10)
    assert probe(bytes(data))[1:3] == (61, 47)
    assert tuple(decode(bytes(data)).shape) == (3, 47, 61)
    with pytest.raises(FormatError, match="61 x 47"):
        decode(bytes(data), max_pixels=100)


def test_no_pixels() -> None:
    data = bytearray(written(picture(), "JPEG"))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 2] = b"\0\0"
    with pytest.raises(FormatError, match="no pixels"):
        probe(bytes(data))
