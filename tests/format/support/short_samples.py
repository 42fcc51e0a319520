"""Good short frames with their plans and what they hold: one for each thing that the page says of them."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.format.support import craft, craft_coding
from tests.format.support.craft import ANS, HUFFMAN, Array, coded
from tests.format.support.craft_coding import CONSTANT, ENTROPY, LZ4, RAW, ZSTD, ZSTD_DICTIONARY, Entropy
from tests.format.support.craft_short import (
    AS_IS,
    NARROW,
    Chain,
    ShortPlan,
    flat_block,
    image_block,
    one_chain,
    range_of,
    short_frame,
    template,
)
from tests.format.support.samples import random_bits, skewed, smooth

WORDS = b"the words of the plan, which are those of its arrays "


@dataclass(frozen=True)
class Short:
    """A short frame, its plan, and its array."""

    name: str
    frame: bytes
    plan: ShortPlan
    array: Array


def stored() -> Iterator[Short]:
    """Elements as they are, and where the dimensions come from."""
    numbers = np.arange(6, dtype="u1").reshape(2, 3)
    for shape, dims in (([2, 3], ()), ([None, 3], (2,)), ([2, None], (3,)), ([None, None], (2, 3))):
        plan = one_chain("uint8", list(shape))
        yield Short(f"shape {shape}", short_frame(dims=dims, block=numbers.tobytes()), plan, numbers)
    yield Short("no dimensions", short_frame(block=b"\7"), one_chain("uint8", []), np.array(7, "u1"))
    for dtype in craft.DTYPES:
        array = random_bits(dtype, (3, 2), 1)
        yield Short(
            f"stored {dtype}", short_frame(dims=(3,), block=array.tobytes()), one_chain(dtype, [None, 2]), array
        )
    long = np.zeros(300, "u1")
    yield Short(
        "a dimension of two bytes", short_frame(dims=(300,), block=bytes(300)), one_chain("uint8", [None]), long
    )
    other = Chain(template(coder=coded()))
    plan = ShortPlan("uint8", [3], [other] * 63 + [Chain(template())])
    yield Short("chain 63", short_frame(63, block=b"abc"), plan, np.frombuffer(b"abc", "u1"))
    plan = ShortPlan("uint8", [3], [Chain(None), Chain(template())])
    yield Short("beside a chain without a template", short_frame(1, block=b"abc"), plan, np.frombuffer(b"abc", "u1"))
    large = random_bits("uint8", (40_000,), 2)
    yield Short(
        "more than a writer makes short", short_frame(block=large.tobytes()), one_chain("uint8", [40_000]), large
    )


def empty() -> Iterator[Short]:
    """Arrays without elements: no range, no block, and no stage that minds."""
    owned = craft.assets(craft.owned_palette("float32", [np.arange(4, dtype="<u4")]))
    for label, dtype, chain, assets in (
        ("stored", "uint8", template(), b""),
        ("narrow", "int32", template(NARROW, craft.delta(), 1, coded()), b""),
        ("med", "uint8", template(predict=craft.med(1, 1), coder=coded(0, 4, 4)), b""),
        ("a palette", "float32", template(craft.palette_of_plan(), craft.med(0), 2, coded()), owned),
    ):
        plan = one_chain(dtype, [None, 3, 4], chain, assets)
        yield Short(f"empty, {label}", short_frame(dims=(0,)), plan, np.zeros((0, 3, 4), dtype))
    yield Short("empty as the plan says", short_frame(), one_chain("uint8", [0]), np.zeros(0, "u1"))


def narrow() -> Iterator[Short]:
    """Every kind of range."""
    same = np.full((2, 2), -5, "i2")
    yield Short("0 bits", short_frame(narrow=range_of(0, -5)), one_chain("int16", [2, 2], template(NARROW)), same)
    flags = np.array([7, 8, 8, 7, 8, 7, 7, 7, 8, 8, 7], "i4")
    ones = np.packbits((flags - 7).astype("u1"), bitorder="little").tobytes()
    for label, chain, mode in (("stored", template(NARROW), b""), ("coded", template(NARROW, coder=coded()), b"\0")):
        frame = short_frame(dims=(11,), narrow=range_of(1, 7), block=mode + ones)
        yield Short(f"1 bit, 11 elements, {label}", frame, one_chain("int32", [None], chain), flags)
    truths = np.array([True, False, True])
    yield Short(
        "1 bit of bool", short_frame(narrow=range_of(1), block=b"\5"), one_chain("bool", [3], template(NARROW)), truths
    )
    for bits in (8, 16, 32, 64):
        codes = np.array([0, 3, 2 ** (bits - 1), 2**bits - 1, 1], f"<u{bits // 8}")
        array = (codes.astype("u8") + np.uint64(2**64 - 100)).view("i8")
        frame = short_frame(narrow=range_of(bits, -100), block=codes.tobytes())
        yield Short(f"{bits} bits", frame, one_chain("int64", [5], template(NARROW)), array)
        if bits > 8:
            shift = 5
            shifted = np.array([0, 3, 2 ** (bits - shift) - 1], codes.dtype)
            array = (shifted.astype("u8") + np.uint64(9)).view("i8")
            frame = short_frame(narrow=range_of(bits, 9, shift), block=(shifted << shift).tobytes())
            yield Short(f"{bits} bits, shift {shift}", frame, one_chain("int64", [3], template(NARROW)), array)
    high = np.array([2**63, 2**64 - 1], "u8")
    frame = short_frame(narrow=range_of(64, -(2**63)), block=(high - high[0]).tobytes())
    yield Short("a minimum of uint64 above 2^63", frame, one_chain("uint64", [2], template(NARROW)), high)
    top = np.array([0, 1, 5], "<u8")
    frame = short_frame(narrow=range_of(64, 0, 31), block=(top << np.uint64(31)).tobytes())
    yield Short("shift 31", frame, one_chain("uint64", [3], template(NARROW)), top)
    as_is = np.array([-1, 5], "<i4")
    plan = one_chain("int32", [2], template(NARROW))
    yield Short("range 6", short_frame(narrow=AS_IS, block=as_is.tobytes()), plan, as_is)


def coded_planes() -> Iterator[Short]:
    """Modes, with and without sizes; and what the chain's assets own."""
    array = np.frombuffer(WORDS * 3, "u1")
    plan = one_chain("uint8", [None], template(coder=coded()))
    for label, mode in (("raw", RAW), ("zstd", ZSTD), ("lz4", LZ4), ("entropy", ENTROPY)):
        frame = short_frame(dims=(array.size,), block=flat_block(array, [mode]))
        yield Short(f"one plane, {label}", frame, plan, array)
    bare = short_frame(dims=(array.size,), block=bytes([ZSTD]) + craft_coding.zstd(WORDS * 3)[4:])
    yield Short("a whole Zstandard frame but for its magic number", bare, plan, array)
    constant = short_frame(dims=(4,), block=bytes([CONSTANT, 9]))
    yield Short("one plane, constant", constant, plan, np.full(4, 9, "u1"))

    owner = craft.assets(dictionary=WORDS)
    dictionary = one_chain("uint8", [None], template(coder=coded()), owner)
    block = flat_block(array, [ZSTD_DICTIONARY], dictionary=WORDS)
    yield Short("the plan's dictionary", short_frame(dims=(array.size,), block=block), dictionary, array)

    wide = smooth((400,), "int16", 3)
    plan = one_chain("int16", [None], template(planes=1, coder=coded()))
    for modes in ((ZSTD, RAW), (RAW, ZSTD), (LZ4, ENTROPY), (CONSTANT, LZ4)):
        values = np.full(400, 7, "<i2") if CONSTANT in modes else wide
        frame = short_frame(dims=(400,), block=flat_block(values, modes, planes=1))
        yield Short(f"two planes, modes {modes}", frame, plan, values)
    floats = random_bits("float32", (50,), 4)
    plan = one_chain("float32", [50], template(planes=2, coder=coded()))
    block = flat_block(floats.view("<u4"), [RAW, ZSTD, LZ4, RAW], planes=2)
    yield Short("four planes, rotated", short_frame(block=block), plan, floats)

    symbols = skewed(500, 5)
    for coder, log in ((HUFFMAN, 11), (ANS, 9)):
        table = craft_coding.table_for(symbols, coder, log)
        described = craft_coding.describe([table], coder)
        assets = craft.assets(tables=craft.owned_tables(coder, log, 1, described))
        chain = template(coder=coded(coder, 0, 6))
        entropy = Entropy([table], coder, log, tile=(1, 2**6), of_plan=True)
        plan = ShortPlan("uint8", [None], [Chain(template()), Chain(chain, assets)])
        frame = short_frame(1, dims=(500,), block=flat_block(symbols, [ENTROPY], entropy=entropy))
        yield Short(f"the plan's tables of coder {coder}", frame, plan, symbols)


