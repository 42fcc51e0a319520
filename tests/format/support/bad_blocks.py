"""Frames whose header is fine and whose blocks must be rejected; checksums are right where they are not the point."""

import struct
from collections.abc import Iterator
from typing import Unpack

import numpy as np

from tests.format.support import craft, craft_coding
from tests.format.support.bad_headers import Bad
from tests.format.support.craft import ANS, HUFFMAN, BitWriter, chain, coded, frame, varint
from tests.format.support.craft_coding import (
    CODED,
    CONSTANT,
    ENTROPY,
    LZ4,
    PACKED,
    RAW,
    ZSTD,
    ZSTD_DICTIONARY,
    Entropy,
    SectionFields,
    Table,
    coded_block,
    describe,
    describe_levels,
    lz4,
    table_for,
    zstd,
)
from tests.format.support.samples import NAMES, skewed, zstd_window

DATA = skewed(64)
PLANE = DATA.reshape(1, -1)
LOG = {HUFFMAN: 11, ANS: 8}
STREAMS = {HUFFMAN: 8, ANS: 4}


def of_block(body: bytes, coder: int = HUFFMAN, size: int = 64, plan_hash: int | None = None) -> bytes:
    """A frame of uint8 with this one coded block, in tiles of eight."""
    return frame("uint8", (size,), chain(coder=coded(coder, 0, 3)), [body], plan_hash=plan_hash)


def section(
    coder: int, number: int = 1, form: int = PACKED, of_plan: bool = False, **overrides: Unpack[SectionFields]
) -> bytes:
    """A block of one plane in an entropy section of so many tables, with some fields overridden."""
    tables = [table_for(DATA, coder, LOG[coder])] * number
    entropy = Entropy(tables, coder, LOG[coder], (1, 8), [0] * 8, form, of_plan, overrides)
    return coded_block([PLANE], [ENTROPY], entropy)


def sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def stored() -> Iterator[Bad]:
    good = frame("uint8", (3,), chain(), [b"abc"])
    yield Bad(15, "last byte", good[:-1] + b"d")
    yield Bad(15, "first of two blocks", frame("uint8", (4,), chain(block=2), [b"ab", b"cd"])[:-4] + b"xbcd")
    wrong = varint(3) + struct.pack("<I", craft.crc32c(b"abc") ^ 1)
    yield Bad(15, "the checksum itself", frame("uint8", (3,), chain(), [b"abc"], block_table=wrong))
    yield Bad(19, "stored block too small", frame("uint8", (3,), chain(), [b"ab"]))
    yield Bad(19, "stored block too large", frame("uint8", (3,), chain(), [b"abcd"]))
    yield Bad(19, "stored block of nothing", frame("uint8", (3,), chain(), [b""]))
    yield Bad(19, "one block too small, one too large", frame("uint8", (4,), chain(block=2), [b"a", b"bcd"]))
    yield Bad(19, "1-bit block too small", frame("bool", (9,), chain(craft.narrow(bits=1)), [b"a"]))
    yield Bad(19, "element cut", frame("int32", (2,), chain(), [b"1234567"]))


def modes() -> Iterator[Bad]:
    for mode in (6, 7, 128, 255):
        yield Bad(18, str(mode), of_block(bytes([mode]) + DATA.tobytes()))
    two = chain(planes=1, coder=coded())
    yield Bad(18, "of the second plane", frame("int16", (4,), two, [bytes([RAW, 6]) + bytes(8)]))
    yield Bad(19, "no mode", of_block(b""))
    yield Bad(19, "modes cut", frame("int16", (4,), two, [bytes([RAW])]))
    yield Bad(19, "raw plane too small", of_block(bytes([RAW]) + bytes(63)))
    yield Bad(19, "raw plane too large", of_block(bytes([RAW]) + bytes(65)))
    yield Bad(19, "constant without its byte", of_block(bytes([CONSTANT])))
    yield Bad(19, "a byte after the constant", of_block(bytes([CONSTANT, 1, 2])))
    for mode, packed in [(ZSTD, zstd(DATA.tobytes())), (LZ4, lz4(DATA.tobytes()))]:
        name = {ZSTD: "zstd", LZ4: "lz4"}[mode]
        yield Bad(19, f"no size of {name}", of_block(bytes([mode])))
        yield Bad(19, f"size of {name} cut", of_block(bytes([mode, 0x80])))
        yield Bad(19, f"{name} past the end", of_block(bytes([mode]) + varint(len(packed) + 1) + packed))
        yield Bad(19, f"{name} of 2^63 bytes", of_block(bytes([mode]) + varint(2**63) + packed))
        yield Bad(19, f"{name} of 2^64 - 1 bytes", of_block(bytes([mode]) + varint(2**64 - 1) + packed))
        yield Bad(19, f"a byte after {name}", of_block(bytes([mode]) + sized(packed) + b"\0"))
        yield Bad(9, f"over-long size of {name}", of_block(bytes([mode, len(packed) | 128, 0]) + packed))


