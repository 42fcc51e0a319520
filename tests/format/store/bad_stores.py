"""Bad stores: at least one for every number of the page's "A reader must reject"."""

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tests.format.store.bad_store_json import BAD_STORE_JSON, Bad, with_files, without
from tests.format.store.craft_packed import PackedLeaf, PackedRow, packed_shard, table
from tests.format.store.craft_store import (
    ROWS,
    SHARD,
    CraftedStore,
    Folder,
    Row,
    body,
    byte_frame,
    good_store,
    index,
    index_header,
    one_shard,
    raw_frame,
    record,
    resealed,
    resealed_shard,
    schema_hash,
    shard,
    shard_header,
    store_json,
)
from tests.format.support import craft

FIRST, SECOND = SHARD.format(0), SHARD.format(1)


def bad_indices() -> Iterator[Bad]:
    shards = CraftedStore().shards
    yield Bad(8, "another version", with_files(shards_bin=index_header(major=2) + index(shards)[32:]))
    damaged = index(shards)[:-1] + b"x"
    yield Bad(9, "the last record damaged, its shard missing", without(SECOND) | {"shards.bin": damaged})
    yield Bad(9, "the last record cut, its shard cut", with_files(shards_bin=damaged[:-9]) | {SECOND: shards[1][:-9]})
    yield Bad(9, "no index, the first shard missing", without("shards.bin", FIRST))
    yield Bad(9, "no index, a shard cut", without("shards.bin") | {FIRST: shards[0][:-1]})
    yield Bad(9, "a gap", without("shards.bin", SECOND) | {SHARD.format(2): shards[1]})
    yield Bad(9, "a header damaged, a gap", without(SECOND) | {SHARD.format(2): shards[1], "shards.bin": b"CWIX" * 40})
    torn = struct.pack("<QQ", 3, 2)  # of a third shard
    yield Bad(9, "the record of a lost shard, cut short", with_files(shards_bin=index(shards) + torn))
    copied = record(3, 9, shards[1])  # right by itself, but it does not follow
    yield Bad(9, "a right record behind zeros", with_files(shards_bin=index(shards) + bytes(64) + copied))
    yield Bad(9, "a right record of no shard", with_files(shards_bin=index(shards) + record(2, 9, shards[1])))
    middle = bytearray(index(shards))
    middle[40] ^= 1
    yield Bad(9, "a record damaged, another shard there", with_files(shards_bin=bytes(middle)) | {FIRST: shards[1]})


