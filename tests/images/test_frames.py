"""All frames are Pillow's, one by one, and nothing is decoded before their number and sizes are known."""

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from cordwood.errors import FormatError
from cordwood.images import MAX_PIXELS, Frames, decode, probe
from cordwood.images.exif import pages
from cordwood.images.header import MAX_FRAMES
from tests.images.pictures import WRITABLE, animated, exif, frames_by_pillow, picture, scenes, tensor, written

FORMATS = ("GIF", "PNG", "WEBP", "TIFF")


def count_of(image: Image.Image) -> int:
    count: int = getattr(image, "n_frames", 1)
    return count


def found(data: bytes, max_pixels: int = MAX_PIXELS) -> Frames:
    return Frames(data, probe(data, max_pixels), max_pixels)


def assert_as_pillow(data: bytes) -> None:
    expected = frames_by_pillow(data)
    assert probe(data).frames == len(expected) == found(data).count
    assert torch.equal(found(data).stacked(), expected)
    for image, (frame, mode) in zip(found(data), raw_frames(data), strict=True):
        assert (image.mode, image.tobytes()) == (mode, frame)
    assert torch.equal(decode(data), expected[0])


def raw_frames(data: bytes) -> Iterator[tuple[bytes, str]]:
    with Image.open(io.BytesIO(data)) as image:
        for number in range(count_of(image)):
            image.seek(number)
            image.load()
            yield image.tobytes(), image.mode


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA"])
@pytest.mark.parametrize("count", [2, 5])
def test_frames_are_those_of_pillow(format: str, mode: str, count: int) -> None:
    assert_as_pillow(animated(format, scenes(count, mode)))


@pytest.mark.parametrize("disposal", [0, 1, 2, 3, [0, 2, 3, 1], [3, 3, 2, 0]])
@pytest.mark.parametrize("mode", ["P", "RGBA"])
def test_every_disposal_of_gif(disposal: Any, mode: str) -> None:
    frames = [frame.quantize(30) if mode == "P" else frame for frame in scenes(4)]
    assert_as_pillow(animated("GIF", frames, disposal=disposal, duration=50, loop=0))


@pytest.mark.parametrize("default_image", [False, True])
@pytest.mark.parametrize("blend", [0, 1])
@pytest.mark.parametrize("disposal", [0, 1, 2, [0, 2, 1, 0]])
def test_every_way_of_apng(default_image: bool, blend: int, disposal: Any) -> None:
    assert_as_pillow(animated("PNG", scenes(4), disposal=disposal, blend=blend, default_image=default_image))


@pytest.mark.parametrize("format", ["GIF", "PNG", "WEBP"])
@given(data=st.data())
@settings(max_examples=30)
def test_any_animation(format: str, data: st.DataObject) -> None:
    count, seed = data.draw(st.integers(2, 6)), data.draw(st.integers(0, 9))
    width, height = data.draw(st.integers(2, 40)), data.draw(st.integers(2, 40))
    options: dict[str, Any] = {}
    if format != "WEBP":
        options["disposal"] = data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    if format == "PNG":
        options["blend"] = data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
        options["default_image"] = data.draw(st.booleans())
    frames = scenes(count, data.draw(st.sampled_from(["RGB", "RGBA"])), width, height, seed)
    made = animated(format, frames, **options)
    with Image.open(io.BytesIO(made)) as image:
        if count_of(image) > 1:  # frames that are alike are one
            assert_as_pillow(made)
        else:
            assert probe(made).frames == 1


@pytest.mark.parametrize("format", WRITABLE)
def test_stills_have_one_frame(format: str) -> None:
    for mode in WRITABLE[format]:
        assert probe(written(picture(mode), format)).frames == 1


@pytest.mark.parametrize("format", FORMATS)
def test_animations_of_one_frame_are_stills(format: str) -> None:
    assert probe(animated(format, scenes(1))).frames == 1


def test_an_invalid_count_is_no_animation() -> None:
    """As Pillow takes it: no frames, or two counts."""
    data = animated("PNG", scenes(3))
    at = data.index(b"acTL") - 4
    control = data[at : at + 20]
    for changed in (chunk(b"acTL", struct.pack(">II", 0, 0)), control * 2):
        broken = data[:at] + changed + data[at + 20 :]
        with pytest.warns(UserWarning, match="Invalid APNG"), Image.open(io.BytesIO(broken)) as image:
            assert count_of(image) == 1
        assert probe(broken).frames == 1


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def test_a_count_behind_the_pixels_is_no_animation() -> None:
    data = written(picture(), "PNG")
    assert probe(data[:-12] + chunk(b"acTL", struct.pack(">II", 3, 0)) + data[-12:]).frames == 1


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("compression", [None, "tiff_lzw", "tiff_deflate"])
def test_pages_of_tiff(big: bool, compression: str | None) -> None:
    assert_as_pillow(
        animated("TIFF", [picture("RGB", seed=n) for n in range(3)], compression=compression, big_tiff=big)
    )


