"""A slow and plain reader of Cordwood stores, with nothing in it that store.md does not say.

>>> store = Store("train.cordwood")
>>> len(store), store[0]["label"]

It needs NumPy, and `reader.py` beside it for frames; not torch, and not Cordwood. Read it beside the page: the
functions stand in the page's order, and each `BadStore(n)` is number n of what a reader must reject. Tensors are given
as `Tensor`: an array and the name of its dtype, since NumPy lacks some.
"""

import base64
import hashlib
import itertools
import json
import keyword
import math
import re
import struct
import unicodedata
from collections import OrderedDict, namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import reader as frames  # type: ignore[import-not-found]

Array = npt.NDArray[Any]

# dtype -> NumPy's type of the array: unsigned integers where NumPy has none
DTYPES: dict[str, str] = {name: numpy_type for name, _, numpy_type in frames.DTYPES}
NUMPY_HAS = [name for number, name in enumerate(DTYPES) if number <= 9 or 11 <= number <= 14]
PYTHON_NUMBERS = {"int": "int64", "float": "float64", "bool": "bool", "complex": "complex128"}
STORE_AS = {"float64": ("float16", "bfloat16", "float32"), "float32": ("float16", "bfloat16")}
GOALS = ("small", "balanced", "fast", "raw")
DEEPEST = 64
MOST_NODES = 65_536  # beside the root
SURROGATES = re.compile("[\ud800-\udfff]")
MOST_COLUMN_BYTES = 256  # of an array
PRESENT, ABSENT, NONE, APART = 0, 1, 2, 3


class BadStore(Exception):  # noqa: N818  (what it is)
    """The store, or what was asked of it, must be rejected: `number` is that in the page's list."""

    def __init__(self, number: int, what: str = "") -> None:
        super().__init__(f"number {number} of what a reader must reject{': ' * bool(what)}{what}")
        self.number = number


def check(fine: bool, number: int, what: str = "") -> None:
    """Reject for this reason unless all is fine."""
    if not fine:
        raise BadStore(number, what)


@dataclass(eq=False)
class Tensor:
    """A tensor: an array, of unsigned integers where NumPy lacks the dtype."""

    array: Array
    dtype: str


class Store:
    """The samples of a store; a value that takes more than `limit` bytes is rejected."""

    def __init__(self, path: str | Path, limit: int = 2**30) -> None:
        self.path, self.limit = Path(path), limit
        self.schema, self.fields = read_store_json(self.path / "store.json")
        self.records = read_records(self.path, self.schema)
        self.plans: dict[str, Plan | None] = {}  # those that were read

    def __len__(self) -> int:
        return self.records[-1].first + self.records[-1].count if self.records else 0

    def __getitem__(self, number: int) -> Any:
        if not 0 <= number < len(self):
            raise IndexError(number)
        place = next(n for n, record in enumerate(self.records) if number < record.first + record.count)
        shard = self.shard(place)
        return Sample(self, shard, number - self.records[place].first).value()

    def shard(self, place: int) -> "Shard":
        """A shard that fits its record."""
        assert self.schema is not None
        shard = Shard(shard_path(self.path, place), self.schema)
        record = self.records[place]
        check(record.schema_hash == self.schema.hash, 13)
        check((record.size, record.count) == (len(shard.data), shard.count), 16)
        check(record.trailer_checksum == shard.checksum, 16)
        check(record.places in ((0, 0, 0), shard.places), 16)
        return shard

    def plan(self, name: str) -> "Plan | None":
        """The plan of this name; None if it is missing or damaged."""
        if name not in self.plans:
            self.plans[name] = read_plan(self.path / "plans", name)
        return self.plans[name]

    def assets(self, *first: str | None) -> dict[int, bytes]:
        """The assets of all chains of all plans by their hash, first those of these plans."""
        stems = sorted(path.stem for path in (self.path / "plans").glob("*.json"))
        found: dict[int, bytes] = {}
        for name in (*first, *stems):
            plan = self.plan(name) if name is not None and is_plan_name(name) else None
            for assets in plan.assets if plan else ():
                found.setdefault(int.from_bytes(blake2b_64(assets), "little"), assets)
        return found


def read_file(path: Path, number: int) -> bytes:
    """The bytes of a regular file."""
    check(path.is_file(), number, path.name)
    return path.read_bytes()


