"""What the golden frames hold, by formula, and the plans they were written with.

Every array is made from `mixed`, which needs integers alone: it is the same everywhere and for ever.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from cordwood.codecs import Plan
from cordwood.codecs.assets import Assets, varint
from cordwood.codecs.formula import Formula
from cordwood.codecs.stages.base import Stage
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd
from tests.format.support import craft
from tests.format.support.craft_coding import describe, table_for

Array = npt.NDArray[np.generic]


@dataclass(frozen=True)
class Golden:
    """An array, the name of its dtype, and the chain that wrote it."""

    array: Array
    dtype: str
    stages: tuple[Stage, ...]
    assets: Assets = field(default_factory=Assets)

    @property
    def plan(self) -> Plan:
        return Plan.single("small", self.dtype, self.stages, self.assets)


def mixed(count: int, salt: int = 0) -> npt.NDArray[np.uint64]:
    """Numbers of 32 bits without order, from the count alone (the finisher of MurmurHash3)."""
    x = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B1) + np.uint64(salt * 0x85EBCA77)
    x &= np.uint64(0xFFFFFFFF)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        x = ((x ^ (x >> np.uint64(shift))) * np.uint64(factor)) & np.uint64(0xFFFFFFFF)
    return x


def hills(*shape: int) -> npt.NDArray[np.int64]:
    """A smooth image of numbers from 0 to 255, with a little noise."""
    grid = np.indices(shape).sum(axis=0) * 5
    rising = grid % 256
    folded = np.where(grid // 256 % 2 == 0, rising, 255 - rising)
    noise = mixed(folded.size).reshape(shape).astype(np.int64) % 4
    image: npt.NDArray[np.int64] = np.clip(folded + noise, 0, 255)
    return image


def geometric(count: int) -> npt.NDArray[np.uint8]:
    """Small numbers mostly: how many bits at the end of a number are zero."""
    low = mixed(count, 3)
    return np.array([(int(x) & -int(x)).bit_length() for x in low], np.uint8)


def _palette_assets(values: Array, code: int) -> Assets:
    """A plan's palette for the whole array: 8-bit codes."""
    return Assets.of(palette=bytes([code, 8, 255]) + varint(1) + varint(len(values)) + values.tobytes())


def _table_assets(coder: int, log: int) -> Assets:
    """Two tables, for small and for somewhat larger numbers."""
    tables = [table_for((geometric(300) * factor).tobytes(), coder, log) for factor in (1, 2)]
    return Assets.of(tables=craft.owned_tables(coder, log, 2, describe(tables, coder))[1:])


BITS32 = mixed(300).astype(np.uint32)
FEW = np.unique(mixed(40, 7).astype(np.uint32)).view(np.float32)
WORDS = np.frombuffer(b" ".join(b"cord %d wood %d" % (i % 7, i) for i in range(60)), np.uint8)
NORMALIZE = Formula((("/", (255.0,)), ("-", (0.485, 0.456, 0.406)), ("/", (0.229, 0.224, 0.225))), "float32", 256)