@pytest.mark.parametrize("turn", range(1, 9))
def test_pages_come_upright(turn: int) -> None:
    frames = [picture("RGB", 40, 24, seed) for seed in range(3)]
    for format in ("TIFF", "WEBP"):
        data = animated(format, frames, exif=exif(turn), **({"lossless": True} if format == "WEBP" else {}))
        assert probe(data).frames == 3
        each = torch.stack([decode(written(frame, "PNG", exif=exif(turn))) for frame in frames])
        assert torch.equal(found(data).stacked(), each)


def test_sixteen_bits_of_grey_keep_the_upper_byte() -> None:
    frames = [picture("I;16", seed=seed) for seed in range(2)]
    data = animated("TIFF", frames)
    upper = np.stack([np.asarray(frame) >> 8 for frame in frames]).astype(np.uint8)
    assert torch.equal(found(data).stacked(), torch.from_numpy(upper)[:, None].expand(-1, 3, -1, -1))
    assert [image.mode for image in found(data)] == ["I;16", "I;16"]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (picture("RGB", 30, 20), r"page 3 of 4 is 30 x 20 of mode RGB, but page 1 is 61 x 47 of mode RGB"),
        (picture("L"), r"page 3 of 4 is 61 x 47 of mode L, but page 1 is 61 x 47 of mode RGB"),
    ],
)
def test_pages_that_differ_are_refused(other: Image.Image, told: str) -> None:
    data = animated("TIFF", [picture(), picture(seed=1), other, picture(seed=2)])
    with pytest.raises(FormatError, match=told):
        found(data)
    assert torch.equal(decode(data), tensor(picture()))


def test_a_frame_that_grows_is_refused() -> None:
    data = bytearray(animated("GIF", scenes(3, "L"), duration=50))
    at = data.rindex(b"!\xf9\x04") + 8
    assert data[at : at + 1] == b","
    data[at + 1 : at + 3] = struct.pack("<H", 1000)
    assert probe(bytes(data)).frames == 3
    with pytest.raises(FormatError, match=r"frame 3 of 3 is 10\d\d x 30, but frame 1 is 40 x 30"):
        found(bytes(data)).stacked()


@pytest.mark.parametrize("format", FORMATS)
def test_the_limit_counts_all_frames(format: str) -> None:
    data = animated(format, scenes(3))
    assert found(data, 3 * 40 * 30).count == 3
    with pytest.raises(FormatError, match=r"3 (frames|pages) of 40 x 30, 3,600 pixels; 3,599 are allowed") as caught:
        found(data, 3 * 40 * 30 - 1)
    assert caught.value.reason_name == "limit"
    assert decode(data, max_pixels=40 * 30).shape == (3, 30, 40)


def test_the_limit_is_looked_at_before_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytearray(animated("PNG", scenes(2)))
    at = data.index(b"acTL")
    data[at - 4 : at + 16] = chunk(b"acTL", struct.pack(">II", 1 << 13, 0))
    monkeypatch.setattr("cordwood.images.frames.opened", lambda *_: pytest.fail("opened"))
    with pytest.raises(FormatError, match=r"8,192 frames of 40 x 30, 9,830,400 pixels; 1,000,000 are allowed"):
        found(bytes(data), 1_000_000)


def test_too_many_frames_are_refused() -> None:
    data = bytearray(animated("PNG", scenes(2)))
    at = data.index(b"acTL")
    data[at - 4 : at + 16] = chunk(b"acTL", struct.pack(">II", 1 << 31, 0))
    with pytest.raises(FormatError, match="16,384 frames or more"):
        found(bytes(data), 1 << 60)


def test_directories_in_a_circle_are_counted_once() -> None:
    data = b"II*\0\x08\0\0\0" + struct.pack("<HI", 0, 14) + struct.pack("<HI", 0, 8)
    assert pages(data, 100) == 2
    chain = b"II*\0\x08\0\0\0" + b"".join(struct.pack("<HI", 0, 14 + 6 * n) for n in range(MAX_FRAMES + 9))
    assert pages(chain, MAX_FRAMES) == MAX_FRAMES


@pytest.mark.parametrize("format", FORMATS)
def test_a_file_that_is_cut_short_is_refused(format: str) -> None:
    data = animated(format, [picture("RGB", seed=n) for n in range(3)])
    for size in (len(data) * 2 // 3, len(data) - len(data) // 8):
        try:
            header = probe(data[:size])
        except FormatError:
            continue
        if header.frames > 1:
            with pytest.raises(FormatError):
                Frames(data[:size], header, MAX_PIXELS).stacked()


@pytest.mark.parametrize("format", FORMATS)
@given(cut=st.floats(0, 1), noise=st.binary(max_size=20))
@settings(max_examples=40)
def test_damage_is_a_format_error_or_frames(format: str, cut: float, noise: bytes) -> None:
    data = animated(format, scenes(3))
    at = int(cut * len(data))
    damaged = data[:at] + noise + data[at + len(noise) :]
    try:
        header = probe(damaged, 1 << 22)
        made = Frames(damaged, header, 1 << 22).stacked() if header.frames > 1 else None
    except FormatError:
        return
    assert made is None or (made.ndim == 4 and made.numel() <= 3 << 22)