# store.json


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, none of whose names is there twice."""
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a member twice")
    return dict(pairs)


def integer(text: str) -> int:
    """A number of 64 bits, signed."""
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise ValueError("a number out of range")
    return int(text)


def no_integer(text: str) -> Any:
    """What is a number, but not one that may be here."""
    raise ValueError(f"the number {text}")


def read_json(data: bytes, number: int) -> Any:
    """A JSON text."""
    hooks = {"parse_int": integer, "parse_float": no_integer, "parse_constant": no_integer} if number == 2 else {}
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=unique, **hooks)  # type: ignore[arg-type]
    except (ValueError, RecursionError) as error:
        raise BadStore(number, str(error)) from None


def canonical(value: Any) -> bytes:
    """Canonical JSON."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def blake2b_64(data: bytes) -> bytes:
    """The BLAKE2b-64 hash."""
    return hashlib.blake2b(data, digest_size=8).digest()


def is_texts(value: Any) -> bool:
    """Whether it is a list of texts."""
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def read_store_json(path: Path) -> "tuple[Schema | None, list[dict[str, Any]]]":
    """The schema, and the fields."""
    store = read_json(read_file(path, 1), 2)
    check(isinstance(store, dict), 2)
    version = store.get("cordwood_store")
    check(isinstance(version, list) and len(version) == 2 and all(type(part) is int for part in version), 2)
    check(version[0] == 1, 3)  # a higher minor is fine
    body, checksum = store.get("body"), store.get("crc32c")
    check(isinstance(body, dict) and isinstance(checksum, str), 2)
    check(checksum == f"{frames.crc32c(canonical(body)):08x}", 4)
    check(all(name == "!format" and body[name] == 2 for name in body if name.startswith("!")), 5)
    fields, options = body.get("fields"), body.get("options")
    check("schema" in body and isinstance(fields, list) and isinstance(options, dict), 2)
    check(options.get("goal") in GOALS and type(options.get("shard_bytes")) is int and options["shard_bytes"] > 0, 2)
    for entry in fields:
        check(isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry.get("goal") in GOALS, 2)
        entry |= {name: entry.get(name) for name in ("plan", "store_as", "classes", "keep_encoded")}
        check(all(isinstance(entry[name], str | None) for name in ("plan", "store_as")), 2)
        check(entry["plan"] is None or is_plan_name(entry["plan"]), 2)
        check(entry["classes"] is None or is_texts(entry["classes"]), 2)
        check(isinstance(entry["keep_encoded"], bool | None), 2)
    optional = body.get("optional")
    check(optional is None or is_texts(optional), 2)
    if body["schema"] is None:
        check(fields == [] and not optional, 7)
        return None, fields
    schema = Schema(read_node(body["schema"]), fields)
    check(set(optional or ()) <= {name for name, _ in schema.root.below()}, 7)
    return schema, fields


# The schema


@dataclass
class Node:
    """A node; the names are the page's."""

    kind: str
    items: "list[Node]" = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    name: str = ""
    type: str = ""
    dtype: str = ""
    shape: list[int] | None = None

    @property
    def is_column(self) -> bool:
        """Whether it is a column leaf."""
        return self.kind == "scalar" or self.shape is not None

    @property
    def is_frame(self) -> bool:
        """Whether it is a frame leaf."""
        return self.kind in FRAME_LEAVES and not self.is_column

    @property
    def width(self) -> int:
        """The bytes of its column."""
        nbytes = math.prod(self.shape or ()) * np.dtype(DTYPES[self.dtype]).itemsize
        return nbytes if self.shape is None else max(nbytes, 12)

    def plain(self) -> dict[str, Any]:
        """The node in JSON, with just the members of its kind."""
        members = {
            "items": [item.plain() for item in self.items], "keys": self.keys, "name": self.name, "type": self.type,
            "dtype": self.dtype,
        }  # fmt: skip
        shape = {} if self.shape is None else {"shape": self.shape}
        return {"kind": self.kind} | {name: members[name] for name in MEMBERS[self.kind]} | shape

    def below(self, path: str = "") -> "Iterator[tuple[str, Node]]":
        """All nodes below it with their names, depth first, each before its items."""
        for key, item in zip(self.keys or range(len(self.items)), self.items, strict=True):
            yield f"{path}{key}", item
            yield from item.below(f"{path}{key}.")


MEMBERS: dict[str, tuple[str, ...]] = {
    "dict": ("keys", "items"), "ordereddict": ("keys", "items"), "list": ("items",), "tuple": ("items",),
    "namedtuple": ("name", "keys", "items"), "tensor": ("dtype",), "ndarray": ("dtype",), "str": (), "bytes": (),
    "any": (), "scalar": ("type", "dtype"), "none": (),
}  # fmt: skip
CONTAINERS = ("dict", "ordereddict", "list", "tuple", "namedtuple")
FRAME_LEAVES = ("tensor", "ndarray", "str", "bytes", "any")
TYPES: dict[str, type] = {"items": list, "keys": list, "name": str, "type": str, "dtype": str}


