"""Stores put together by hand, from the format's page alone, so that each thing in them can be wrong.

::

    folder = good_store()                                   # file -> bytes: two shards, three samples
    folder["store.json"] = store_json(body(), version=[2, 0])
    write(folder, path)

Parts are made right from what they are given. To make a fault that checksums do not find, change bytes and `reseal`.
"""

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.format.support import craft
from tests.format.support.craft import crc32c

Folder = dict[str, bytes]
Json = dict[str, Any]
SHARD = "shard-{:08d}.cws"


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def blake(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=8).digest()


def write(folder: Mapping[str, bytes], path: Path) -> Path:
    """The folder on disk."""
    for name, data in folder.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(data)
    return path


# store.json


def node(kind: str, **members: Any) -> Json:
    return {"kind": kind, **members}


def mapping(kind: str = "dict", /, **items: Json) -> Json:
    return node(kind, keys=list(items), items=list(items.values()))


INT = node("scalar", type="int", dtype="int64")
FLOATS = node("tensor", dtype="float32")
# An optional tensor, a number, a text, anything, and a list with something that always is None.
SCHEMA = mapping(x=FLOATS, n=INT, t=node("str"), a=node("any"), l=node("list", items=[node("none"), INT]))


def entry(name: str, **members: Any) -> Json:
    return {"name": name, "goal": "balanced", "plan": None, "store_as": None, "classes": None, **members}


def body(schema: Any = SCHEMA, names: Sequence[str] = ("x", "n", "t", "a", "l.1")) -> Json:
    options = {"goal": "balanced", "shard_bytes": 64 << 20}
    return {"schema": schema, "fields": [entry(name) for name in names], "options": options}


def store_json(made: Any, version: Any = (1, 0), checksum: Any = None) -> bytes:
    right = f"{crc32c(canonical(made)):08x}"
    return json.dumps({"cordwood_store": version, "body": made, "crc32c": checksum or right}, indent=1).encode()


def schema_hash(schema: Any = SCHEMA, stored: Sequence[str] = ("float32", "uint8", "uint8")) -> int:
    return int.from_bytes(blake(canonical({"schema": schema, "stored": list(stored)})), "little")


# A shard


def raw_frame(array: Any, dtype: str | None = None) -> bytes:
    """An array as it is."""
    array = np.asarray(array)
    blocks = [array.tobytes()] if array.size else []
    return craft.frame(dtype or array.dtype.name, array.shape, craft.chain(), blocks)


def byte_frame(data: bytes) -> bytes:
    """Bytes as a frame of uint8."""
    return raw_frame(np.frombuffer(data, np.uint8))


def tag_of(frame: bytes) -> int:
    size = int.from_bytes(frame[6:10], "little")
    return int.from_bytes(frame[size - 4 : size], "little")


