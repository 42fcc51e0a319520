"""Every decoder gives Pillow's pixels, whatever the format and the kind of pixel."""

import io
import pickle
import struct
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps

from cordwood.errors import FormatError, UsageError
from cordwood.images import Decoder, best, decode, decode_pil, probe
from cordwood.images.fast_decoders import module
from tests.images.pictures import DECODERS, WRITABLE, by_pillow, exif, picture, tensor, written

pytest.importorskip("cv2")
pytest.importorskip("simplejpeg")

KINDS = [(format, mode) for format, modes in WRITABLE.items() for mode in modes]
ALIKE = [(format, mode) for format, mode in KINDS if mode != "I;16"]


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize(("format", "mode"), ALIKE)
def test_pixels_are_those_of_pillow(decoder: Decoder, format: str, mode: str) -> None:
    data = written(picture(mode), format)
    image = decoder.decode(data)
    assert image.dtype == torch.uint8
    assert image.is_contiguous()
    assert torch.equal(image, by_pillow(data))


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize(("format", "mode"), [*KINDS, ("TIFF", "I"), ("TIFF", "F"), ("TIFF", "PA")])
def test_a_pil_image_has_the_mode_of_the_file(decoder: Decoder, format: str, mode: str) -> None:
    image = picture("P").convert("PA") if mode == "PA" else picture(mode)
    data = written(image, format)
    found = decoder.decode_pil(data)
    with Image.open(io.BytesIO(data)) as expected:
        assert (found.mode, found.size) == (expected.mode, expected.size)
        assert found.tobytes() == expected.tobytes()
        assert found.getpalette() == expected.getpalette()
    if format == "PNG" or (format == "TIFF" and mode != "PA"):  # which keep the mode; others have fewer of them
        assert found.mode == mode
        assert np.array_equal(np.asarray(found), np.asarray(image))


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("turn", range(2, 9))
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_a_pil_image_of_any_mode_is_upright(decoder: Decoder, mode: str, turn: int) -> None:
    image = picture(mode, 40, 24)
    for format in ("PNG", "TIFF"):
        data = written(image, format, exif=exif(turn))
        with Image.open(io.BytesIO(data)) as expected:
            upright = ImageOps.exif_transpose(expected)
            found = decoder.decode_pil(data)
            assert (found.mode, found.size) == (mode, upright.size)
            assert found.tobytes() == upright.tobytes()


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@given(
    width=st.integers(1, 70),
    height=st.integers(1, 70),
    quality=st.integers(5, 100),
    subsampling=st.integers(0, 2),
    progressive=st.booleans(),
    grey=st.booleans(),
)
def test_jpegs_of_any_size_and_quality(
    decoder: Decoder, width: int, height: int, quality: int, subsampling: int, progressive: bool, grey: bool
) -> None:
    image = picture("L" if grey else "RGB", width, height, quality)
    data = written(image, "JPEG", quality=quality, subsampling=subsampling, progressive=progressive)
    assert torch.equal(decoder.decode(data), by_pillow(data))


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@given(width=st.integers(1, 40), height=st.integers(1, 40), format=st.sampled_from(["PNG", "WEBP", "BMP"]))
def test_other_formats_of_any_size(decoder: Decoder, width: int, height: int, format: str) -> None:
    image = picture("RGB", width, height)
    assert torch.equal(decoder.decode(written(image, format)), tensor(image))


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("options", [{"lossless": False, "quality": 70}, {"lossless": False, "alpha_quality": 50}])
@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_lossy_webp(decoder: Decoder, mode: str, options: dict[str, Any]) -> None:
    data = written(picture(mode), "WEBP", **options)
    assert torch.equal(decoder.decode(data), by_pillow(data))
    assert decoder.decode_pil(data).mode == mode


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("format", ["PNG", "WEBP", "GIF", "TIFF"])
def test_the_first_picture_of_several(decoder: Decoder, format: str) -> None:
    first, second = picture("RGB", seed=1), picture("RGB", seed=2)
    if format == "GIF":
        first, second = first.quantize(64), second.quantize(64)
    data = written(first, format, save_all=True, append_images=[second])
    assert torch.equal(decoder.decode(data), tensor(first.convert("RGB")))


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("format", ["PNG", "TIFF"])
def test_sixteen_bits_of_grey_keep_the_upper_byte(decoder: Decoder, format: str) -> None:
    image = picture("I;16")
    upper = torch.from_numpy((np.asarray(image) >> 8).astype(np.uint8))
    assert torch.equal(decoder.decode(written(image, format)), upper.expand(3, -1, -1))


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("channels", [3, 4])
def test_sixteen_bits_of_colour_keep_the_upper_byte(decoder: Decoder, channels: int) -> None:
    import cv2

    deep = np.random.default_rng(0).integers(0, 1 << 16, (20, 30, channels), dtype=np.uint16)
    data = cv2.imencode(".png", deep)[1].tobytes()
    upper = (deep[:, :, 2::-1] >> 8).astype(np.uint8).transpose(2, 0, 1)
    assert torch.equal(decoder.decode(data), torch.from_numpy(np.ascontiguousarray(upper)))