def read_node(found: Any, depth: int = 1) -> Node:
    """A node, and all below it."""
    check(depth <= DEEPEST, 6, "nested too deep")
    check(isinstance(found, dict) and isinstance(found.get("kind"), str), 2)
    kind = found["kind"]
    check(kind in MEMBERS, 6, f"kind {kind}")
    check(all(isinstance(found.get(name), TYPES[name]) for name in MEMBERS[kind]), 2)
    node = Node(kind, **{name: found[name] for name in MEMBERS[kind] if name != "items"})
    check(kind != "none" or depth > 1, 6, "the root is none")
    if kind in CONTAINERS:
        node.items = [read_node(item, depth + 1) for item in found["items"]]
        check("keys" not in MEMBERS[kind] or len(node.keys) == len(node.items), 6)
    if kind in ("dict", "ordereddict"):
        check(all(type(key) is int or (type(key) is str and not SURROGATES.search(key)) for key in node.keys), 6)
        check(len(set(node.keys)) == len(node.keys), 6)
    if kind == "namedtuple":
        check(is_texts(node.keys), 6)
        check_named(node.name, node.keys, 6)
    if "dtype" in MEMBERS[kind]:
        allowed = list(DTYPES)
        if kind == "ndarray" or node.type in ("numpy", "ndarray"):
            allowed = NUMPY_HAS
        elif node.type != "tensor" and kind == "scalar":
            check(node.type in PYTHON_NUMBERS, 6)
            allowed = [PYTHON_NUMBERS[node.type]]
        check(node.dtype in allowed, 6)
    if kind in ("tensor", "ndarray") and "shape" in found:
        node.shape = found["shape"]
        check(isinstance(node.shape, list) and all(type(size) is int for size in node.shape), 2)
        check(1 <= len(node.shape) <= 32 and min(node.shape) >= 1 and depth > 1, 6, "a shape")
        check(node.width <= MOST_COLUMN_BYTES, 6, "a shape")
    return node


def check_named(name: str, keys: list[str], number: int) -> None:
    """Whether a named tuple may have this name and these keys."""
    check(all(text.isidentifier() and not keyword.iskeyword(text) for text in (name, *keys)), number)
    check(all(unicodedata.is_normalized("NFKC", text) for text in (name, *keys)), number)
    check(len(set(keys)) == len(keys), number)
    check(all(not key.startswith("_") or key == f"_{place}" for place, key in enumerate(keys)), number)


class Schema:
    """The nodes, and what follows from them: the layout of a row, and the hash."""

    def __init__(self, root: Node, fields: list[dict[str, Any]]) -> None:
        self.root = root
        nodes = list(root.below())
        check(len(nodes) <= MOST_NODES and len({name for name, _ in nodes}) == len(nodes), 6)
        leaves = [(name, node) for name, node in nodes or [("value", root)] if node.kind not in (*CONTAINERS, "none")]
        check([name for name, _ in leaves] == [entry["name"] for entry in fields], 7)
        for (name, leaf), entry in zip(leaves, fields, strict=True):
            allowed = STORE_AS.get(leaf.dtype, ()) if leaf.kind in ("tensor", "ndarray") and leaf.is_frame else ()
            check(entry["store_as"] is None or entry["store_as"] in allowed, 7, name)
            check(not entry["keep_encoded"] or leaf.kind == "bytes", 7, name)
        numbered = list(enumerate(leaves))
        self.frames = [number for number, (_, leaf) in numbered if leaf.is_frame]
        self.columns = [number for number, (_, leaf) in numbered if leaf.is_column]
        self.leaves = [leaf for _, leaf in leaves]
        self.stored = [fields[n]["store_as"] or self.leaves[n].dtype or "uint8" for n in self.frames]
        content = canonical({"schema": root.plain(), "stored": self.stored})
        self.hash = int.from_bytes(blake2b_64(content), "little")
        self.nodes = [node for _, node in nodes]
        sizes = [self.leaves[n].width for n in self.columns]
        self.column_starts = [0, *itertools.accumulate(sizes)]
        places = [place for place, (_, node) in enumerate(nodes) if node.is_column]
        # Of column arrays: leaf, place among the nodes, where it begins in the columns.
        self.arrays = [
            (number, place, start)
            for number, place, start in zip(self.columns, places, self.column_starts, strict=False)
            if self.leaves[number].shape is not None
        ]
        in_front = 8 * (len(self.frames) + 1) + 4 * len(self.frames)
        self.row_size = in_front + sum(sizes) + (len(self.nodes) + 3) // 4 + 4  # of version 1


