"""Frames that must be rejected for what their header says: a few for every reason.

Checksums are right where they are not the point.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tests.format.support import craft
from tests.format.support.craft import chain, frame, varint
from tests.format.support.recipe import PALETTE, Recipe, craft_frame
from tests.format.support.samples import few_floats

GOOD = frame("uint8", (3,), chain(), [b"abc"])
FLOATS = [np.arange(4, dtype="<u4")]


@dataclass(frozen=True)
class Bad:
    """A frame, or a frame and the assets of the plan it names, and the number of the reason to reject it."""

    reason: int
    label: str
    frame: bytes
    assets: bytes | None = None

    @property
    def owned(self) -> dict[int, bytes]:
        return {} if self.assets is None else {craft.hash_of(self.assets): self.assets}


def start_of_frame() -> Iterator[Bad]:
    yield Bad(1, "nothing", b"")
    yield Bad(1, "half the magic", GOOD[:2])
    yield Bad(1, "no version", GOOD[:4])
    yield Bad(1, "half the header size", GOOD[:8])
    yield Bad(1, "no flags", GOOD[:10])
    yield Bad(1, "half the header", GOOD[:20])
    yield Bad(1, "header size past the end", craft.repair(frame("uint8", (3,), chain(), [b"abc"], header_size=999)))
    yield Bad(13, "header size zero", frame("uint8", (3,), chain(), [b"abc"], header_size=0))
    yield Bad(13, "header size below its fixed fields", craft.repair(frame("uint8", (3,), chain(), header_size=14)))
    yield Bad(1, "header size of all ones", frame("uint8", (3,), chain(), [b"abc"], header_size=2**32 - 1))
    yield Bad(2, "another format", b"\x89PNG\r\n\x1a\n" + bytes(20))
    yield Bad(2, "one letter", frame("uint8", (3,), chain(), [b"abc"], magic=b"CWFX"))
    yield Bad(2, "a plan's assets", craft.assets() + bytes(20))
    yield Bad(3, "0", frame("uint8", (3,), chain(), [b"abc"], major=0))
    yield Bad(3, "2", frame("uint8", (3,), chain(), [b"abc"], major=2))
    yield Bad(3, "2, nothing behind", b"CWFR\2\0")
    for bit in (1, 2, 3):
        yield Bad(4, f"bit {bit}", frame("uint8", (3,), chain(), [b"abc"], flags=1 << bit))
    yield Bad(5, "wrong", frame("uint8", (3,), chain(), [b"abc"], header_checksum=0))
    for at in (5, 11, 12, 13, 14, len(GOOD) - 4):
        yield Bad(5, f"byte {at} flipped", GOOD[:at] + bytes([GOOD[at] ^ 16]) + GOOD[at + 1 :])


def shape_fields() -> Iterator[Bad]:
    for start in (12, 13, 14, 15, 19):
        cut = GOOD[:6] + struct.pack("<I", start + 4) + GOOD[10:start]
        yield Bad(1, f"header ends at byte {start}", cut + struct.pack("<I", craft.crc32c(cut)))
    yield Bad(1, "fewer dims than the rank", frame("uint8", (3,), b"", block_table=b"", pad=b"", rank=2, dims=b"\x83"))
    for number in (22, 100, 255):
        yield Bad(6, str(number), frame(number, (3,), chain(), [b"abc"]))
    for rank in (65, 255):
        yield Bad(7, str(rank), frame("uint8", (1,) * rank, chain(), [b"a"], rank=rank))
    yield Bad(8, "a dimension of 2^48", frame("uint8", (2**48,), chain()))
    yield Bad(8, "a dimension of 2^48 beside an empty one", frame("uint8", (2**48, 0), chain()))
    yield Bad(8, "2^56 bytes", frame("uint8", (2**28, 2**28), chain()))
    yield Bad(8, "2^56 bytes of float64", frame("float64", (2**28, 2**25), chain()))
    yield Bad(8, "2^56 bytes of complex128", frame("complex128", (2**28, 2**24), chain()))
    yield Bad(8, "2^56 bytes without the zero", frame("uint8", (2**28, 0, 2**28), chain()))
    yield Bad(8, "a product far beyond 64 bits", frame("uint8", (2**40,) * 64, chain()))
    yield Bad(9, "over-long dimension", frame("uint8", (3,), chain(), [b"abc"], dims=b"\x83\x00"))
    yield Bad(9, "dimension of 65 bits", frame("uint8", (3,), chain(), [b"abc"], dims=b"\xff" * 9 + b"\x02"))
    yield Bad(9, "dimension of 11 bytes", frame("uint8", (3,), chain(), [b"abc"], dims=b"\xff" * 10 + b"\x01"))
    yield Bad(9, "over-long minimum", frame("uint8", (3,), chain(b"\1\x80\x00\x08\x00"), [b"abc"]))
    yield Bad(9, "over-long lag", frame("uint8", (3,), chain(predict=b"\2\x81\x00", coder=craft.coded()), [b"\0abc"]))
    yield Bad(9, "over-long block", frame("uint8", (3,), chain(block=b"\x88\x80\x00"), [b"abc"]))
    long_size = b"\x83\x00" + struct.pack("<I", craft.crc32c(b"abc"))
    yield Bad(9, "over-long size of a block", frame("uint8", (3,), chain(), [b"abc"], block_table=long_size))


def chains() -> Iterator[Bad]:
    """Reason 10: predict, planes, coder and blocks."""

    def bad(label: str, what: bytes, dtype: str = "uint8", shape: tuple[int, ...] = (4, 4, 4)) -> Bad:
        return Bad(10, label, frame(dtype, shape, what, [bytes(100)]))

    on = craft.coded()
    yield bad("predict 3", chain(predict=b"\3", coder=on))
    yield bad("med of 32 bits", chain(predict=craft.med(0), planes=1, coder=on), "int32")
    yield bad("med of complex32", chain(predict=craft.med(0), planes=1, coder=on), "complex32")
    yield bad("med of a palette of complex64", chain(craft.palette_in_frame(FLOATS), craft.med(0), 0, on), "complex64")
    yield bad("geometry 3", chain(predict=craft.med(3), coder=on))
    yield bad("hw of rank 1", chain(predict=craft.med(0), coder=on), shape=(64,))
    yield bad("hw of rank 0", chain(predict=craft.med(0), coder=on), shape=())
    yield bad("chw of rank 2", chain(predict=craft.med(1), coder=on), shape=(8, 8))
    yield bad("hwc of rank 2", chain(predict=craft.med(2), coder=on), shape=(8, 8))
    yield bad("color 3", chain(predict=craft.med(1, 3), coder=on))
    yield bad("green of two channels", chain(predict=craft.med(1, 1), coder=on), shape=(2, 4, 4))
    yield bad("green of hw", chain(predict=craft.med(0, 1), coder=on))
    yield bad("65,537 channels", chain(predict=craft.med(2), coder=on), shape=(1, 1, 65537))
    yield bad("65,537 channels of chw, empty", chain(predict=craft.med(1), coder=on), shape=(0, 65537, 1, 1))
    yield bad("lag 0", chain(predict=craft.delta(0), coder=on))
    yield bad("lag 2^32", chain(predict=craft.delta(2**32), coder=on))
    yield bad("planes 3", chain(planes=3, coder=on))
    yield bad("rotated with narrow", chain(craft.narrow(), planes=2, coder=on))
    yield bad("rotated with palette", chain(craft.palette_in_frame(FLOATS), planes=2, coder=on), "float32")
    yield bad("rotated with delta", chain(predict=craft.delta(), planes=2, coder=on))
    yield bad("rotated with med", chain(predict=craft.med(0), planes=2, coder=on))
    yield bad("med of 16 bits, planes together", chain(predict=craft.med(0), coder=on), "int16")
    yield bad("1 bit with delta", chain(craft.narrow(bits=1), craft.delta(), 0, on))
    yield bad("1 bit with med", chain(craft.narrow(bits=1), craft.med(0), 0, on))
    yield bad("1 bit with planes apart", chain(craft.narrow(bits=1), planes=1, coder=on))
    yield bad("1 bit with planes rotated", chain(craft.narrow(bits=1), planes=2, coder=on))
    yield bad("0 bits with med", chain(craft.narrow(bits=0), craft.med(0), 0, on))
    yield bad("coder 2", chain(coder=b"\2"))
    yield bad("stored planes apart", chain(planes=1))
    yield bad("stored planes rotated", chain(planes=2))
    yield bad("stored delta", chain(predict=craft.delta()))
    yield bad("stored med", chain(predict=craft.med(0)))
    yield bad("entropy coder 2", chain(coder=craft.coded(2)))
    for height, width in [(16, 0), (0, 16), (1, 1), (0, 2), (2, 0), (10, 11), (15, 15), (255, 5), (128, 128)]:
        yield bad(f"tile of 2^{height} by 2^{width}", chain(coder=craft.coded(0, height, width)))
    yield bad("block 0", chain(block=0))
    yield bad("block 2^40", chain(block=2**40))
    yield bad("block 0 of an empty array", chain(block=0), shape=(0,))
    yield bad("block 12 of 1 bit", chain(craft.narrow(bits=1), block=12))


def values() -> Iterator[Bad]:
    """Reasons 11 and 12: narrow and palette."""

    def narrow(label: str, value: bytes, dtype: str = "int16") -> Bad:
        return Bad(11, label, frame(dtype, (2, 3), chain(value), [bytes(12)]))

    yield narrow("value 3", b"\3")
    yield narrow("value 255", b"\xff")
    for dtype in ("float16", "bfloat16", "complex64", "float8_e5m2", "float4_e2m1fn_x2"):
        yield narrow(dtype, craft.narrow(), dtype)
    for bits in (2, 4, 7, 9, 15, 17, 24, 128, 255):
        yield narrow(f"{bits} bits", craft.narrow(bits=bits), "int64")
    yield narrow("32 bits of int16", craft.narrow(bits=32))
    yield narrow("16 bits of bool", craft.narrow(bits=16), "bool")
    for bits, shift in [(0, 1), (1, 1), (8, 8), (8, 255), (16, 16), (16, 17)]:
        yield narrow(f"{bits} bits, shift {shift}", craft.narrow(bits=bits, shift=shift))

    def palette(label: str, value: bytes, dtype: str = "float32", shape: tuple[int, ...] = (2, 3)) -> Bad:
        return Bad(12, label, frame(dtype, shape, chain(value), [bytes(6)]))

    words = craft.palette_fields(FLOATS)
    for dtype in ("uint8", "int64", "bool", "float8_e4m3fn", "float4_e2m1fn_x2"):
        yield palette(f"of {dtype}", bytes([2, 8, 255, 0]) + words, dtype)
    for bits in (0, 1, 4, 32, 255):
        yield palette(f"{bits} bits", bytes([2, bits, 255, 0]) + words)
    for axis in (2, 63, 64, 254):
        yield palette(f"axis {axis} of two", bytes([2, 8, axis, 0]) + words * 2)
    yield palette("axis of a scalar", bytes([2, 8, 0, 0]) + words, shape=())
    for dtype in ("complex64", "complex32"):
        yield palette(f"axis of {dtype}", bytes([2, 8, 0, 0]) + words * 2, dtype)
    yield palette("source 3", bytes([2, 8, 255, 3]) + words)
    yield palette("65,537 palettes", bytes([2, 8, 1, 0]) + words, shape=(1, 65537))
    yield palette("65,537 palettes of a formula", craft.palette_formula(2, [(0, 0, [1])], axis=0), shape=(65537, 0))
    yield palette("count 0", bytes([2, 8, 255, 0]) + varint(0))
    yield palette("count 257 of 8 bits", craft.palette_in_frame([np.arange(257, dtype="<u4")]))
    yield palette("count 65,537 of 16 bits", craft.palette_in_frame([np.arange(65537, dtype="<u4")], bits=16))
    yield palette("count 2^63", bytes([2, 8, 255, 0]) + varint(2**63))
    yield palette("second count 0", craft.palette_in_frame([FLOATS[0], FLOATS[0][:0]], axis=0))
    once = [(0, 0, [1.0])]
    for dtype in ("complex64", "complex128", "complex32"):
        yield palette(f"formula of {dtype}", craft.palette_formula(2, once), dtype)
    yield palette("formula, count 0", craft.palette_formula(0, once))
    yield palette("formula, count 257", craft.palette_formula(257, once))
    yield palette("formula, count 65,537", craft.palette_formula(65537, once, bits=16))
    wide = craft.palette_formula(65536, once, bits=16, axis=0)
    yield palette("formula, 257 palettes of 65,536", wide, shape=(257, 0))
    large = craft.palette_in_frame([np.arange(65536, dtype="<u2")] + [np.zeros(1, "<u2")] * 256, bits=16, axis=0)
    yield palette("257 palettes, one of 65,536", large, "float16", (257, 0))
    yield palette("formula, work 2", craft.palette_formula(2, once, work=2))
    yield palette("formula, no operation", craft.palette_formula(2, []))
    yield palette("formula, five operations", craft.palette_formula(2, once * 5))
    yield palette("formula, operation 4", craft.palette_formula(2, [(4, 0, [1.0])]))
    yield palette("formula, scope 2", craft.palette_formula(2, [(0, 2, [1.0])]))
    short = craft.palette_in_frame([np.arange(255, dtype="<u4")])[:-9]
    yield Bad(1, "palette past the header", frame("float32", (6,), short, block_table=b"", pad=b""))
    formula = craft.palette_formula(2, [(0, 1, [1.0])], axis=1)
    yield Bad(1, "operands past the header", frame("float32", (2, 3), formula, block_table=b"", pad=b""))


def ends() -> Iterator[Bad]:
    """Reasons 13 and 14: where the header and the frame end."""
    yield Bad(13, "pad of 64", frame("uint8", (3,), chain(), [b"abc"], pad=b"\x40" + bytes(64)))
    yield Bad(13, "pad of 255", frame("uint8", (3,), chain(), [b"abc"], pad=b"\xff" + bytes(255)))
    yield Bad(13, "pad not zero", frame("uint8", (3,), chain(), [b"abc"], pad=b"\x05" + b"\0\0\1\0\0"))
    yield Bad(13, "a byte too many", frame("uint8", (3,), chain(), [b"abc"], after_pad=b"\0"))
    yield Bad(13, "a block too many", frame("uint8", (3,), chain(), [b"abc", b"d"]))
    yield Bad(13, "a block of an empty array", frame("uint8", (0,), chain(), [b"abc"]))
    yield Bad(13, "a block of no bits", frame("uint8", (3,), chain(craft.narrow(bits=0)), [b"abc"]))
    yield Bad(1, "pad past the header", frame("uint8", (3,), chain(), [b"abc"], pad=b"\x05\0\0"))
    yield Bad(1, "no pad", frame("uint8", (3,), chain(), [b"abc"], pad=b""))
    yield Bad(1, "a block too few", frame("uint8", (30,), chain(block=10), [bytes(10)] * 2))
    yield Bad(1, "2^47 blocks", frame("uint8", (2**47,), chain(block=1), [b"a"] * 3))
    yield Bad(14, "a byte too few", GOOD[:-1])
    yield Bad(14, "no blocks", GOOD[:-3])
    yield Bad(14, "a byte too many", GOOD + b"\0")
    yield Bad(14, "bytes behind an empty array", frame("uint8", (0,), chain(), tail=b"x"))
    checksum = struct.pack("<I", craft.crc32c(b"abc"))
    for size in (2, 4, 2**32 + 3, 2**63, 2**64 - 1):
        yield Bad(
            14, f"size {size} for 3 bytes", frame("uint8", (3,), chain(), [b"abc"], block_table=varint(size) + checksum)
        )
    wrapping = b"".join(varint(size) + checksum for size in (2**63, 2**63, 3))
    parts = frame("uint8", (3,), chain(block=1), [b"abc"], block_table=wrapping)
    yield Bad(14, "sizes whose sum wraps around", parts)


def plans() -> Iterator[Bad]:
    """Reasons 16 and 17, as far as the header tells, and assets that cannot be read."""
    owner = craft_frame(few_floats("float32", (3, 4)), "float32", Recipe(value=PALETTE, palette_of_plan=True))
    assert owner.assets is not None
    yield Bad(16, "none given", owner.frame)
    yield Bad(16, "another given", owner.frame, craft.assets(dictionary=b"another"))
    yield Bad(16, "named but not used", frame("uint8", (3,), chain(), [b"abc"], plan_hash=12345))
    yield Bad(1, "half the plan hash", frame("uint8", (), b"1234", block_table=b"", pad=b"", flags=1))

    def uses(assets: bytes | None, value: bytes, dtype: str = "float32") -> bytes:
        named = None if assets is None else craft.hash_of(assets)
        return frame(dtype, (2, 3), chain(value), [bytes(6)], plan_hash=named)

    four = craft.assets(craft.owned_palette("float32", FLOATS))
    yield Bad(17, "palette of no plan", uses(None, craft.palette_of_plan()))
    nothing = craft.assets()
    yield Bad(17, "palette of a plan without", uses(nothing, craft.palette_of_plan()), nothing)
    yield Bad(17, "other bits", uses(four, craft.palette_of_plan(bits=16)), four)
    yield Bad(17, "other axis", uses(four, craft.palette_of_plan(axis=0)), four)
    yield Bad(17, "other dtype", uses(four, craft.palette_of_plan(), "float64"), four)
    yield Bad(17, "same width, other dtype", uses(four, craft.palette_of_plan(), "complex64"), four)
    rows = craft.assets(craft.owned_palette("float32", FLOATS * 3, axis=0))
    yield Bad(17, "other number of palettes", uses(rows, craft.palette_of_plan(axis=0)), rows)

    def assets(reason: int, label: str, what: bytes) -> Bad:
        return Bad(
            reason, f"assets: {label}", frame("uint8", (3,), chain(), [b"abc"], plan_hash=craft.hash_of(what)), what
        )

    for end in (1, 3, 5, 6, 7, 10, 14, len(four) - 1):
        yield assets(1, f"end after {end} bytes", four[:end])
    yield assets(1, "dictionary past the end", craft.assets()[:-1] + varint(7) + b"abc")
    yield assets(1, "tables past the end", craft.assets(tables=bytes([1, 0, 11, 1, 99]))[:-1])
    yield assets(2, "another format", b"\x89PNG" + four[4:])
    yield assets(2, "a frame", GOOD)
    yield assets(3, "2", craft.assets(major=2))
    yield assets(
        9, "over-long number of palettes", craft.assets(bytes([1, 11, 8, 255, 0x81, 0]) + craft.palette_fields(FLOATS))
    )
    yield assets(12, "palette 2", craft.assets(b"\2"))
    for number in (1, 8, 15, 22, 255):
        yield assets(12, f"palette of dtype {number}", craft.assets(craft.owned_palette(number, FLOATS)))
    yield assets(12, "palette of 7 bits", craft.assets(craft.owned_palette("float32", FLOATS, bits=7)))
    yield assets(12, "no palettes", craft.assets(craft.owned_palette("float32", [])))
    many = craft.owned_palette("float32", [np.zeros(1, "<u4")] * 65537, axis=0)
    yield assets(12, "65,537 palettes", craft.assets(many))
    yield assets(12, "count 0", craft.assets(craft.owned_palette("float32", [FLOATS[0][:0]])))
    yield assets(12, "count 257", craft.assets(craft.owned_palette("float32", [np.arange(257, dtype="<u4")])))
    large = [np.arange(65536, dtype="<u2")] + [np.zeros(1, "<u2")] * 256
    yield assets(12, "257 palettes, one of 65,536", craft.assets(craft.owned_palette("float16", large, 16, 0)))
    yield assets(13, "a byte too many", craft.assets(tail=b"\0"))
    one_symbol = b"\7\7"
    yield assets(22, "tables 2", craft.assets(tables=b"\2"))
    yield assets(22, "entropy coder 2", craft.assets(tables=craft.owned_tables(2, 11, 1, one_symbol)))
    yield assets(22, "huffman log 10", craft.assets(tables=craft.owned_tables(0, 10, 1, one_symbol)))
    yield assets(22, "ans log 13", craft.assets(tables=craft.owned_tables(1, 13, 1, one_symbol)))
    yield assets(22, "ans log 4", craft.assets(tables=craft.owned_tables(1, 4, 1, one_symbol)))
    yield assets(22, "no tables", craft.assets(tables=craft.owned_tables(0, 11, 0, b"")))
    yield assets(22, "65 tables", craft.assets(tables=craft.owned_tables(0, 11, 65, one_symbol * 65)))
    yield assets(22, "fewer tables than K", craft.assets(tables=craft.owned_tables(0, 11, 2, one_symbol)))
    yield assets(22, "more tables than K", craft.assets(tables=craft.owned_tables(0, 11, 1, one_symbol * 2)))
    yield assets(22, "lo above hi", craft.assets(tables=craft.owned_tables(0, 11, 1, b"\7\6")))


def bad_headers() -> list[Bad]:
    return [bad for kind in (start_of_frame, shape_fields, chains, values, ends, plans) for bad in kind()]