def palettes() -> Iterator[Short]:
    """Palettes of a formula and of the plan."""
    codes = np.array([0, 3, 3, 1, 2, 0], "u1")
    halves = craft.palette_formula(4, [(0, 0, [0.5])])
    array = codes.astype("<f4") * np.float32(0.5)
    for label, chain, block in (
        ("stored", template(halves), codes.tobytes()),
        ("zstd", template(halves, coder=coded()), flat_block(codes, [ZSTD])),
    ):
        frame = short_frame(dims=(6,), block=block)
        yield Short(f"a formula, {label}", frame, one_chain("float32", [None], chain), array)
    values = np.array([0x3C00, 0x4000, 0x4200, 0x4400], "<u2")
    assets = craft.assets(craft.owned_palette("float16", [values]))
    plan = one_chain("float16", [6], template(craft.palette_of_plan()), assets)
    yield Short("the plan's palette", short_frame(block=codes.tobytes()), plan, values[codes].view("<f2"))
    rows = [values, values + 1]
    assets = craft.assets(craft.owned_palette("float16", rows, axis=1))
    plan = one_chain("float16", [None, 2, 3], template(craft.palette_of_plan(axis=1)), assets)
    both = np.stack([rows[0][codes[:3]], rows[1][codes[3:]]]).view("<f2")[None]
    yield Short("a palette for each channel", short_frame(dims=(1,), block=codes.tobytes()), plan, both)