def general_purpose() -> Iterator[Bad]:
    """Reasons 20 and 21, and the dictionary's 17."""
    whole = DATA.tobytes()

    def zstd_bad(label: str, data: bytes) -> Bad:
        return Bad(20, label, of_block(bytes([ZSTD]) + sized(data)))

    packed = zstd(whole, write_checksum=True)
    yield zstd_bad("nothing", b"")
    yield zstd_bad("not zstd", b"certainly not a frame")
    yield zstd_bad("cut", packed[:-1])
    yield zstd_bad("wrong checksum", packed[:-1] + bytes([packed[-1] ^ 1]))
    yield zstd_bad("a byte shorter", zstd(whole[:-1]))
    yield zstd_bad("a byte longer", zstd(whole + b"\0"))
    yield zstd_bad("a byte shorter, size not said", zstd(whole[:-1], write_content_size=False))
    yield zstd_bad("a byte longer, size not said", zstd(whole + b"\0", write_content_size=False))
    yield zstd_bad("empty", zstd(b""))
    yield zstd_bad("two frames", zstd(whole[:32]) + zstd(whole[32:]))
    yield zstd_bad("an empty frame behind", packed + zstd(b""))
    skippable = struct.pack("<II", 0x184D2A50, 3) + b"abc"
    yield zstd_bad("a skippable frame before", skippable + packed)
    yield zstd_bad("a skippable frame behind", packed + skippable)
    yield zstd_bad("a skippable frame", skippable)
    yield zstd_bad("a byte behind", packed + b"\0")
    yield zstd_bad("a window of 2^41 bytes", zstd_window(whole, 41))
    yield zstd_bad("a bomb", zstd(bytes(2**22)))
    dictionary = whole[:40]
    with_dictionary = zstd(whole, dictionary)
    yield zstd_bad("a dictionary not said", with_dictionary)
    no_dictionary = craft.assets()
    body = bytes([ZSTD_DICTIONARY]) + sized(with_dictionary)
    yield Bad(17, "dictionary of no plan", of_block(body))
    yield Bad(17, "dictionary of a plan without", of_block(body, plan_hash=craft.hash_of(no_dictionary)), no_dictionary)
    owner = craft.assets(dictionary=dictionary)
    broken = bytes([ZSTD_DICTIONARY]) + sized(with_dictionary[:-1])
    yield Bad(20, "with a dictionary, cut", of_block(broken, plan_hash=craft.hash_of(owner)), owner)

    def lz4_bad(label: str, data: bytes) -> Bad:
        return Bad(21, label, of_block(bytes([LZ4]) + sized(data)))

    yield lz4_bad("nothing", b"")
    yield lz4_bad("cut", lz4(whole)[:-1])
    yield lz4_bad("a byte shorter", lz4(whole[:-1]))
    yield lz4_bad("a byte longer", lz4(whole + b"\0"))
    yield lz4_bad("a byte behind", lz4(whole) + b"\0")
    yield lz4_bad(
        "a match before the start", bytes([0x1F]) + b"a" + struct.pack("<H", 500) + bytes([30]) + b"\x50abcde"
    )
    yield lz4_bad("a match of offset 0", bytes([0x1F]) + b"a" + struct.pack("<H", 0) + bytes([30]) + b"\x50abcde")
    yield lz4_bad("a bomb", lz4(bytes(2**20)))