# A shard


def shard_path(folder: Path, number: int) -> Path:
    """The file of a shard."""
    return folder / f"shard-{number:08d}.cws"


class Shard:
    """The bytes of a shard, whose header and trailer are good."""

    def __init__(self, path: Path, schema: Schema) -> None:
        self.data = data = read_file(path, 10)
        self.schema, self.frame_count = schema, len(schema.frames)
        check(len(data) >= 32 and data[:4] == b"CWSH", 11)
        check(struct.unpack_from("<I", data, 28) == (frames.crc32c(data[:28]),), 11)
        major, flags, schema_hash = struct.unpack_from("<4xBxHQ", data)
        check(major == 1 and flags & 0xFE == 0, 12)
        check(schema_hash == schema.hash, 13)
        trailer = data[max(len(data) - 48, 32) :]
        check(len(trailer) == 48 and trailer[40:44] == b"CWSE", 14)
        fields = struct.unpack("<QQIIIIQ4xI", trailer)
        self.rows_at, self.count, row_size, footer, self.footer_checksum, rows_checksum, size, self.checksum = fields
        check(self.checksum == frames.crc32c(trailer[:44]), 14)
        check(self.rows_at >= 32 and self.count >= 1, 15)
        self.footer_at = self.rows_at + self.count * row_size
        check(self.footer_at + footer + 48 == size == len(data), 15)
        self.row_size, self.rows_checksum = row_size, rows_checksum
        self.places = self.rows_at, row_size, footer
        self.is_packed, self.frames_end = bool(flags & 1), self.rows_at
        self.widths, self.covered = [0], [False] * self.frame_count
        self.plans: list[str | None] = [None] * self.frame_count
        if self.is_packed:
            self.read_table()
        check(row_size == (self.packed_size(schema) if self.is_packed else schema.row_size), 15)

    def read_table(self) -> None:
        """The table: how wide offsets and sizes are, which leaves are covered, and their plans."""
        size = 8 + 10 * self.frame_count + 4
        self.frames_end = self.rows_at - size
        check(self.frames_end >= 32, 27)
        table = self.data[self.frames_end : self.rows_at]
        check(table[:4] == b"CWST" and struct.unpack("<I", table[-4:])[0] == frames.crc32c(table[:-4]), 27)
        leaves = list(struct.iter_unpack("<BBQ", table[8:-4]))
        self.widths = [table[4], *(width for width, _, _ in leaves)]
        check(all(1 <= width <= 8 for width in self.widths[1:]) and bool(leaves) <= table[4] <= 8, 27)
        check(all(flags <= 1 for _, flags, _ in leaves), 27)
        self.covered = [bool(flags) for _, flags, _ in leaves]
        self.plans = [f"{plan:016x}" if plan else None for _, _, plan in leaves]

    def packed_size(self, schema: Schema) -> int:
        """The size of a row."""
        return sum(self.widths) + 4 * self.covered.count(False) + schema.row_size - 12 * self.frame_count - 8

    def row(self, number: int) -> "tuple[list[int], list[int], bytes]":
        """The offsets and tags of a row, and what follows them but for the checksum."""
        start, count = self.rows_at + number * self.row_size, self.frame_count
        row = self.data[start : start + self.row_size]
        if not self.is_packed:
            self.check_row(number, b"", row)
            offsets = list(struct.unpack_from(f"<{count + 1}Q", row))
            tags = list(struct.unpack_from(f"<{count}I", row, 8 * (count + 1)))
            return offsets, tags, row[8 * (count + 1) + 4 * count : -4]
        fields = frames.Fields(row, short=17)
        offset = int.from_bytes(fields.take(self.widths[0]), "little") if self.widths[0] else 32
        sizes = [int.from_bytes(fields.take(width), "little") for width in self.widths[1:]]
        offsets = list(itertools.accumulate([offset, *sizes]))
        tags = [0 if covered else struct.unpack("<I", fields.take(4))[0] for covered in self.covered]
        covered = [place for place in range(count) if self.covered[place]]
        for place in covered:
            frame = self.data[offsets[place] : offsets[place + 1]]
            tags[place] = frames.crc32c(frame) if frame else 0
        self.check_row(number, b"".join(struct.pack("<I", tags[place]) for place in covered), row)
        check(all(sizes[place] <= 1024 for place in covered), 18)
        return offsets, tags, row[fields.at : -4]

    def check_row(self, number: int, covered: bytes, row: bytes) -> None:
        """Whether a row is the one that was written here."""
        check(struct.unpack("<I", row[-4:])[0] == frames.crc32c(struct.pack("<Q", number) + covered + row[:-4]), 17)

    def verify_rows(self) -> None:
        """What a reader of single samples need not look at: all rows at once, and that frames are back to back."""
        starts = range(self.rows_at, self.footer_at, self.row_size)
        checksums = b"".join(self.data[start + self.row_size - 4 : start + self.row_size] for start in starts)
        check(frames.crc32c(checksums) == self.rows_checksum, 17)
        end = 32
        for number in range(self.count):
            row = Row(self, number)
            check(row.offsets[0] == end, 18)
            end = row.end
        check(end == self.frames_end, 18)

    def footer(self) -> Any:
        """What the footer says of the fields."""
        footer = self.data[self.footer_at : -48]
        check(frames.crc32c(footer) == self.footer_checksum, 26)
        found = read_json(footer, 26)
        check(isinstance(found, dict) and isinstance(found.get("fields"), list) and is_texts(found.get("plans")), 26)
        return found