def bad_shards() -> Iterator[Bad]:
    good = CraftedStore().shards[1]
    first = CraftedStore().shards[0]

    def second(data: bytes) -> Folder:
        """The good store with another second shard, which its record fits but for the number of samples."""
        data = resealed_shard(data)
        records = record(0, 0, first) + record(1, 2, data, count=1)
        return good_store() | {SECOND: data, "shards.bin": index_header() + records}

    yield Bad(10, "the first shard missing", without(FIRST))
    yield Bad(10, "the last shard missing", without(SECOND))
    for label, data in {"empty": b"", "cut in the header": good[:31], "not a shard": b"\x93NUMPY" + good[6:]}.items():
        yield Bad(11, label, good_store() | {SECOND: data})
    yield Bad(11, "the header's checksum", good_store() | {SECOND: good[:20] + b"\1" + good[21:]})
    for flags, version in ((2, 1), (128, 1), (3, 1), (0, 2), (0, 0)):
        header = shard_header(schema_hash(), flags=flags, major=version)
        yield Bad(12, f"version {version}, flags {flags}", second(shard(ROWS[2:], header)))
    yield Bad(13, "another schema hash", second(shard(ROWS[2:], shard_header(schema_hash() ^ 1))))
    hashed = index_header() + record(0, 0, first) + record(1, 2, good, hash=1)
    yield Bad(13, "another schema hash in the record", with_files(shards_bin=hashed))
    for end in (32, 60, len(good) - 48, len(good) - 1):
        yield Bad(14, f"cut to {end} bytes", good_store() | {SECOND: good[:end]})
    yield Bad(14, "longer", good_store() | {SECOND: good + b"x"})
    yield Bad(14, "the trailer's checksum", good_store() | {SECOND: good[:-20] + b"\7" + good[-19:]})
    for label, at, layout, value in (
        ("rows offset 31", 0, "<Q", 31), ("rows offset 2^63", 0, "<Q", 2**63), ("count 0", 8, "<Q", 0),
        ("count 2", 8, "<Q", 2), ("count 2^64 - 1", 8, "<Q", 2**64 - 1), ("row size 0", 16, "<I", 0),
        ("footer size 2^32 - 1", 20, "<I", 2**32 - 1), ("file size 0", 32, "<Q", 0),
        ("file size", 32, "<Q", len(good) + 1),
    ):  # fmt: skip
        made = bytearray(good)
        struct.pack_into(layout, made, len(good) - 48 + at, value)
        yield Bad(15, label, second(bytes(made)))
    yield Bad(15, "another row size", second(shard([replace(ROWS[2], columns=bytes(17))])))
    for name, value in (("size", len(good) - 1), ("count", 2), ("checksum", 7)):
        changed = index_header() + record(0, 0, first) + record(1, 2, good, **{name: value})
        yield Bad(16, f"another {name} in the record", with_files(shards_bin=changed))
    yield Bad(16, "shards exchanged", good_store() | {FIRST: good, SECOND: first})
    yield Bad(16, "a shard twice", good_store() | {SECOND: first})


PACKED_LEAVES = (PackedLeaf(1), PackedLeaf(2), PackedLeaf(8))
COVERING = (PackedLeaf(1, covered=True), PackedLeaf(2), PackedLeaf(8))


def version_2(rows: Sequence[Row], leaves: Sequence[PackedLeaf] = PACKED_LEAVES, **others: Any) -> bytes:
    """A shard of version 2 with these rows."""
    made = [PackedRow(row.frames, row.columns, row.states) for row in rows]
    return packed_shard(schema_hash(), leaves, made, **others)


def bad_tables() -> Iterator[Bad]:
    right = table(PACKED_LEAVES)
    for label, made in {
        "another magic": table(PACKED_LEAVES, magic=b"CWSX"),
        "another checksum": right[:-1] + bytes([right[-1] ^ 1]),
        "a reserved byte changed": right[:5] + b"\1" + right[6:],
        "start width 0": table(PACKED_LEAVES, 0),
        "start width 9": table(PACKED_LEAVES, 9),
        "size width 0": table([PackedLeaf(0), *PACKED_LEAVES[1:]]),
        "size width 9": table([PackedLeaf(9), *PACKED_LEAVES[1:]]),
        "a flag": table([PackedLeaf(1, flags=2), *PACKED_LEAVES[1:]]),
        "all flags": table([PackedLeaf(1, flags=255), *PACKED_LEAVES[1:]]),
        "a leaf too few": table(PACKED_LEAVES[:2]),
        "a leaf too many": table([*PACKED_LEAVES, PackedLeaf()]),
    }.items():
        yield Bad(27, label, with_shard(version_2(ROWS[:1], made_table=made)))
    nothing = replace(ROWS[0], frames=(b"", b"", b""), states=(1, 0, 1, 1, 0, 2, 0))
    yield Bad(27, "no table", with_shard(version_2([nothing], made_table=b"")))
    yield Bad(27, "a table cut short", with_shard(version_2([nothing], made_table=right[1:])))
    yield Bad(15, "rows of another size", with_shard(version_2(ROWS[:1], made_table=table(PACKED_LEAVES, 3))))
    yield Bad(15, "rows with tags of covered leaves", with_shard(version_2(ROWS[:1], made_table=table(COVERING))))