def tables(coder: int) -> Iterator[Bad]:
    name, log = NAMES[coder], LOG[coder]

    def bad(label: str, reason: int = 22, **overrides: Unpack[SectionFields]) -> Bad:
        return Bad(reason, f"{name}: {label}", of_block(section(coder, **overrides), coder))

    def levels(*sizes: int) -> bytes:
        """One description, of symbols from 0 on."""
        bits = BitWriter().put(0, 8).put(len(sizes) - 1, 8)
        describe_levels(bits, sizes, coder)
        return sized(bits.to_bytes())

    def first_step(u: int) -> bytes:
        """One description, whose first level is 4 and the number behind u."""
        return sized(BitWriter().put(0, 8).put(1, 8).unary(u).put(0, 40).to_bytes())

    good = describe([table_for(DATA, coder, log)], coder)
    yield bad("source 2", source=b"\2")
    yield bad("no tables", count=b"\0")
    yield bad("65 tables", count=varint(65))
    yield bad("2^40 tables", count=varint(2**40))
    for wrong_log in (0, 4, 13, 255) if coder == ANS else (0, 5, 10, 12):
        yield bad(f"log {wrong_log}", log=bytes([wrong_log]))
    yield bad("no description", tables=sized(b""))
    yield bad("description cut", tables=sized(good[:-1]))
    yield bad("a byte behind the description", tables=sized(good + b"\0"))
    yield bad("rest of the last byte not zero", tables=_rest_not_zero(coder))
    yield bad("lo above hi", tables=sized(b"\5\4"))
    yield bad("only lo", tables=sized(b"\5"))
    yield bad("level below 0", tables=first_step(9))
    yield bad("level too high", tables=first_step(20 if coder == ANS else 16))
    yield bad("ones without end", tables=sized(b"\0\1" + b"\xff" * 50))
    if coder == ANS:
        yield bad("sum too small", tables=levels(127, 128))
        yield bad("sum too large", tables=levels(128, 129))
        yield bad("sum zero", tables=levels(0, 0))
        yield bad("sum twice as large", tables=levels(256, 256))
    else:
        yield bad("code not complete", tables=levels(1, 2))
        yield bad("code of one bit only", tables=levels(1, 0))
        yield bad("code over-full", tables=levels(1, 1, 11))
        yield bad("no code", tables=levels(0, 0))
    second_cut = section(coder, 2, tables=sized(good + b"\0"))
    yield Bad(22, f"{name}: second description cut", of_block(second_cut, coder))
    yield bad("over-long K", 9, count=b"\x81\0")
    yield Bad(19, f"{name}: tables past the end", of_block(section(coder)[:12], coder))
    yield bad("2^63 bytes of tables", 19, tables=varint(2**63) + good)


def _rest_not_zero(coder: int) -> bytes:
    """A right description that leaves some bits of its last byte: they are ones."""
    bits = BitWriter().put(0, 8).put(2, 8)
    describe_levels(bits, (128, 64, 64) if coder == ANS else (2, 1, 2), coder)
    left = -len(bits.bits) % 8
    assert left
    return sized(bits.put(255, left).to_bytes())


def tables_of_plan(coder: int) -> Iterator[Bad]:
    name, log = NAMES[coder], LOG[coder]
    table = table_for(DATA, coder, log)
    body = section(coder, of_plan=True)

    def uses(label: str, assets: bytes) -> Bad:
        return Bad(17, f"{name} tables: {label}", of_block(body, coder, plan_hash=craft.hash_of(assets)), assets)

    yield Bad(17, f"{name} tables: of no plan", of_block(body, coder))
    yield uses("of a plan without", craft.assets())
    other = 1 - coder
    other_table = describe([table_for(DATA, other, LOG[other])], other)
    yield uses("of the other coder", craft.assets(tables=craft.owned_tables(other, LOG[other], 1, other_table)))
    two = describe([table, table], coder)
    yield uses("other K", craft.assets(tables=craft.owned_tables(coder, log, 2, two)))