# A row


def is_short(frame: bytes) -> bool:
    """Whether it is a short frame, where there can be one."""
    return frame[0] < 64


def tag_of(frame: bytes) -> int:
    """The header checksum of a full frame, the checksum of a short one."""
    if is_short(frame):
        return frames.crc32c(frame)  # type: ignore[no-any-return]
    size = int.from_bytes(frame[6:10], "little")
    check(14 <= size <= len(frame), 20)
    return int.from_bytes(frame[size - 4 : size], "little")


class Row:
    """One row, taken apart."""

    def __init__(self, shard: Shard, number: int) -> None:
        self.shard, self.schema = shard, shard.schema
        self.offsets, self.tags, rest = shard.row(number)
        self.columns, states = rest[: self.schema.column_starts[-1]], rest[self.schema.column_starts[-1] :]
        bits = int.from_bytes(states, "little")
        self.states = [bits >> 2 * place & 3 for place in range(len(self.schema.nodes))]
        check(all(a <= b for a, b in itertools.pairwise((32, *self.offsets, shard.frames_end))), 18)
        self.end = self.offsets[-1]
        self.apart: dict[int, bytes] = {}  # frames of column arrays, by leaf
        for leaf, place, start in self.schema.arrays:
            if self.states[place] == APART:
                begin, size = (int.from_bytes(self.columns[at : at + 6], "little") for at in (start, start + 6))
                check(begin == self.end and size > 0 and begin + size <= shard.frames_end, 18)
                self.apart[leaf] = shard.data[begin : begin + size]
                self.end += size