def bad_rows() -> Iterator[Bad]:
    row = ROWS[0]
    packed = row.packed(0, 32)
    yield Bad(17, "a column changed", good_store() | {FIRST: good_store()[FIRST].replace(packed[44:52], bytes(8), 1)})
    rows = shard([row, row])
    swapped = rows.replace(row.packed(1, 32 + sum(map(len, row.frames))), packed)
    swapped = swapped[: len(swapped) - 48] + resealed_trailer(swapped)
    yield Bad(17, "a row in another's place", with_shard(swapped))
    for label, offsets in {
        "below the header": (31, 40, 50, 60),
        "falling": (32, 90, 80, 100),
        "behind the rows": (32, 40, 50, 2**40),
        "wrapping": (32, 40, 50, 2**64 - 1),
        "negative": (2**64 - 8, 40, 50, 60),
    }.items():
        data = bytearray(shard([row]))
        struct.pack_into("<4Q", data, len(data) - 48 - len(b'{"fields":[],"plans":[]}') - len(packed), *offsets)
        yield Bad(18, label, resealed(with_shard(bytes(data)), frames=0))
    for label, states in {
        "state 3": (0, 3, 0, 0, 0, 2, 0),
        "present, but none": (0, 0, 0, 0, 0, 0, 0),
        "absent in a list": (0, 0, 0, 0, 0, 2, 1),
        "None below None": (0, 0, 0, 0, 2, 2, 1),
        "present below absent": (0, 0, 0, 0, 1, 1, 0),
        "absent with a frame": (1, 0, 0, 0, 0, 2, 0),
        "None with a frame": (0, 0, 2, 0, 0, 2, 0),
    }.items():
        yield Bad(19, label, one_shard(replace(row, states=states)))
    without_frame = [b"", *row.frames[1:]]
    yield Bad(19, "present without a frame", one_shard(replace(row, frames=without_frame)))
    absent = (1, *row.states[1:])
    tags = replace(row, frames=without_frame, states=absent, tags=(7, *tags_of(row)[1:]))
    yield Bad(19, "a tag without a frame", one_shard(tags))


def with_shard(data: bytes) -> Folder:
    return CraftedStore(shards=[data]).folder()


def tags_of(row: Row) -> list[int]:
    return [int.from_bytes(row.packed(0, 32)[32 + 4 * place : 36 + 4 * place], "little") for place in range(3)]


def resealed_trailer(data: bytes) -> bytes:
    """The trailer with its own checksum right; rows and their checksums are left alone."""
    return resealed(with_shard(data), frames=10**6)[FIRST][-48:]


def bad_fields() -> Iterator[Bad]:
    row = ROWS[0]

    def case(number: int, label: str, place: int, frame: bytes) -> Bad:
        frames = list(row.frames)
        frames[place] = frame
        return Bad(number, label, one_shard(replace(row, frames=frames)))

    yield Bad(20, "another frame's tag", one_shard(replace(row, tags=(*tags_of(row)[:2], 7))))
    short = replace(row, frames=[b"CWFR", *row.frames[1:]], tags=tags_of(row))
    yield Bad(20, "a frame of four bytes", one_shard(short))
    long_header = craft.frame("float32", (4,), craft.chain(), [bytes(16)], header_size=1000)
    long = replace(row, frames=[long_header, *row.frames[1:]], tags=tags_of(row))
    yield Bad(20, "a header longer than the frame", one_shard(long))
    yield case(21, "a block's checksum", 0, row.frames[0][:-1] + b"x")
    yield case(21, "another frame version", 0, craft.frame("float32", (4,), craft.chain(), [bytes(16)], major=2))
    yield case(21, "bytes behind the frame", 0, row.frames[0] + b"x")
    yield case(21, "a plan that is not there", 0, craft.frame("float32", (4,), craft.chain(), [bytes(16)], plan_hash=7))
    yield case(22, "float64 for float32", 0, raw_frame(np.zeros(4)))
    yield case(22, "int32 for float32", 0, raw_frame(np.zeros(4, "<i4")))
    yield case(22, "a text of int8", 1, raw_frame(np.zeros(4, "i1")))
    yield case(22, "a text with two dimensions", 1, raw_frame(np.full((2, 2), 65, "u1")))
    yield case(22, "a text without dimensions", 1, raw_frame(np.array(65, "u1")))
    yield case(22, "a value with two dimensions", 2, raw_frame(np.zeros((1, 1), "u1")))
    yield case(23, "not UTF-8", 1, byte_frame(b"\xff"))
    yield case(23, "cut UTF-8", 1, byte_frame("ä".encode()[:1]))
    for label, data in bad_values().items():
        yield case(24, label, 2, byte_frame(data))