def images() -> Iterator[Short]:
    """Predict 1: one block with all rows."""
    for geometry, shape, sizes in (
        (0, (6, 7), [None, 7]),
        (1, (3, 6, 5), [3, None, None]),
        (2, (4, 5, 3), [4, 5, None]),
    ):
        image = smooth(shape, "uint8", geometry)
        channels = 1 if geometry == 0 else 3
        for color in (0, 2) if geometry == 0 else (0, 1, 2):
            chain = template(predict=craft.med(geometry, color), coder=coded(0, 2, 2))
            dims = [size for size, known in zip(shape, sizes, strict=True) if known is None]
            for mode in (ENTROPY, ZSTD):
                entropy = Entropy([], tile=(4, 4))
                block = image_block(image, [mode] * channels, geometry, color, entropy=entropy)
                plan = one_chain("uint8", list(sizes), chain)
                name = f"med, geometry {geometry}, color {color}, mode {mode}"
                yield Short(name, short_frame(dims=dims, block=block), plan, image)


def settled() -> Iterator[Short]:
    """Templates that ask for more than this frame can have: a case for each rule, by its number."""

    def case(rule: int, label: str, plan: ShortPlan, array: Array, narrow: bytes = b"", block: bytes = b"") -> Short:
        return Short(f"rule {rule}: {label}", short_frame(narrow=narrow, block=block), plan, array)

    same = np.full((3, 4), 9, "i4")
    for label, predict in (("delta", craft.delta()), ("med", craft.med(0))):
        plan = one_chain("int32", [3, 4], template(NARROW, predict, 1, coded()))
        yield case(2, f"{label} of 0 bits", plan, same, range_of(0, 9))
        block = bytes([RAW, 0b00000001, 0])
        first = same.copy()
        first[0, 0] = 10
        yield case(2, f"{label} of 1 bit", plan, first, range_of(1, 9), block)

    med = template(predict=craft.med(0), coder=coded())
    wide = smooth((4, 5), "int32", 1)
    yield case(
        3, "32 bits", one_chain("int32", [4, 5], med), wide, block=flat_block(wide.reshape(-1).view("u4"), [ZSTD])
    )
    one_row = smooth((9,), "uint8", 1)
    yield case(3, "one dimension", one_chain("uint8", [9], med), one_row, block=flat_block(one_row, [ZSTD]))
    for geometry in (1, 2):
        flat = smooth((4, 5), "uint8", 1)
        plan = one_chain("uint8", [4, 5], template(predict=craft.med(geometry), coder=coded()))
        yield case(3, f"two dimensions, geometry {geometry}", plan, flat, block=flat_block(flat.reshape(-1), [RAW]))
    parts = random_bits("complex32", (2, 2), 1)
    block = flat_block(parts.reshape(-1).view("<u2"), [RAW])
    yield case(3, "complex", one_chain("complex32", [2, 2], med), parts, block=block)
    channels = np.zeros((1, 1, 65537), "u1")
    plan = one_chain("uint8", [1, 1, 65537], template(predict=craft.med(2), coder=coded()))
    yield case(3, "65,537 channels", plan, channels, block=bytes([CONSTANT, 0]))
    two = smooth((2, 4, 4), "uint8", 1)
    plan = one_chain("uint8", [2, 4, 4], template(predict=craft.med(1, 1), coder=coded()))
    yield case(3, "green of two channels", plan, two, block=image_block(two, [RAW, RAW], 1))

    image = smooth((4, 5), "int16", 1)
    plan = one_chain("int16", [4, 5], template(predict=craft.med(0), coder=coded()))
    yield case(4, "16 bits together", plan, image, block=image_block(image.view("u2"), [ZSTD, LZ4]))
    plan = one_chain("int16", [4, 5], template(predict=craft.med(0), planes=2, coder=coded()))
    yield case(4, "16 bits rotated", plan, image, block=image_block(image.view("u2"), [ZSTD, LZ4]))

    small = np.array([5, 6, 8, 7], "i4")
    codes = (small - 5).astype("u1")
    plan = one_chain("int32", [4], template(NARROW, planes=1, coder=coded()))
    yield case(5, "narrow to 8 bits", plan, small, range_of(8, 5), flat_block(codes, [RAW]))
    deltas = one_chain("int32", [4], template(NARROW, craft.delta(), 1, coded()))
    yield case(5, "narrow to 8 bits, delta", deltas, small, range_of(8, 5), flat_block(codes, [RAW], lag=1))
    for planes in (1, 2):
        plan = one_chain("uint8", [4], template(planes=planes, coder=coded()))
        yield case(5, f"bytes with planes {planes}", plan, codes, block=flat_block(codes, [RAW]))

    rotated = one_chain("int32", [4], template(NARROW, planes=2, coder=coded()))
    block = flat_block(small.astype("<u2"), [RAW] * 2, planes=1)
    yield case(6, "narrow", rotated, small, range_of(16, 0), block)
    block = flat_block(small.view("<u4"), [RAW] * 4, planes=2)
    yield case(6, "not with range 6", rotated, small, AS_IS, block)
    plan = one_chain("int32", [4], template(predict=craft.delta(), planes=2, coder=coded()))
    yield case(6, "delta", plan, small, block=flat_block(small.view("<u4"), [RAW] * 4, 1, 1))
    words = craft.palette_formula(300, [(0, 0, [1.0])], bits=16)
    plan = one_chain("float32", [4], template(words, planes=2, coder=coded()))
    yield case(6, "a palette", plan, small.astype("<f4"), block=flat_block(small.astype("<u2"), [RAW] * 2, 1))

    symbols = skewed(9000, 6)
    tables = [
        craft_coding.table_for(symbols.tobytes() + bytes([lean]) * 3000, HUFFMAN) for lean in symbols[:2].tolist()
    ]
    entropy = Entropy(tables, tile=(1, 2**12), tile_map=[1, 0, 1])
    plan = one_chain("uint8", [9000], template(coder=coded(0, 4, 4)))
    yield case(7, "lines", plan, symbols, block=flat_block(symbols, [ENTROPY], entropy=entropy))
    entropy = Entropy(tables, tile=(1, 2**5), tile_map=[k % 2 for k in range(282)])
    plan = one_chain("uint8", [9000], template(coder=coded(0, 0, 5)))
    yield case(7, "not with a tile height of 0", plan, symbols, block=flat_block(symbols, [ENTROPY], entropy=entropy))


SHORT = {
    sample.name: sample
    for samples in (stored, empty, narrow, coded_planes, palettes, images, settled)
    for sample in samples()
}