def tile_maps(coder: int) -> Iterator[Bad]:
    """Eight tiles; three tables, so two bits a tile, unless said otherwise."""
    name, log = NAMES[coder], LOG[coder]

    def bad(
        label: str, reason: int = 23, number: int = 3, form: int = PACKED, **overrides: Unpack[SectionFields]
    ) -> Bad:
        return Bad(reason, f"{name} map: {label}", of_block(section(coder, number, form, **overrides), coder))

    def inner(**overrides: Unpack[SectionFields]) -> bytes:
        """The section inside a coded map, with some fields overridden."""
        plane = np.array([[0, 1, 2, 0, 0, 1, 0, 2]], np.uint8)
        entropy = Entropy([table_for(plane, coder, log)], coder, log, (1, 8), overrides=overrides)
        return craft_coding.entropy_section([plane], entropy)

    yield bad("form 2", map_form=b"\2")
    yield bad("packed too short", tile_map=sized(b"\0"))
    yield bad("packed too long", tile_map=sized(b"\0\0\0"))
    yield bad("packed of nothing", tile_map=sized(b""))
    yield bad("packed, table 3 of 3", tile_map=sized(b"\0\xc0"))
    seven = Entropy([table_for(DATA, coder, log)] * 3, coder, log, (1, 8), [0] * 7)
    seven.overrides["tile_map"] = sized(b"\0\x40")
    body = coded_block([PLANE[:, :56]], [ENTROPY], seven)
    yield Bad(23, f"{name} map: packed, rest not zero", of_block(body, coder, 56))
    yield bad("past the end", 19, tile_map=varint(2000) + b"\0\0")
    yield bad("2^63 bytes", 19, tile_map=varint(2**63) + b"\0\0")
    yield bad("over-long size", 9, tile_map=b"\x82\0\0\0")

    yield bad("coded of nothing", 19, form=CODED, tile_map=sized(b""))
    yield bad("coded, a byte behind", 19, form=CODED, tile_map=sized(inner() + b"\0"))
    yield bad("coded, a byte short", 19, form=CODED, tile_map=sized(inner()[:-1]))
    yield bad("coded, tables of the plan", 23, form=CODED, tile_map=sized(inner(source=b"\1")))
    yield bad("coded, two tables", 22, form=CODED, tile_map=sized(inner(count=b"\2")))
    yield bad("coded, wrong log", 22, form=CODED, tile_map=sized(inner(log=b"\x0d")))
    yield bad("coded, lo above hi", 22, form=CODED, tile_map=sized(inner(tables=sized(b"\2\1"))))
    yield bad(
        "coded, stream empty", 24, form=CODED, tile_map=sized(inner(stream_sizes=bytes(STREAMS[coder]), streams=b""))
    )
    step = Entropy([{3: 0 if coder == HUFFMAN else 2**log}], coder, log, (1, 8))
    three = craft_coding.entropy_section([np.full((1, 8), 3, np.uint8)], step)
    yield bad("coded, a step of K", form=CODED, tile_map=sized(three))
    even: Table = {0: 1, 1: 1} if coder == HUFFMAN else {0: 2**7, 1: 2**7}
    sixteen = craft_coding.entropy_section([np.ones((1, 16), np.uint8)], Entropy([even], coder, log, (1, 16)))
    yield bad("coded for sixteen tiles", 24, form=CODED, tile_map=sized(sixteen))


def streams(coder: int) -> Iterator[Bad]:
    name = NAMES[coder]
    tiles = craft_coding.tiles_of([PLANE], (1, 8))
    good = craft_coding.streams_of(tiles, [table_for(DATA, coder, LOG[coder])] * 8, coder, LOG[coder])

    def with_stream(label: str, place: int, stream: bytes) -> Bad:
        parts = [*good[:place], stream, *good[place + 1 :]]
        sizes = b"".join(varint(len(p)) for p in parts)
        body = section(coder, stream_sizes=sizes, streams=b"".join(parts))
        return Bad(24, f"{name}: stream {place} {label}", of_block(body, coder))

    def with_sizes(label: str, reason: int, *sizes: bytes) -> Bad:
        return Bad(reason, f"{name}: {label}", of_block(section(coder, stream_sizes=b"".join(sizes)), coder))

    for place in (0, STREAMS[coder] - 1):
        yield with_stream("a byte short", place, good[place][:-1])
        yield with_stream("a byte long", place, good[place] + b"\0")
        yield with_stream("empty", place, b"")
    sizes = [varint(len(p)) for p in good]
    yield Bad(19, f"{name}: a byte behind the streams", of_block(section(coder) + b"\0", coder))
    yield Bad(19, f"{name}: streams cut", of_block(section(coder)[:-1], coder))
    cut = section(coder, stream_sizes=b"".join(sizes[:-1]), streams=b"")
    yield Bad(19, f"{name}: sizes cut", of_block(cut, coder))
    yield with_sizes("a stream of 2^64 - 1 bytes", 19, varint(2**64 - 1), *sizes[1:])
    yield with_sizes("sizes whose sum wraps around", 19, varint(2**63), varint(2**63), *sizes[2:])
    yield with_sizes("over-long size of a stream", 9, b"\x80\0", *sizes[1:])


def _one_tile(coder: int, table: Table, parts: list[bytes], size: int) -> bytes:
    """A frame of up to eight symbols, with these very streams."""
    sizes = b"".join(varint(len(p)) for p in parts)
    plane = np.full((1, size), min(table), np.uint8)
    overrides: SectionFields = {"stream_sizes": sizes, "streams": b"".join(parts)}
    entropy = Entropy([table], coder, LOG[coder], (1, 8), overrides=overrides)
    return of_block(coded_block([plane], [ENTROPY], entropy), coder, size)