class Sample(Row):
    """One sample: its row, and what becomes of it."""

    def __init__(self, store: Store, shard: Shard, number: int) -> None:
        super().__init__(shard, number)
        self.store = store

    def value(self) -> Any:
        """The sample."""
        states = iter(self.states)
        leaf = itertools.count()
        self.check_states(self.schema.root, PRESENT, states, leaf)
        return self.rebuild(self.schema.root, PRESENT, iter(self.states), itertools.count())

    def check_states(self, node: Node, state: int, states: Iterator[int], leaf: Iterator[int]) -> None:
        """Whether the states of a node and of all below it can be, and frames are where they should be."""
        check((state <= NONE or node.shape is not None) and (state != PRESENT or node.kind != "none"), 19)
        if node.is_frame:
            place = self.schema.frames.index(next(leaf))
            check((self.offsets[place] < self.offsets[place + 1]) == (state == PRESENT), 19)
            check(state == PRESENT or self.tags[place] == 0, 19)
        elif node.is_column:
            next(leaf)
        for item in node.items:
            item_state = next(states)
            check(state == PRESENT or item_state == ABSENT, 19)
            check(item_state != ABSENT or state != PRESENT or node.kind in ("dict", "ordereddict"), 19)
            self.check_states(item, item_state, states, leaf)

    def rebuild(self, node: Node, state: int, states: Iterator[int], leaf: Iterator[int]) -> Any:
        """The value of a node; of one that is not present only the states and leaves below it are passed over."""
        if node.is_frame or node.is_column:
            number = next(leaf)
            return self.leaf(number) if state in (PRESENT, APART) else None
        items = []
        for item in node.items:
            item_state = next(states)
            items.append((item_state, self.rebuild(item, item_state, states, leaf)))
        if state != PRESENT:
            return None
        if node.kind in ("dict", "ordereddict"):
            pairs = [(key, value) for key, (item_state, value) in zip(node.keys, items, strict=True) if item_state != 1]
            return dict(pairs) if node.kind == "dict" else OrderedDict(pairs)
        values = [value for _, value in items]
        if node.kind == "namedtuple":
            return named(node.name, node.keys, values)
        return values if node.kind == "list" else tuple(values)

    def leaf(self, number: int) -> Any:
        """The value of a leaf that is present."""
        node = self.schema.leaves[number]
        if number in self.apart:
            frame = self.apart[number]
            check(not names_plan(frame), 21, "an apart frame names a plan")
            return frame_value(self.full_array(frame, {}, node.dtype), node.dtype, node)
        if node.is_column:
            place = self.schema.columns.index(number)
            start, end = self.schema.column_starts[place : place + 2]
            return scalar(self.columns[start:end], node) if node.shape is None else array(self.columns[start:end], node)
        place = self.schema.frames.index(number)
        frame = self.shard.data[self.offsets[place] : self.offsets[place + 1]]
        stored, plan = self.schema.stored[place], self.shard.plans[place]
        check(tag_of(frame) == self.tags[place], 20)
        check(is_short(frame) or not self.shard.covered[place], 20, "a full frame of a covered leaf")
        if is_short(frame) and self.shard.is_packed:
            return frame_value(self.short_array(frame, plan, stored), stored, node)
        assets = self.store.assets(plan, self.store.fields[number]["plan"]) if names_plan(frame) else {}
        return frame_value(self.full_array(frame, assets, stored), stored, node)

    def full_array(self, frame: bytes, assets: dict[int, bytes], dtype: str) -> Array:
        """The array of this dtype in a full frame."""
        with frame_rejected():
            header, _ = frames.read_header(frame, assets)
            self.check_header(header, dtype)
            return frames.read(frame, assets)[0]  # type: ignore[no-any-return]

    def short_array(self, frame: bytes, name: str | None, dtype: str) -> Array:
        """The array of this dtype in a short frame that is read with the plan of this name."""
        check(name is not None, 21, "a short frame without a plan")
        plan = self.store.plan(name or "")
        with frame_rejected():
            short_plan = plan.short_plan if plan else None
            header, _ = frames.read_short_header(frame, short_plan)
            self.check_header(header, dtype)
            return frames.read_short(frame, short_plan)[0]  # type: ignore[no-any-return]

    def check_header(self, header: Any, dtype: str) -> None:
        """Whether a frame holds what its leaf has, and not too much of it."""
        found = frames.DTYPES[header.dtype][0]
        check(math.prod(header.shape) * np.dtype(DTYPES[found]).itemsize <= self.store.limit, 25)
        check(found == dtype, 22)


def names_plan(frame: bytes) -> bool:
    """Whether a full frame names a plan."""
    return len(frame) > 10 and bool(frame[10] & 1)


@contextmanager
def frame_rejected() -> Iterator[None]:
    """A frame that is rejected is number 21."""
    try:
        yield
    except frames.Reject as reject:
        raise BadStore(21, f"frame.md's reason {reject.reason}") from None


# Values


def scalar(data: bytes, node: Node) -> Any:
    """A number of a column."""
    array = np.frombuffer(data, np.dtype(DTYPES[node.dtype]).newbyteorder("<")).reshape(())
    if node.type in PYTHON_NUMBERS:
        return array.item()
    if node.type == "numpy":
        return array[()]
    return Tensor(array.copy(), node.dtype) if node.type == "tensor" else array.copy()


def array(data: bytes, node: Node) -> Any:
    """An array of a column."""
    assert node.shape is not None
    found = np.frombuffer(data, np.dtype(DTYPES[node.dtype]).newbyteorder("<"), math.prod(node.shape))
    made = found.reshape(node.shape).copy()
    return Tensor(made, node.dtype) if node.kind == "tensor" else made


def frame_value(array: Array, stored: str, node: Node) -> Any:
    """What the array of a frame stands for."""
    if node.kind in ("str", "bytes", "any"):
        check(array.ndim == 1, 22)
        data = array.tobytes()
        return text(data) if node.kind == "str" else data if node.kind == "bytes" else AnyValue.read(data)
    if stored != node.dtype:
        if stored == "bfloat16":  # the upper half of a float32
            array = (array.astype("<u4") << 16).view("<f4")
        array = array.astype(DTYPES[node.dtype])
    return Tensor(array, node.dtype) if node.kind == "tensor" else array