@dataclass(frozen=True)
class Row:
    """What a sample is made of; `tags` are those of the frames unless given, `apart` follows the frames."""

    frames: Sequence[bytes] = ()
    columns: bytes = b""
    states: Sequence[int] = ()
    tags: Sequence[int] | None = None
    apart: Sequence[bytes] = ()

    def packed(self, number: int, start: int) -> bytes:
        """The row, where its first frame begins at `start`."""
        ends = np.cumsum([start, *map(len, self.frames)]).astype("<u8")
        tags = [tag_of(frame) if frame else 0 for frame in self.frames] if self.tags is None else self.tags
        bits = sum(state << 2 * place for place, state in enumerate(self.states))
        states = bits.to_bytes((len(self.states) + 3) // 4, "little")
        row = ends.tobytes() + np.array(tags, "<u4").tobytes() + self.columns + states
        return row + struct.pack("<I", crc32c(struct.pack("<Q", number) + row))


def shard_header(hash_: int, major: int = 1, minor: int = 0, flags: int = 0, magic: bytes = b"CWSH") -> bytes:
    made = magic + struct.pack("<BBHQ12x", major, minor, flags, hash_)
    return made + struct.pack("<I", crc32c(made))


def shard(rows: Sequence[Row], header: bytes | None = None, footer: bytes | None = None) -> bytes:
    """A shard of these samples."""
    data = shard_header(schema_hash()) if header is None else header
    packed = []
    for number, row in enumerate(rows):
        packed.append(row.packed(number, len(data)))
        data += b"".join((*row.frames, *row.apart))
    footer = canonical({"fields": [], "plans": []}) if footer is None else footer
    all_rows, checksums = b"".join(packed), b"".join(row[-4:] for row in packed)
    size = len(data) + len(all_rows) + len(footer) + 48
    parts = (len(data), len(rows), len(packed[0]), len(footer), crc32c(footer), crc32c(checksums), size)
    trailer = struct.pack("<QQIIIIQ4s", *parts, b"CWSE")
    return data + all_rows + footer + trailer + struct.pack("<I", crc32c(trailer))


# shards.bin


def index_header(major: int = 1, magic: bytes = b"CWIX") -> bytes:
    made = magic + struct.pack("<BB22x", major, 0)
    return made + struct.pack("<I", crc32c(made))


def record(number: int, first: int, shard_bytes: bytes, **changed: int) -> bytes:
    """The record of a shard; `changed` may have other numbers for any of its fields."""
    right = {
        "first": first,
        "count": struct.unpack_from("<Q", shard_bytes, len(shard_bytes) - 40)[0],
        "size": len(shard_bytes),
        "hash": struct.unpack_from("<Q", shard_bytes, 8)[0],
        "checksum": struct.unpack_from("<I", shard_bytes, len(shard_bytes) - 4)[0],
    }
    made = struct.pack("<QQQQI24x", *(right | changed).values())
    return made + struct.pack("<I", crc32c(struct.pack("<Q", number) + made))


def index(shards: Sequence[bytes]) -> bytes:
    made, first = index_header(), 0
    for number, one in enumerate(shards):
        made += record(number, first, one)
        first += struct.unpack_from("<Q", one, len(one) - 40)[0]
    return made


# A store of all that


def number(value: int) -> bytes:
    return struct.pack("<q", value)


ANY_VALUE = b"\x08\x02\x00\x03\x01\x07"  # [None, 7]
ROWS = (
    Row([raw_frame(np.arange(4, dtype="<f4")), byte_frame(b"one"), byte_frame(ANY_VALUE)], number(1) + number(-1),
        (0, 0, 0, 0, 0, 2, 0)),
    Row([b"", byte_frame(b""), b""], number(2) + bytes(8), (1, 0, 0, 2, 2, 1, 1)),
    Row([raw_frame(np.ones((2, 2), "<f4")), b"", byte_frame(b"\x02")], bytes(8) + number(3), (0, 1, 2, 0, 0, 2, 0)),
)  # fmt: skip


@dataclass
class CraftedStore:
    """The parts of a store, to be changed before it is put together."""

    body: Any = field(default_factory=body)
    shards: list[bytes] = field(default_factory=lambda: [shard(ROWS[:2]), shard(ROWS[2:])])
    others: Folder = field(default_factory=dict)  # besides what is made here, or in its place

    def folder(self) -> Folder:
        made = {"store.json": store_json(self.body), "shards.bin": index(self.shards)}
        made |= {SHARD.format(number): data for number, data in enumerate(self.shards)}
        return made | self.others


def good_store() -> Folder:
    """Two shards with three samples."""
    return CraftedStore().folder()


def one_shard(*rows: Row, **members: Any) -> Folder:
    """A store of one shard with these rows."""
    return CraftedStore(shards=[shard(rows, **members)]).folder()


# Checksums made right again


def resealed(folder: Mapping[str, bytes], frames: int = 3) -> Folder:
    """The checksums of shards and of the index made right where they can be; tags too, of so many frames a row."""
    made = dict(folder)
    for name, data in folder.items():
        if name.startswith("shard-"):
            made[name] = resealed_shard(data, frames)
    shards = [data for name, data in sorted(made.items()) if name.startswith("shard-") and len(data) >= 48]
    if "shards.bin" in made and folder["shards.bin"][:4] == b"CWIX":
        made["shards.bin"] = index(shards)
    return made


def resealed_shard(data: bytes, frames: int = 3) -> bytes:
    """A shard with right checksums, as far as its trailer tells where they are."""
    if len(data) < 80:
        return data
    out = bytearray(data)
    struct.pack_into("<I", out, 28, crc32c(bytes(out[:28])))
    trailer = len(out) - 48
    rows_at, count, row_size, footer_size = struct.unpack_from("<QQII", out, trailer)
    footer_at = rows_at + count * row_size
    if row_size >= 12 * frames + 12 and rows_at >= 32 and footer_at + footer_size == trailer:
        for row in range(count):
            _reseal_row(out, rows_at + row * row_size, row, row_size, frames)
        struct.pack_into("<I", out, trailer + 24, crc32c(bytes(out[footer_at:trailer])))
        ends = range(rows_at + row_size, footer_at + 1, row_size)
        struct.pack_into("<I", out, trailer + 28, crc32c(b"".join(bytes(out[end - 4 : end]) for end in ends)))
    struct.pack_into("<I", out, len(out) - 4, crc32c(bytes(out[trailer:-4])))
    return bytes(out)


def _reseal_row(out: bytearray, at: int, number: int, row_size: int, frames: int) -> None:
    offsets = struct.unpack_from(f"<{frames + 1}Q", out, at)
    for place in range(frames):
        frame = bytes(out[offsets[place] : offsets[place + 1]]) if offsets[place] < 2**40 else b""
        if len(frame) >= 15:
            struct.pack_into("<I", out, at + 8 * (frames + 1) + 4 * place, tag_of(frame) if tag_fits(frame) else 0)
    row = bytes(out[at : at + row_size - 4])
    struct.pack_into("<I", out, at + row_size - 4, crc32c(struct.pack("<Q", number) + row))


def tag_fits(frame: bytes) -> bool:
    return 15 <= int.from_bytes(frame[6:10], "little") <= len(frame)