def bad_values() -> dict[str, bytes]:
    """What no reader of "any" takes."""
    one = b"\x03\x01\x01"
    return {
        "nothing": b"",
        "an unknown tag": b"\x12",
        "a list of integers of three bytes": b"\x10\x03\x01abc",
        "a list of integers that ends early": b"\x10\x04\x02abcdabc",
        "a list of floats that ends early": b"\x11\x01abcdefg",
        "bytes behind it": b"\x00\x00",
        "an integer cut short": b"\x03\x02\x01",
        "a float cut short": b"\x04" + bytes(7),
        "a text cut short": b"\x06\x02a",
        "a text that is not UTF-8": b"\x06\x01\xff",
        "a list cut short": b"\x08\x02" + one,
        "a list of 2^62 items": b"\x08" + craft.varint(2**62),
        "a dict of 2^62 items": b"\x0a" + craft.varint(2**62),
        "a named tuple of 2^62 items": b"\x0c\x01P" + craft.varint(2**62),
        "an over-long varint": b"\x07\x80\x00",
        "a varint of more than 64 bits": b"\x07" + b"\xff" * 10,
        "a key twice": b"\x0a\x02" + one + b"\x00" + one + b"\x00",
        "equal keys": b"\x0a\x02" + one + b"\x00" + b"\x02\x00",
        "a list as key": b"\x0a\x01\x08\x00\x00",
        "a complex number as key": b"\x0a\x01\x05" + bytes(16) + b"\x00",
        "a tuple with a dict as key": b"\x0b\x01\x09\x01\x0a\x00\x00",
        "no identifier": b"\x0c\x03a b\x00",
        "a keyword": b"\x0c\x01P\x01\x02if\x00",
        "two fields of one name": b"\x0c\x01P\x02\x01a\x01a\x00\x00",
        "an unknown dtype": b"\x0d\x16\x00",
        "an array of bfloat16": b"\x0e\x0a\x00\x00\x00",
        "a scalar of bfloat16": b"\x0f\x0a\x00\x00",
        "65 dimensions": b"\x0d\x01\x41" + b"\x01" * 65 + b"\x00",
        "a dimension of 2^48": b"\x0d\x01\x01" + craft.varint(2**48),
        "too large but for a zero": b"\x0d\x01\x03\x00" + craft.varint(2**40) + craft.varint(2**40),
        "a tensor cut short": b"\x0d\x0b\x01\x02" + bytes(7),
        "nested too deep": b"\x08\x01" * 65 + b"\x00",
    }


def bad_footers() -> Iterator[Bad]:
    footers = {"empty": b"", "not JSON": b"{", "a list": b"[]", "no fields": b'{"plans": []}'}
    for label, footer in (footers | {"fields that are a number": b'{"fields": 1, "plans": []}'}).items():
        yield Bad(26, label, one_shard(*ROWS, footer=footer))
    good = one_shard(*ROWS)
    yield Bad(26, "the footer's checksum", good | {FIRST: good[FIRST].replace(b'"plans"', b'"plens"')})


BAD = [
    *BAD_STORE_JSON, *bad_indices(), *bad_shards(), *bad_tables(), *bad_rows(), *bad_fields(),
]  # fmt: skip
BAD_FOOTERS = list(bad_footers())