def huffman_ends() -> Iterator[Bad]:
    two: Table = {0: 1, 1: 1}
    yield Bad(24, "huffman: rest not zero", _one_tile(HUFFMAN, two, [b"\2"] + [b"\0"] * 7, 8))
    yield Bad(24, "huffman: bytes for no symbols", _one_tile(HUFFMAN, two, [b"\0"] * 8, 7))
    yield Bad(24, "huffman: bytes for symbols of no bits", _one_tile(HUFFMAN, {5: 0}, [b"\0"] * 8, 8))


def ans_ends() -> Iterator[Bad]:
    table: Table = {0: 2**7, 1: 2**7}
    good = craft_coding.ans_stream([(0, table)], 8)
    wrong = craft_coding.ans_stream([(0, table)], 8, last_state=3)
    yield Bad(24, "ans: last state not 0", _one_tile(ANS, table, [wrong, good, good, good], 4))
    idle_wrong = craft_coding.ans_stream([], 8, last_state=1)
    yield Bad(24, "ans: state not 0 with no symbols", _one_tile(ANS, table, [good, good, good, idle_wrong], 3))
    yield Bad(24, "ans: no state for no symbols", _one_tile(ANS, table, [good, good, good, b""], 3))
    padded = BitWriter().put(5, 3).put(4, 5).put(0, 8).to_bytes()
    yield Bad(24, "ans: padding not zero", _one_tile(ANS, table, [good, good, good, padded], 3))
    unread = BitWriter().put(0, 3).put(0, 8).put(0, 5).to_bytes()
    yield Bad(24, "ans: bits not read", _one_tile(ANS, table, [good, good, good, unread], 3))
    yield Bad(24, "ans: padding past the end", _one_tile(ANS, table, [good, good, good, b"\7"], 3))


def codes() -> Iterator[Bad]:
    """Reason 25: codes outside their palette."""
    four = [np.arange(4, dtype="<u4")]
    value = craft.palette_in_frame(four)
    for place in (0, 5):
        body = bytearray(6)
        body[place] = 4
        yield Bad(25, f"code 4 of 4 at {place}", frame("float32", (6,), chain(value), [bytes(body)]))
    yield Bad(25, "code 255 of 4", frame("float32", (6,), chain(value), [b"\0\0\0\xff\0\0"]))
    rows = [np.arange(4, dtype="<u4"), np.arange(2, dtype="<u4")]
    by_row = craft.palette_in_frame(rows, axis=0)
    yield Bad(25, "of the second palette", frame("float32", (2, 3), chain(by_row), [bytes([3, 3, 3, 1, 2, 1])]))
    by_column = craft.palette_in_frame(rows, axis=1)
    yield Bad(25, "of the second column", frame("float32", (3, 2), chain(by_column), [bytes([3, 1, 3, 1, 3, 3])]))
    formula = craft.palette_formula(255, [(1, 0, [255.0])])
    yield Bad(25, "of a formula", frame("float16", (6,), chain(formula), [b"\0\0\0\xff\0\0"]))
    wide = craft.palette_in_frame([np.arange(300, dtype="<u2")], bits=16)
    yield Bad(25, "of 16 bits", frame("bfloat16", (3,), chain(wide), [np.array([0, 299, 300], "<u2").tobytes()]))
    owner = craft.assets(craft.owned_palette("float32", four))
    of_plan = chain(craft.palette_of_plan())
    owned = frame("float32", (2,), of_plan, [b"\3\4"], plan_hash=craft.hash_of(owner))
    yield Bad(25, "of the plan", owned, owner)
    pairs = frame("complex64", (2,), chain(value), [b"\0\1\2\4"])
    yield Bad(25, "of complex numbers", pairs)
    image = chain(value, craft.med(0), 0, coded(HUFFMAN, 2, 2))
    yield Bad(25, "after med", frame("float32", (2, 2), image, [bytes([RAW, 8, 0, 0, 0])]))


def bad_blocks() -> list[Bad]:
    plain = [bad for kind in (stored, modes, general_purpose, huffman_ends, ans_ends, codes) for bad in kind()]
    by_coder = [
        bad for kind in (tables, tables_of_plan, tile_maps, streams) for coder in (HUFFMAN, ANS) for bad in kind(coder)
    ]
    return plain + by_coder
