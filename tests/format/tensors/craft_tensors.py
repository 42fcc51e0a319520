"""Tensor files made by hand from the page, so that each thing in them can be wrong.

::

    good = Crafted()                          # one float32 tensor of four items
    good.manifest["version"] = [2, 0]
    data = good.file()
"""

import io
import json
import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.format.support import craft

MARK = "cordwood-tensors"
ITEMS = np.array([1, 2, 3, 4], "<f4").tobytes()


@dataclass(frozen=True)
class Name:
    """A global."""

    module: str
    name: str


@dataclass(frozen=True)
class Call:
    """A function's result."""

    function: Any
    arguments: Any


@dataclass(frozen=True)
class Stored:
    """What a persistent id stands for."""

    identity: Any


FLOATS = Stored(("storage", Name("torch", "FloatStorage"), "0", "cpu", 4))
HOOKS = Call(Name("collections", "OrderedDict"), ())


def view(storage: Any = FLOATS, offset: Any = 0, size: Any = (4,), stride: Any = (1,), *rest: Any) -> Call:
    """A tensor, as the page's _rebuild_tensor_v2."""
    return Call(Name("torch._utils", "_rebuild_tensor_v2"), (storage, offset, size, stride, *(rest or (False, HOOKS))))


def opcodes(value: Any) -> bytes:
    """A value in opcodes of protocol 2, without a memo."""
    match value:
        case None:
            return b"N"
        case bool():
            return b"\x88" if value else b"\x89"
        case int():
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            return b"\x8a" + bytes([len(raw)]) + raw
        case float():
            return b"G" + struct.pack(">d", value)
        case str():
            return b"X" + struct.pack("<I", len(value.encode())) + value.encode()
        case tuple():
            return b"(" + b"".join(map(opcodes, value)) + b"t"
        case list():
            return b"](" + b"".join(map(opcodes, value)) + b"e"
        case dict():
            return b"}(" + b"".join(opcodes(part) for pair in value.items() for part in pair) + b"u"
        case Name():
            return f"c{value.module}\n{value.name}\n".encode()
        case Call():
            return opcodes(value.function) + opcodes(value.arguments) + b"R"
        case Stored():
            return opcodes(value.identity) + b"Q"
    raise TypeError(value)


def pickled(value: Any) -> bytes:
    """A whole pickle."""
    return b"\x80\x02" + opcodes(value) + b"."


def raw_record(name: str, offset: int, data: bytes) -> dict[str, Any]:
    """A row of the manifest."""
    return {"name": name, "offset": offset, "nbytes": len(data), "coding": "raw", "crc32c": craft.crc32c(data)}


def frame_record(name: str, offset: int, nbytes: int) -> dict[str, Any]:
    """A row of the manifest."""
    return {"name": name, "offset": offset, "nbytes": nbytes, "coding": "frame"}


def _manifest() -> dict[str, Any]:
    storages = {"0": {"nbytes": 16, "records": [raw_record("data/0.0", 0, ITEMS)]}}
    return {"format": MARK, "version": [1, 0], "requires": [], "goal": "raw", "storages": storages}


@dataclass
class Crafted:
    """A file of one tensor, and what to make of it."""

    manifest: Any = field(default_factory=_manifest)
    pickle: bytes = field(default_factory=lambda: pickled({"w": view()}))
    records: dict[str, bytes] = field(default_factory=lambda: {"data/0.0": ITEMS})
    entries: Callable[[list[tuple[str, bytes]]], Any] = lambda entries: None  # changes them before they are written
    method: dict[str, int] = field(default_factory=dict)

    @property
    def storage(self) -> dict[str, Any]:
        """The row of storage 0."""
        row: dict[str, Any] = self.manifest["storages"]["0"]
        return row

    @property
    def record(self) -> dict[str, Any]:
        """The row of its first record."""
        row: dict[str, Any] = self.storage["records"][0]
        return row

    def with_frame(self, frame: bytes, nbytes: int = 16) -> "Crafted":
        """Its first record in a frame."""
        self.records["data/0.0"] = frame
        self.storage["records"][0] = frame_record("data/0.0", 0, nbytes)
        return self

    def with_records(self, *records: tuple[int, bytes]) -> "Crafted":
        """Storage 0 of these bytes at these offsets."""
        self.records = {f"data/0.{index}": data for index, (_, data) in enumerate(records)}
        self.storage["records"] = [
            raw_record(f"data/0.{index}", offset, data) for index, (offset, data) in enumerate(records)
        ]
        return self

    def with_value(self, value: Any) -> "Crafted":
        """Another object in the pickle."""
        self.pickle = pickled(value)
        return self

    def file(self) -> bytes:
        """The archive."""
        manifest = self.manifest if isinstance(self.manifest, bytes) else json.dumps(self.manifest).encode()
        entries = [
            (MARK, b"for people\n"),
            *self.records.items(),
            ("data.pkl", self.pickle),
            ("manifest.json", manifest),
        ]
        self.entries(entries)
        return archive(entries, self.method)


def archive(entries: list[tuple[str, bytes]], methods: dict[str, int] | None = None) -> bytes:
    """A zip archive of these entries, stored unless another method is named."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in entries:
            info = zipfile.ZipInfo(name)
            info.compress_type = (methods or {}).get(name, zipfile.ZIP_STORED)
            made.writestr(info, data)
    return file.getvalue()


def patched(data: bytes, old: bytes, new: bytes, *, last: bool = False) -> bytes:
    """The same bytes with one place changed, where those that were there are known."""
    at = data.rfind(old) if last else data.find(old)
    if at < 0 or len(old) != len(new):
        raise ValueError(f"{old!r} is not there, or not as long as {new!r}")
    return data[:at] + new + data[at + len(old) :]