def text(data: bytes, number: int = 23) -> str:
    """UTF-8, lone surrogates too."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise BadStore(number) from None


def named(name: str, keys: list[str], values: list[Any]) -> Any:
    """A named tuple of a class that is made for it."""
    return namedtuple(name, keys, rename=True)(*values)


# Any value


class AnyValue:
    """Reads one value; `Fields` of the frames' reader checks that there is enough."""

    def __init__(self, data: bytes) -> None:
        self.fields = frames.Fields(data, short=24)

    @classmethod
    def read(cls, data: bytes) -> Any:
        """The one value in these bytes."""
        reading = cls(data)
        try:
            value = reading.value(0)
            reading.fields.end(24)
        except frames.Reject:
            raise BadStore(24) from None
        return value

    def sized(self) -> bytes:
        """Bytes behind their number."""
        return self.fields.take(self.fields.varint())  # type: ignore[no-any-return]

    def value(self, depth: int) -> Any:
        """The next value, which lies in so many others."""
        check(depth <= DEEPEST, 24, "nested too deep")
        tag = self.fields.u8()
        check(tag <= 17, 24, f"tag {tag}")
        if tag <= 2:
            return (None, False, True)[tag]
        if tag == 3:
            return int.from_bytes(self.sized(), "little", signed=True)
        if tag in (4, 5):
            parts = struct.unpack(f"<{tag - 3}d", self.fields.take(8 * (tag - 3)))
            return parts[0] if tag == 4 else complex(*parts)
        if tag in (6, 7):
            data = self.sized()
            return text(data, 24) if tag == 6 else data
        if tag >= 16:
            width = self.fields.u8() if tag == 16 else 8
            check(width in (1, 2, 4, 8), 24)
            data = self.fields.take(self.fields.varint() * width)
            return np.frombuffer(data, f"<i{width}" if tag == 16 else "<f8").tolist()
        if tag >= 13:
            return self.array(tag)
        name = text(self.sized(), 24) if tag == 12 else ""
        count = self.fields.varint()
        check(count <= len(self.fields.data), 24)  # each takes a byte at least
        if tag in (10, 11):
            return self.dict(tag, count, depth)
        keys = [text(self.sized(), 24) for _ in range(count)] if tag == 12 else []
        if tag == 12:
            check_named(name, keys, 24)
        values = [self.value(depth + 1) for _ in range(count)]
        return named(name, keys, values) if tag == 12 else values if tag == 8 else tuple(values)

    def dict(self, tag: int, count: int, depth: int) -> Any:
        """The items of a dict."""
        made: Any = {} if tag == 10 else OrderedDict()
        for _ in range(count):
            key = self.value(depth + 1)
            check(is_key(key) and key not in made, 24, "a key")
            made[key] = self.value(depth + 1)
        return made

    def array(self, tag: int) -> Any:
        """A tensor, an array or a NumPy scalar."""
        number = self.fields.u8()
        check(number < len(DTYPES), 24)
        dtype = list(DTYPES)[number]
        check(tag == 13 or dtype in NUMPY_HAS, 24)
        rank = self.fields.u8() if tag != 15 else 0
        check(rank <= 64, 24)
        shape = [self.fields.varint() for _ in range(rank)]
        kind = np.dtype(DTYPES[dtype]).newbyteorder("<")
        room = math.prod(max(size, 1) for size in shape) * kind.itemsize
        check(all(size < 2**48 for size in shape) and room < 2**56, 24)
        array = np.frombuffer(self.fields.take(math.prod(shape) * kind.itemsize), kind).reshape(shape)
        return Tensor(array.copy(), dtype) if tag == 13 else array.copy() if tag == 14 else array[()]


def is_key(value: Any) -> bool:
    """Whether a dict may have it as a key."""
    if type(value) is tuple:
        return all(map(is_key, value))
    return value is None or type(value) in (bool, int, float, str, bytes)


# shards.bin


@dataclass
class Record:
    """What is known of a shard; the names are the page's."""

    first: int
    count: int
    size: int
    schema_hash: int
    trailer_checksum: int
    places: tuple[int, ...] = (0, 0, 0)  # rows offset, row size and footer size


