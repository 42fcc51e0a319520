"""lz4: each plane is one LZ4 block that any decoder of that format reads."""

import lz4.block
import numpy as np
import pytest

from cordwood import codecs
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.errors import UsageError
from tests.codecs.support.inside import modes_of
from tests.format.support.craft import varint
from tests.format.support.readers import same_bits

WORDS = np.frombuffer(b"over and over and over, and then once more; " * 200, np.uint8)


@pytest.mark.parametrize("level", [1, 3, 9, 12])
def test_a_plane_is_an_lz4_block(level: int) -> None:
    frame = codecs.encode(WORDS, codecs.Plan.single("fast", "uint8", (Lz4(level),)))
    assert modes_of(frame) == [[4]]
    body = frame[codecs.frame_info(frame).payload_offset + 1 :]
    size = next(n for n in range(len(body)) if body.startswith(varint(n)) and len(varint(n)) + n == len(body))
    packed = body[len(varint(size)) :]
    assert lz4.block.decompress(packed, uncompressed_size=WORDS.nbytes) == WORDS.tobytes()
    assert same_bits(codecs.decode(frame), WORDS)
    assert len(frame) < WORDS.nbytes / 10


def test_noise_is_not_put_through_it() -> None:
    noise = np.frombuffer(np.random.default_rng(0).bytes(300_000), np.uint8)
    frame = codecs.encode(noise, codecs.Plan.single("fast", "uint8", (Lz4(),)))
    assert len(frame) <= noise.nbytes * 1.001 + 64
    assert same_bits(codecs.decode(frame), noise)


@pytest.mark.parametrize("level", [0, 13, False, None, 1.0])
def test_levels_out_of_range(level: object) -> None:
    with pytest.raises(UsageError, match=r"lz4: level is .*, but can be 1 to 12"):
        Lz4(level)  # type: ignore[arg-type]