@pytest.mark.parametrize("dtype", [np.int32, np.float32])
def test_samples_of_32_bits_are_refused(dtype: type) -> None:
    data = written(Image.fromarray(np.ones((4, 5), dtype)), "TIFF")
    with pytest.raises(FormatError, match=r'32 bits.*decode="none"'):
        decode(data)
    assert decode_pil(data).mode == ("I" if dtype is np.int32 else "F")


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("transparency", [7, bytes(range(40))])
def test_a_transparent_palette_is_its_colours(decoder: Decoder, transparency: int | bytes) -> None:
    image = picture("P")
    data = written(image, "PNG", transparency=transparency)
    assert torch.equal(decoder.decode(data), tensor(image.convert("RGB")))


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_notes_about_colours_change_no_pixel(decoder: Decoder) -> None:
    image = picture()
    data = written(image, "PNG")
    gamma = b"gAMA" + struct.pack(">I", 100_000)
    chunk = struct.pack(">I", 4) + gamma + struct.pack(">I", zlib.crc32(gamma))
    assert torch.equal(decoder.decode(data[:33] + chunk + data[33:]), tensor(image))


def test_bitmaps_stored_from_above() -> None:
    image = picture(width=30, height=20)
    data = bytearray(written(image.transpose(Image.Transpose.FLIP_TOP_BOTTOM), "BMP"))
    data[22:26] = struct.pack("<i", -20)
    assert torch.equal(decode(bytes(data)), tensor(image))
    assert torch.equal(by_pillow(bytes(data)), tensor(image))


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize(
    ("size", "scale"), [(None, 1), (401, 1), (400, 1), (201, 1), (200, 2), (101, 2), (100, 4), (50, 8), (1, 8)]
)
def test_a_jpeg_is_scaled_as_far_as_the_size_allows(decoder: Decoder, size: int | None, scale: int) -> None:
    data = written(picture("RGB", 603, 400), "JPEG")
    image = decoder.decode(data, size=size)
    assert tuple(image.shape) == (3, -(-400 // scale), -(-603 // scale))
    with Image.open(io.BytesIO(data)) as drafted:
        drafted.draft("RGB", (603 // scale, 400 // scale))
        assert torch.equal(image, tensor(drafted))


def test_only_jpegs_are_scaled() -> None:
    assert tuple(decode(written(picture(), "PNG"), size=5).shape) == (3, 47, 61)


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_an_impossible_size_is_refused(format: str) -> None:
    with pytest.raises(UsageError, match="at least 1, not 0"):
        decode(written(picture(), format), size=0)


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
def test_a_decoder_travels_and_says_what_it_is(decoder: Decoder) -> None:
    import cv2
    import PIL

    assert pickle.loads(pickle.dumps(decoder)) == decoder
    versions = decoder.versions()
    assert versions["tiff"] == f"pillow {PIL.__version__}"
    assert sorted(versions) == ["bmp", "gif", "jpeg", "png", "tiff", "webp"]
    if decoder.png == "opencv":
        assert versions["png"] == f"opencv {cv2.__version__}"


def test_the_best_is_what_was_measured() -> None:
    assert best() == Decoder(jpeg="simplejpeg", png="opencv", webp="opencv")


@pytest.mark.parametrize(
    ("missing", "chosen"),
    [
        ({"simplejpeg"}, Decoder(jpeg="opencv", png="opencv", webp="opencv")),
        ({"cv2"}, Decoder(jpeg="simplejpeg")),
        ({"cv2", "simplejpeg"}, Decoder()),
    ],
)
def test_the_best_of_what_is_installed(missing: set[str], chosen: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.images.decoder.module", lambda name: None if name in missing else module(name))
    assert best.__wrapped__() == chosen


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cordwood.images.decoder.module", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'cordwood\[images\]'"):
        best.__wrapped__()
    with pytest.raises(UsageError, match=r"simplejpeg .* not installed; pip install 'cordwood\[images\]'"):
        Decoder(jpeg="simplejpeg").decode(written(picture(), "JPEG"))
    with pytest.raises(UsageError, match="Pillow"):
        Decoder().decode(written(picture(), "PNG"))


def test_an_unknown_decoder_is_refused() -> None:
    with pytest.raises(UsageError, match="'turbo'"):
        Decoder(jpeg="turbo")


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("channels", [3, 4])
def test_a_pil_image_of_deep_colour_is_as_pillow_opens_it(decoder: Decoder, channels: int) -> None:
    import cv2

    deep = np.random.default_rng(0).integers(0, 1 << 16, (20, 30, channels), dtype=np.uint16)
    data = cv2.imencode(".png", deep)[1].tobytes()
    with Image.open(io.BytesIO(data)) as expected:
        found = decoder.decode_pil(data)
        assert (found.mode, found.tobytes()) == (expected.mode, expected.tobytes())


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("progressive", [False, True])
def test_stray_bytes_before_the_end_are_borne(decoder: Decoder, progressive: bool) -> None:
    data = written(picture(), "JPEG", progressive=progressive)
    assert torch.equal(decoder.decode(data[:-2] + b"\x11\x22\x33" + data[-2:]), by_pillow(data))


def test_probe_does_not_decode() -> None:
    data = written(picture(), "PNG")
    assert probe(data[:40])[:3] == ("png", 61, 47)
