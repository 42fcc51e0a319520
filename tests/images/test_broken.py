"""Broken images: cut short, damaged, hostile. Nothing but FormatError, and no half-grey pictures."""

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.errors import FormatError
from cordwood.images import Decoder, decode, decode_pil, probe
from tests.images.pictures import DECODERS, WRITABLE, exif, picture, written

pytest.importorskip("cv2")
pytest.importorskip("simplejpeg")

SEEDS: list[bytes] = [
    *(written(picture(mode, 33, 21), format) for format, modes in WRITABLE.items() for mode in modes),
    written(picture("RGB", 33, 21), "JPEG", progressive=True, exif=exif(6)),
    written(picture("RGB", 33, 21), "WEBP", lossless=False, exif=exif(3)),
    written(picture("RGB", 33, 21), "PNG", exif=exif(5)),
    written(picture("RGB", 33, 21), "TIFF", compression="tiff_lzw"),
]
WHOLE: list[tuple[str, dict[str, Any]]] = [
    ("JPEG", {}),
    ("JPEG", {"progressive": True}),
    ("PNG", {}),
    ("WEBP", {}),
    ("WEBP", {"lossless": False}),
    ("BMP", {}),
    ("TIFF", {}),
]


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize(("format", "options"), WHOLE)
def test_what_is_cut_short_is_refused(decoder: Decoder, format: str, options: dict[str, Any]) -> None:
    data = written(picture(), format, **options)
    # The end of a PNG file is a chunk without pixels; a TIFF file of Pillow's ends with its pixels.
    for end in (len(data) * 99 // 100 - 14, len(data) // 2, len(data) // 5, 30, 13):
        for call in (decoder.decode, decoder.decode_pil):
            with pytest.raises(FormatError, match=format.lower()):
                call(data[:end])


@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_without_its_end_is_refused(decoder: Decoder, progressive: bool) -> None:
    data = written(picture(), "JPEG", progressive=progressive)
    for end in range(len(data) - 40, len(data) - 1):
        with pytest.raises(FormatError, match=r"truncated|broken|Truncated|Premature"):
            decoder.decode(data[:end])


def test_the_message_names_what_failed() -> None:
    data = written(picture(), "PNG")
    with pytest.raises(FormatError, match=rf"the png image of {len(data) // 2} bytes cannot be decoded: \w+"):
        decode(data[: len(data) // 2])


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(SEEDS)))
    for _ in range(draw(st.integers(1, 4))):
        # Headers are where most of the decisions are taken.
        last = draw(st.sampled_from([len(data) - 1, min(len(data) - 1, 120)]))
        at = draw(st.integers(0, last))
        how = draw(st.sampled_from(["set", "cut", "drop", "add"]))
        if how == "set":
            data[at] = draw(st.integers(0, 255))
        elif how == "cut":
            del data[at + 1 :]
        elif how == "drop":
            del data[at : at + draw(st.integers(1, min(20, len(data) - 1) or 1))]
        else:
            data[at:at] = draw(st.binary(min_size=1, max_size=20))
        if not data:
            data = bytearray(b"\xff")
    return bytes(data)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")  # what Pillow has to say of odd metadata
@pytest.mark.parametrize("decoder", DECODERS.values(), ids=DECODERS)
@settings(max_examples=250)
@given(data=damaged())
def test_damage_is_a_format_error_or_an_image(decoder: Decoder, data: bytes) -> None:
    try:
        image = decoder.decode(data, size=8, max_pixels=1 << 20)
    except FormatError:
        with pytest.raises(FormatError):
            decoder.decode_pil(data, size=8, max_pixels=1 << 20)
        return
    assert image.shape[0] == 3
    assert image.shape[1] * image.shape[2] <= 1 << 20
    again = decoder.decode_pil(data, size=8, max_pixels=1 << 20)
    assert again.size == (image.shape[2], image.shape[1])


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@settings(max_examples=200)
@given(data=damaged())
def test_with_simplejpeg_damage_is_judged_as_pillow_does(data: bytes) -> None:
    def outcome(decoder: Decoder) -> torch.Tensor | None:
        try:
            return decoder.decode(data, max_pixels=1 << 20)
        except FormatError:
            return None

    fast, judge = outcome(Decoder(jpeg="simplejpeg")), outcome(Decoder())
    assert (fast is None) == (judge is None)
    assert fast is None or judge is None or torch.equal(fast, judge)


@settings(max_examples=200)
@given(st.sampled_from(SEEDS).flatmap(lambda data: st.integers(0, len(data)).map(lambda end: data[:end])))
def test_headers_cut_anywhere(data: bytes) -> None:
    try:
        assert probe(data).width > 0
    except FormatError:
        pass
    else:
        assert len(data) > 12


@given(st.binary(max_size=200))
def test_noise_behind_a_magic_number(noise: bytes) -> None:
    for start in (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBPVP8 ", b"BM", b"GIF89a"):
        for call in (decode, decode_pil):
            try:
                call(start + noise, max_pixels=1 << 16)
            except FormatError as error:
                assert str(error)