def read_records(folder: Path, schema: Schema | None) -> list[Record]:
    """A record for every shard of the store."""
    path = folder / "shards.bin"
    data = path.read_bytes() if path.is_file() else b""
    whole = len(data) >= 32 and data[:4] == b"CWIX"
    whole = whole and struct.unpack_from("<I", data, 28) == (frames.crc32c(data[:28]),)
    check(not whole or data[4] == 1, 8)
    slots = [data[at : at + 64] for at in range(32, len(data), 64)] if whole else []
    records: list[Record] = []
    mended, made = not whole, False  # the whole file or any record; the record before
    while len(records) < len(slots) or shard_path(folder, len(records)).exists():
        number, first = len(records), records[-1].first + records[-1].count if records else 0
        if number < len(slots) and is_no_record(folder, slots, number, first):
            mended = True
            break
        check(schema is not None, 7, "shards without a schema")
        assert schema is not None
        record = read_record(slots[number], number) if number < len(slots) else None
        if record is not None and record.first != first:
            check(not made, 9, f"shard {number - 1} does not end where the next one begins")
            record = None
        made = record is None
        if record is None:
            mended = True
            try:
                shard = Shard(shard_path(folder, number), schema)
            except BadStore as bad:
                raise BadStore(9, f"shard {number}: {bad}") from bad
            record = Record(first, shard.count, len(shard.data), schema.hash, shard.checksum)
        records.append(record)
    if mended:
        numbers = [path.stem.removeprefix("shard-") for path in folder.glob("shard-*.cws")]
        highest = max((int(number) for number in numbers if number.isdecimal()), default=-1)
        check(highest < len(records), 9, f"shard {len(records)} is missing")
    return records


def is_no_record(folder: Path, slots: list[bytes], number: int, first: int) -> bool:
    """Whether what is there from this slot on never was a record."""
    sound = any(read_record(slot, place) for place, slot in enumerate(slots[number:], number))
    tells_of_a_shard = slots[number].ljust(64, b"\0")[:8] == struct.pack("<Q", first) and any(slots[number][8:16])
    return not (sound or tells_of_a_shard or shard_path(folder, number).exists())


def read_record(slot: bytes, number: int) -> Record | None:
    """A record, if it is good as far as it tells itself."""
    if len(slot) < 64 or slot[60:] != struct.pack("<I", frames.crc32c(struct.pack("<Q", number) + slot[:60])):
        return None
    first, count, size, schema_hash, checksum, *places = struct.unpack_from("<QQQQIQII", slot)
    record = Record(first, count, size, schema_hash, checksum, tuple(places))
    return record if 1 <= record.count < 2**62 and record.first < 2**62 else None


# Plans


def is_plan_name(name: str) -> bool:
    """Whether it is a hash of 8 bytes."""
    return len(name) == 16 and set(name) <= set("0123456789abcdef")


@dataclass
class Plan:
    """A plan: the assets of its chains that own something, and what short frames are read with."""

    assets: list[bytes]
    short_plan: Any


def read_plan(folder: Path, name: str) -> Plan | None:
    """The plan of this name; None if its file is missing or damaged."""
    path = folder / f"{name}.json"
    data = path.read_bytes() if path.is_file() else b""
    if blake2b_64(data).hex() != name:
        return None
    try:
        plan = json.loads(data.decode("utf-8"))
        if plan["cordwood_plan"] == 1:
            dtype, shape, members = "uint8", None, [{"assets": plan["assets"], "short": None}]  # the dtype is not used
        else:
            dtype, shape, members = plan["dtype"], plan["shape"], plan["chains"]
            form_check(plan["cordwood_plan"] == 2 and dtype in DTYPES and is_plan_shape(shape))
            form_check(isinstance(members, list) and 1 <= len(members) <= 64)
        chains = [read_chain(member) for member in members]
        return Plan([assets for assets, _ in chains if assets], frames.read_short_plan(dtype, shape, chains))
    except (ValueError, RecursionError, KeyError, TypeError, frames.Reject):
        return None


def read_chain(member: dict[str, Any]) -> tuple[bytes, bytes | None]:
    """The assets of a chain, and its template."""
    template = member["short"]
    form_check(isinstance(member["assets"], str) and isinstance(template, str | None))
    form_check(template is None or (len(template) % 2 == 0 and set(template) <= set("0123456789abcdefABCDEF")))
    return base64.b64decode(member["assets"], validate=True), None if template is None else bytes.fromhex(template)


def is_plan_shape(shape: Any) -> bool:
    """Whether it can be the shape of a plan."""
    if shape is None:
        return True
    sizes = isinstance(shape, list) and all(size is None or (type(size) is int and size >= 0) for size in shape)
    return sizes and len(shape) <= 64


def form_check(fine: bool) -> None:
    """A file of another form is damaged."""
    if not fine:
        raise ValueError("no plan")