def allowed_stores() -> dict[str, Folder]:
    """Stores with something unusual that has the samples of the good one all the same."""
    good = good_store()
    text = json.loads(good["store.json"])
    shards = CraftedStore().shards
    noted = text | {"note": "mine"}
    unknown = body() | {"later": [1, "two"]}
    unknown["fields"][0]["later"] = None
    unknown["schema"] = unknown["schema"] | {"later": 1}
    short = body()
    for entry in short["fields"]:
        del entry["plan"], entry["store_as"], entry["classes"]
    new_minor = shard_header(schema_hash(), minor=7, flags=0x8100)
    damaged = bytearray(good["shards.bin"])
    damaged[40] ^= 1
    reserved = bytearray(good[FIRST])
    reserved[20] = 1
    return {
        "as it is": good,
        "other files": good | {".lock": b"1 host", ".shard-00000002.cws.cordwood-1-x.part": b"CWSH", "notes.txt": b""},
        "no white space": good | {"store.json": json.dumps(text, separators=(",", ":")).encode()},
        "sorted": good | {"store.json": json.dumps(text, sort_keys=True, indent=4).encode()},
        "unknown members": good | {"store.json": json.dumps(noted).encode()},
        "unknown members of the body": good | {"store.json": store_json(unknown)},
        "fields without what may be missing": good | {"store.json": store_json(short)},
        "a higher minor": good | {"store.json": store_json(body(), version=[1, 9])},
        "a plan that is missing, and not needed": good | {"store.json": store_json(_with_plan())},
        "a higher minor of a shard": CraftedStore(shards=[shards[0], shard(ROWS[2:], new_minor)]).folder(),
        "packed rows": CraftedStore(shards=[version_2(ROWS[:2]), version_2(ROWS[2:])]).folder(),
        "packed rows in one of two shards": CraftedStore(shards=[shards[0], version_2(ROWS[2:])]).folder(),
        "packed rows with wide fields": CraftedStore(
            shards=[version_2(ROWS[:2], [PackedLeaf(8)] * 3, start_width=8), shards[1]]
        ).folder(),
        "reserved bytes of a shard": resealed(good | {FIRST: bytes(reserved)}),
        "no index": {name: data for name, data in good.items() if name != "shards.bin"},
        "an empty index": good | {"shards.bin": b""},
        "an index without records": good | {"shards.bin": good["shards.bin"][:32]},
        "the index is behind": good | {"shards.bin": good["shards.bin"][:96]},
        "a record cut short": good | {"shards.bin": good["shards.bin"][:-1]},
        "the first record damaged": good | {"shards.bin": bytes(damaged)},
        "the index of another store": good | {"shards.bin": index_header() + record(1, 0, shards[0])},
        "zeros behind the records": good | {"shards.bin": good["shards.bin"] + bytes(64)},
        "a byte behind the records": good | {"shards.bin": good["shards.bin"] + b"x"},
        "a record twice": good | {"shards.bin": good["shards.bin"] + good["shards.bin"][-64:]},
        "something else for an index": good | {"shards.bin": b"\0" * 500},
        "a footer that is not one": CraftedStore(shards=[shard(ROWS[:2], footer=b"\xff"), shards[1]]).folder(),
    }


def _with_plan() -> Any:
    made = body()
    made["fields"][0]["plan"] = "0123456789abcdef"
    return made


def samples_of_good() -> list[dict[str, Any]]:
    """What the good store holds, with arrays as lists."""
    return [
        {"x": [0.0, 1.0, 2.0, 3.0], "n": 1, "t": "one", "a": [None, 7], "l": [None, -1]},
        {"n": 2, "t": "", "a": None, "l": None},
        {"x": [[1.0, 1.0], [1.0, 1.0]], "t": None, "a": True, "l": [None, 3]},
    ]
