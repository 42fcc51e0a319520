"""Short frames that must be rejected, and plans that no frame can be read with: a few for every reason."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.format.support import craft, craft_coding
from tests.format.support.craft import ANS, HUFFMAN, coded
from tests.format.support.craft_coding import ENTROPY, LZ4, RAW, ZSTD, ZSTD_DICTIONARY, Entropy
from tests.format.support.craft_short import (
    AS_IS,
    NARROW,
    Chain,
    ShortPlan,
    flat_block,
    one_chain,
    range_of,
    short_frame,
    template,
)
from tests.format.support.samples import skewed

FLOATS = [np.arange(4, dtype="<u4")]
GOOD = short_frame(block=b"abc")


@dataclass(frozen=True)
class BadShort:
    """A short frame and its plan, and the number of the reason to reject it."""

    reason: int
    label: str
    frame: bytes
    plan: ShortPlan | None


def fields() -> Iterator[BadShort]:
    """What the fields before the block say."""
    plan = one_chain("uint8", [3])
    yield BadShort(16, "no plan", GOOD, None)
    yield BadShort(1, "nothing", b"", plan)
    yield BadShort(10, "chain 1 of one", short_frame(1, block=b"abc"), plan)
    yield BadShort(10, "chain 63 of one", short_frame(63, block=b"abc"), plan)
    without = ShortPlan("uint8", [3], [Chain(template()), Chain(None)])
    yield BadShort(10, "a chain without a template", short_frame(1, block=b"abc"), without)
    yield BadShort(10, "a plan without a shape", GOOD, one_chain("uint8", None))

    varies = one_chain("uint8", [None, None])
    yield BadShort(1, "no dimensions", b"\0", varies)
    yield BadShort(1, "one dimension of two", short_frame(dims=(3,)), varies)
    yield BadShort(1, "half a dimension", b"\0\x03\x80", varies)
    yield BadShort(8, "a dimension of 2^48", short_frame(dims=(2**48, 1)), varies)
    yield BadShort(8, "a dimension of 2^48 beside an empty one", short_frame(dims=(2**48, 0)), varies)
    yield BadShort(8, "2^56 bytes", short_frame(dims=(2**28, 2**28)), varies)
    yield BadShort(
        8, "2^56 bytes without the zero", short_frame(dims=(2**28, 0)), one_chain("uint8", [None, None, 2**28])
    )
    yield BadShort(8, "2^56 bytes of complex128", short_frame(dims=(2**28,)), one_chain("complex128", [None, 2**24]))
    yield BadShort(8, "a dimension of the plan", short_frame(), one_chain("uint8", [2**48]))
    yield BadShort(9, "an over-long dimension", b"\0\x83\x00\x01abc", varies)
    yield BadShort(9, "a dimension of 65 bits", b"\0" + b"\xff" * 9 + b"\x02", varies)

    narrow = one_chain("int16", [3], template(NARROW))
    for kind in (7, 15, 31, 255, 14, 22, 6 | 1 << 3, 6 | 31 << 3):
        yield BadShort(11, f"range {kind}", short_frame(narrow=bytes([kind, 0]), block=bytes(6)), narrow)
    for bits, dtype in ((16, "uint8"), (32, "int16"), (64, "int32"), (16, "bool"), (64, "uint16")):
        made = one_chain(dtype, [3], template(NARROW))
        yield BadShort(11, f"{bits} bits of {dtype}", short_frame(narrow=range_of(bits), block=bytes(24)), made)
    for bits, shift in ((0, 1), (1, 1), (8, 8), (8, 31), (16, 16), (16, 31)):
        frame = short_frame(narrow=range_of(bits, 0, shift), block=bytes(6))
        yield BadShort(11, f"{bits} bits, shift {shift}", frame, narrow)
    yield BadShort(1, "no range", short_frame(), narrow)
    yield BadShort(1, "no minimum", short_frame(narrow=b"\2"), narrow)
    yield BadShort(9, "an over-long minimum", short_frame(narrow=b"\2\x80\x00", block=bytes(3)), narrow)


def ends() -> Iterator[BadShort]:
    """Where the frame ends."""
    plan = one_chain("uint8", [3])
    yield BadShort(19, "a byte too few", GOOD[:-1], plan)
    yield BadShort(19, "a byte too many", GOOD + b"\0", plan)
    yield BadShort(19, "no block", short_frame(), plan)
    yield BadShort(19, "no mode", short_frame(), one_chain("uint8", [3], template(coder=coded())))
    yield BadShort(14, "bytes behind an empty array", short_frame(dims=(0,), block=b"\0"), one_chain("uint8", [None]))
    narrow = one_chain("int16", [None], template(NARROW))
    yield BadShort(14, "a range of an empty array", short_frame(dims=(0,), narrow=range_of(0)), narrow)
    yield BadShort(14, "bytes behind 0 bits", short_frame(dims=(3,), narrow=range_of(0), block=b"\0"), narrow)
    yield BadShort(19, "codes of 8 bits where elements are", short_frame(dims=(3,), narrow=AS_IS, block=b"abc"), narrow)
    yield BadShort(19, "1 bit, a byte too few", short_frame(dims=(9,), narrow=range_of(1), block=b"\0"), narrow)


def templates() -> Iterator[BadShort]:
    """Templates that cannot be."""

    def bad(
        reason: int, label: str, made: bytes, dtype: str = "uint8", shape: list[int | None] | None = None
    ) -> BadShort:
        return BadShort(
            reason, f"template: {label}", short_frame(block=bytes(64)), one_chain(dtype, shape or [4, 4, 4], made)
        )

    on = coded()
    yield bad(1, "nothing", b"")
    yield bad(1, "no predict", b"\0")
    yield bad(1, "no geometry", b"\0\1")
    yield bad(1, "no coder", template()[:-1])
    yield bad(1, "half a coder", template(coder=on)[:-1])
    yield bad(10, "a block", craft.chain(block=1))
    yield bad(10, "a byte too many", template() + b"\0")
    yield bad(9, "an over-long lag", template(predict=b"\2\x81\x00", coder=on))
    yield bad(11, "value 3", template(b"\3"))
    yield bad(11, "narrow of float32", template(NARROW), "float32")
    yield bad(11, "narrow with a range, which is read as predict", template(craft.narrow(-9, 16)), "float16")
    yield bad(10, "narrow with a minimum, which is read as predict", template(craft.narrow(-9, 16)), "int32")
    yield bad(10, "predict 3", template(predict=b"\3", coder=on))
    yield bad(10, "geometry 3", template(predict=craft.med(3), coder=on))
    yield bad(10, "color 3", template(predict=craft.med(1, 3), coder=on))
    yield bad(10, "lag 0", template(predict=craft.delta(0), coder=on))
    yield bad(10, "lag 2^32", template(predict=craft.delta(2**32), coder=on))
    yield bad(10, "planes 3", template(planes=3, coder=on))
    yield bad(10, "coder 2", template(coder=b"\2"))
    yield bad(10, "entropy coder 2", template(coder=coded(2)))
    for height, width in [(16, 0), (1, 1), (0, 2), (10, 11), (255, 5)]:
        yield bad(10, f"tile of 2^{height} by 2^{width}", template(coder=coded(0, height, width)))
    yield bad(10, "stored planes apart", template(planes=1))
    yield bad(10, "stored planes rotated, which would settle", template(planes=2))
    yield bad(10, "stored delta", template(predict=craft.delta()))
    yield bad(10, "stored med, which would settle", template(predict=craft.med(0)), "float64")

    words = craft.palette_fields(FLOATS)
    yield bad(12, "a palette in the frame", template(bytes([2, 8, 255, 0]) + words), "float32")
    yield bad(12, "source 3", template(bytes([2, 8, 255, 3])), "float32")
    yield bad(12, "a palette of 4 bits", template(craft.palette_of_plan(4)), "float32")
    yield bad(12, "a palette of int32", template(craft.palette_of_plan()), "int32")
    yield bad(12, "axis 3 of three", template(craft.palette_of_plan(axis=3)), "float32")
    yield bad(12, "axis of complex64", template(craft.palette_of_plan(axis=0)), "complex64")
    once = [(0, 0, [1.0])]
    varying: list[int | None] = [4, None, 4]
    yield bad(12, "an axis that varies, formula", template(craft.palette_formula(2, once, axis=1)), "float32", varying)
    yield bad(12, "an axis that varies, plan", template(craft.palette_of_plan(axis=1)), "float32", varying)
    yield bad(12, "65,537 palettes", template(craft.palette_formula(2, once, axis=0)), "float32", [65537, 0])
    yield bad(12, "a formula of complex64", template(craft.palette_formula(2, once)), "complex64")
    yield bad(12, "a formula without operations", template(craft.palette_formula(2, [])), "float32")
    yield bad(17, "a palette that the chain does not own", template(craft.palette_of_plan()), "float32")

    good = Chain(template())
    third = ShortPlan("uint8", [3], [good, good, Chain(template(b"\3"))])
    yield BadShort(11, "a bad template beside the chain's", GOOD, third)


def assets() -> Iterator[BadShort]:
    """Assets that cannot be, or are not what the chain uses."""
    for reason, label, owned in (
        (2, "another magic", craft.assets(magic=b"CWPX")),
        (3, "another version", craft.assets(major=2)),
        (1, "cut short", craft.assets(dictionary=b"abc")[:-1]),
        (13, "bytes behind", craft.assets(tail=b"\0")),
        (12, "a palette of 4 bits", craft.assets(craft.owned_palette("float32", FLOATS, bits=4))),
        (22, "tables of log 4", craft.assets(tables=craft.owned_tables(ANS, 4, 1, b"\0\0"))),
    ):
        yield BadShort(reason, f"assets: {label}", GOOD, one_chain("uint8", [3], assets=owned))
        beside = ShortPlan("uint8", [3], [Chain(template()), Chain(None, owned)])
        yield BadShort(reason, f"assets beside the chain's: {label}", GOOD, beside)

    owned = craft.assets(craft.owned_palette("float32", FLOATS))
    for label, value, dtype in (
        ("other bits", craft.palette_of_plan(16), "float32"),
        ("other axis", craft.palette_of_plan(axis=0), "float32"),
        ("other dtype", craft.palette_of_plan(), "float64"),
    ):
        yield BadShort(17, label, GOOD, one_chain(dtype, [3], template(value), owned))
    rows = craft.assets(craft.owned_palette("float32", FLOATS * 2, axis=0))
    yield BadShort(17, "other number", GOOD, one_chain("float32", [3], template(craft.palette_of_plan(axis=0)), rows))
    owner = ShortPlan("float32", [3], [Chain(template(), owned), Chain(template(craft.palette_of_plan()))])
    yield BadShort(17, "another chain's palette", short_frame(1, block=b"abc"), owner)


def blocks() -> Iterator[BadShort]:
    """What is wrong in the block."""
    words = b"words of a plan, words of a plan, words of a plan"
    array = np.frombuffer(words, "u1")
    on = template(coder=coded())
    plan = one_chain("uint8", [array.size], on)

    def bad(reason: int, label: str, block: bytes, made: ShortPlan = plan) -> BadShort:
        return BadShort(reason, label, short_frame(block=block), made)

    for mode in (6, 255):
        yield bad(18, f"mode {mode}", bytes([mode]) + words)
    zstd = flat_block(array, [ZSTD])
    yield bad(20, "the magic number is there", bytes([ZSTD]) + craft_coding.zstd(words))
    yield bad(20, "a size is there", zstd[:1] + craft.varint(len(zstd) - 1) + zstd[1:])
    yield bad(20, "zstd: nothing", zstd[:1])
    yield bad(20, "zstd: cut", zstd[:-1])
    yield bad(20, "zstd: a byte behind", zstd + b"\0")
    yield bad(20, "zstd: another plane", flat_block(array[:-1], [ZSTD]))
    lz4 = flat_block(array, [LZ4])
    yield bad(21, "lz4: nothing", lz4[:1])
    yield bad(21, "lz4: cut", lz4[:-1])
    yield bad(21, "lz4: a size is there", lz4[:1] + craft.varint(len(lz4) - 1) + lz4[1:])
    by_words = flat_block(array, [ZSTD_DICTIONARY], dictionary=words)
    yield bad(17, "no dictionary", by_words)
    owned = craft.assets(dictionary=words)
    another = ShortPlan("uint8", [array.size], [Chain(on), Chain(on, owned)])
    yield bad(17, "another chain's dictionary", by_words, another)
    other = one_chain("uint8", [array.size], on, craft.assets(dictionary=b"other words, other words, other words"))
    yield BadShort(20, "another dictionary", short_frame(block=with_checksum(words, words)), other)

    wide = np.arange(40, dtype="<u2")
    apart = one_chain("uint16", [40], template(planes=1, coder=coded()))
    two = flat_block(wide, [RAW, ZSTD], 1)
    yield bad(19, "two planes: a byte behind", two + b"\0", apart)
    sized = flat_block(wide, [ZSTD, RAW], 1)
    yield bad(19, "two planes: a size past the end", sized[:2] + craft.varint(120) + sized[3:], apart)
    yield bad(19, "two planes: one mode", b"\0", apart)
    yield bad(9, "two planes: an over-long size", sized[:2] + bytes([sized[2] | 128, 0]) + sized[3:], apart)
    whole = b"".join((bytes([RAW, ZSTD]), wide.view("u1")[::2].tobytes()))
    compressed = craft_coding.zstd(bytes(40))
    yield bad(20, "two planes: the magic number is there", whole + craft.varint(len(compressed)) + compressed, apart)

    symbols = skewed(300, 1)
    coding = one_chain("uint8", [300], template(coder=coded(HUFFMAN, 0, 5)))
    tables = [craft_coding.table_for(symbols, HUFFMAN)] * 2
    for reason, label, overrides in (
        (22, "source 2", {"source": b"\2"}),
        (17, "tables of a plan without", {"source": b"\1"}),
        (22, "no tables", {"count": b"\0"}),
        (23, "map form 2", {"map_form": b"\2"}),
        (24, "empty streams", {"stream_sizes": bytes(8), "streams": b""}),
        (19, "streams past the end", {"stream_sizes": b"\x7f" * 8}),
    ):
        changed = Entropy(tables, tile=(1, 32), tile_map=[0, 1] * 5, overrides=overrides)  # type: ignore[arg-type]
        yield bad(reason, f"entropy: {label}", flat_block(symbols, [ENTROPY], entropy=changed), coding)
    halves = one_chain("float32", [3], template(craft.palette_formula(4, [(0, 0, [0.5])])))
    yield bad(25, "a code that is not in the palette", b"\0\4\1", halves)


def with_checksum(data: bytes, dictionary: bytes) -> bytes:
    """A block of one plane, by a dictionary, with Zstandard's own checksum: so another dictionary is found out."""
    return bytes([ZSTD_DICTIONARY]) + craft_coding.zstd(data, dictionary, write_checksum=True)[4:]


BAD_SHORT = [bad for bads in (fields, ends, templates, assets, blocks) for bad in bads()]
