"""zstd: each plane is one Zstandard frame that any decoder of that format reads."""

import numpy as np
import pytest
import zstandard

from cordwood import codecs
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.zstd import Zstd
from cordwood.errors import UsageError
from tests.codecs.support.inside import modes_of
from tests.format.support.readers import reader, same_bits

TEXT = np.frombuffer(b"".join(b"%d times the same words, %d more. " % (i, i * i) for i in range(500)), np.uint8)


@pytest.mark.parametrize("level", [1, 3, 19, 22])
def test_a_plane_is_a_zstandard_frame(level: int) -> None:
    frame = codecs.encode(TEXT, codecs.Plan.single("small", "uint8", (Zstd(level),)))
    assert modes_of(frame) == [[3]]
    body = frame[codecs.frame_info(frame).payload_offset + 1 :]
    start = body.index((0xFD2FB528).to_bytes(4, "little"))
    assert zstandard.ZstdDecompressor().decompress(body[start:]) == TEXT.tobytes()
    assert same_bits(codecs.decode(frame), TEXT)
    assert len(frame) < TEXT.nbytes / 2


def test_higher_levels_are_smaller() -> None:
    sizes = [len(codecs.encode(TEXT, codecs.Plan.single("small", "uint8", (Zstd(level),)))) for level in (1, 19)]
    assert sizes[1] < sizes[0]


def test_noise_is_left_raw() -> None:
    noise = np.frombuffer(np.random.default_rng(0).bytes(30_000), np.uint16)
    array = noise.astype(np.uint32) + 65536 * np.repeat(np.arange(15_000 // 100), 100).astype(np.uint32)
    frame = codecs.encode(array, codecs.Plan.single("small", "uint32", (Planes(), Zstd())))
    assert modes_of(frame) == [[0, 0, 3, 1]]
    assert same_bits(codecs.decode(frame), array)


def test_a_dictionary_of_the_plan() -> None:
    rng = np.random.default_rng(0)
    words = b"hello world this message is of user said again never count".split()
    lines = [np.frombuffer(b" ".join(words[k] for k in rng.integers(0, len(words), 40)), np.uint8) for _ in range(300)]
    plan = codecs.plan(lines, "balanced", own=True)
    assert reader.read_plan(plan.chains[0].assets.encoded).dictionary
    alone = codecs.encode_many(lines, codecs.Plan.single("balanced", "uint8", (Zstd(19),)))
    frames = codecs.encode_many(lines, plan)
    assert sum(map(len, frames)) < 0.9 * sum(map(len, alone))
    assert {modes_of(frame, plan)[0][0] for frame in frames[:20]} == {5}
    for line, frame in zip(lines, frames, strict=True):
        assert same_bits(codecs.decode(frame, plans=[plan]), line)


@pytest.mark.parametrize("level", [0, 23, True, "3", 3.0])
def test_levels_out_of_range(level: object) -> None:
    with pytest.raises(UsageError, match=r"zstd: level is .*, but can be 1 to 22"):
        Zstd(level)  # type: ignore[arg-type]