def _normalised(codes: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    mean, std = (np.array(x, np.float32).reshape(3, 1, 1) for x in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    result: npt.NDArray[np.float32] = (codes.astype(np.float32) / np.float32(255) - mean) / std
    return result


ANS, HUFFMAN = Entropy("ans", tile=8, max_tables=6), Entropy("huffman", tile=8, max_tables=6)

GOLDEN: dict[str, Golden] = {
    "raw-float64-scalar": Golden(np.array(-0.1), "float64", (Raw(),)),
    "raw-int16-empty": Golden(np.zeros((3, 0), np.int16), "int16", (Raw(),)),
    "raw-float32-any-bits": Golden(BITS32.view(np.float32), "float32", (Raw(),)),
    "raw-float8": Golden(mixed(100).astype(np.uint8), "float8_e5m2fnuz", (Raw(),)),
    "narrow-bool-bits": Golden(mixed(333) % 3 == 0, "bool", (Narrow(), Raw())),
    "narrow-constant": Golden(np.full((5, 4), -7, np.int32), "int32", (Narrow(), Raw())),
    "narrow-int64-8": Golden((mixed(200) % 200).astype(np.int64) - (1 << 62), "int64", (Narrow(), Raw())),
    "narrow-int64-16-ans": Golden(
        (mixed(400) % 1000).astype(np.int64) + 5, "int64", (Narrow(align_top=True), Planes(), ANS)
    ),
    "med-hw-uint8-huffman": Golden(hills(40, 37).astype(np.uint8), "uint8", (Predict("med", "hw"), HUFFMAN)),
    "med-chw-green-uint8-ans": Golden(
        hills(3, 24, 25).astype(np.uint8), "uint8", (Predict("med", "chw", "green"), ANS)
    ),
    "med-hwc-previous-uint8-ans": Golden(
        hills(2, 18, 19, 4).astype(np.uint8), "uint8", (Predict("med", "hwc", "previous"), ANS)
    ),
    "med-hw-uint16-huffman": Golden(
        (hills(30, 31) * 257).astype(np.uint16), "uint16", (Predict("med", "hw"), Planes(), HUFFMAN)
    ),
    "mixed-chw-green-uint8-ans": Golden(
        hills(3, 40, 37).astype(np.uint8), "uint8", (Predict("mixed", "chw", "green"), ANS)
    ),
    "mixed-hwc-previous-uint8-huffman": Golden(
        (hills(35, 33, 4) * np.array([1, 2, 3, 5]) // 4).astype(np.uint8),
        "uint8",
        (Predict("mixed", "hwc", "previous"), HUFFMAN),
    ),
    "mixed-hw-uint8-huffman": Golden(
        hills(33, 70).astype(np.uint8), "uint8", (Predict("mixed", "hw"), Entropy("huffman", tile=16, max_tables=6))
    ),
    "delta-int32-huffman": Golden(
        np.cumsum(mixed(500) % 50).astype(np.int32), "int32", (Predict("delta"), Planes(), HUFFMAN)
    ),
    "delta-int16-lag2-ans": Golden(
        (hills(600) * np.array([1, -1] * 300)).astype(np.int16), "int16", (Predict("delta", lag=2), Planes(), ANS)
    ),
    "rotated-bfloat16-ans": Golden(
        (geometric(800).astype(np.float32) * 0.37).view(np.uint32).__rshift__(16).astype(np.uint16),
        "bfloat16",
        (Planes(rotated=True), ANS),
    ),
    "rotated-float32-huffman": Golden(
        (geometric(500) * np.float32(0.013)).astype(np.float32), "float32", (Planes(rotated=True), HUFFMAN)
    ),
    "planes-complex64-huffman": Golden(
        (geometric(600) * np.float32(0.5)).astype(np.float32).view(np.complex64), "complex64", (Planes(), HUFFMAN)
    ),
    "palette-frame-float32-ans": Golden(FEW[mixed(700) % len(FEW)], "float32", (Palette(), ANS)),
    "palette-channel-float16": Golden(
        (hills(3, 10, 12) % 16 * np.array([1, 2, 3]).reshape(3, 1, 1)).astype(np.float16),
        "float16",
        (Palette(-3), HUFFMAN),
    ),
    "palette-formula-float32-med": Golden(
        _normalised(hills(3, 26, 24)),
        "float32",
        (Palette(-3, 8, "formula", NORMALIZE), Predict("med", "chw", "green"), ANS),
    ),
    "palette-plan-float32": Golden(
        FEW[mixed(300, 5) % len(FEW)], "float32", (Palette(None, 8, "plan"), HUFFMAN), _palette_assets(FEW, 11)
    ),
    "tables-plan-huffman": Golden(geometric(300), "uint8", (HUFFMAN,), _table_assets(craft.HUFFMAN, 11)),
    "tables-plan-ans": Golden(geometric(300) * np.uint8(2), "uint8", (ANS,), _table_assets(craft.ANS, 9)),
    "zstd-uint8": Golden(WORDS, "uint8", (Zstd(19),)),
    "lz4-uint8": Golden(WORDS, "uint8", (Lz4(9),)),
    "zstd-dictionary-uint8": Golden(
        WORDS[100:260], "uint8", (Zstd(19),), Assets.of(dictionary=WORDS[260:700].tobytes())
    ),
}
