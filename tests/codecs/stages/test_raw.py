"""raw: the bytes as they are, where a reader can find them without decoding."""

import numpy as np
import pytest

from cordwood import codecs
from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.raw import Raw
from cordwood.errors import FormatError
from tests.format.support.craft import Array
from tests.format.support.readers import same_bits
from tests.format.support.samples import random_bits


def payload(frame: bytes, array: Array) -> Array:
    """The array's bytes as they lie in the frame."""
    return np.frombuffer(frame, array.dtype, offset=codecs.frame_info(frame).payload_offset)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_bytes_lie_in_the_frame(dtype: str) -> None:
    array = random_bits(dtype, (37, 11))
    frame = codecs.encode(array, "raw", dtype=dtype)
    assert payload(frame, array).tobytes() == array.tobytes()
    assert codecs.frame_info(frame).chain == "raw"
    assert len(frame) - array.nbytes < 40


@pytest.mark.parametrize("nbytes", [65536, 65537, 262144, 262145, 3_000_000])
def test_from_64_kib_on_they_are_aligned(nbytes: int) -> None:
    array = random_bits("uint8", (nbytes,))
    frame = codecs.encode(array, "raw")
    info = codecs.frame_info(frame)
    assert info.payload_offset % 64 == 0
    assert info.size == info.payload_offset + nbytes
    assert same_bits(payload(frame, array), array)
    assert same_bits(codecs.decode(frame), array)


def test_codes_can_be_stored_too() -> None:
    array = random_bits("uint8", (1000,)).astype(np.int64) + 10**12
    frame = codecs.encode(array, codecs.Plan.single("fast", "int64", (Narrow(), Raw())))
    assert codecs.frame_info(frame).chain == "narrow | raw"
    assert len(frame) < 1000 + 60
    assert same_bits(codecs.decode(frame), array)


def test_changed_bytes_are_seen() -> None:
    frame = bytearray(codecs.encode(random_bits("float32", (1000,)), "raw"))
    frame[-1] ^= 1
    with pytest.raises(FormatError, match="15, block-checksum"):
        codecs.decode(frame)
