"""A slow and plain reader of Cordwood tensor files, with nothing in it that tensors.md does not say.

>>> read("model.cord")["weight"].array

It needs NumPy, and `reader.py` beside it for frames; not torch, and not Cordwood. Read it beside the page: the
functions stand in the page's order, and each `BadFile(n)` is number n of what a reader must reject. Nothing of a file
is ever run: what the pickle asks for beyond tensors and plain containers becomes an `Object`, a description.
"""

import io
import json
import math
import re
import struct
import zipfile
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import reader as frames  # type: ignore[import-not-found]

Array = npt.NDArray[Any]

# dtype -> NumPy's type of the array: unsigned integers where NumPy has none
DTYPES: dict[str, str] = {name: numpy_type for name, _, numpy_type in frames.DTYPES}
DTYPES |= dict.fromkeys(("quint8", "quint4x2", "quint2x4", "bits8", "bits1x8", "bits2x4", "bits4x2"), "u1")
DTYPES |= {"qint8": "i1", "qint32": "i4", "bits16": "u2"}
DTYPES |= {f"{sign}int{bits}": "u1" for sign in ("", "u") for bits in range(1, 8)}
STORAGES = {
    "torch.storage.UntypedStorage": "uint8", "torch.ByteStorage": "uint8", "torch.CharStorage": "int8",
    "torch.BoolStorage": "bool", "torch.ShortStorage": "int16", "torch.IntStorage": "int32",
    "torch.LongStorage": "int64", "torch.HalfStorage": "float16", "torch.BFloat16Storage": "bfloat16",
    "torch.FloatStorage": "float32", "torch.DoubleStorage": "float64", "torch.ComplexFloatStorage": "complex64",
    "torch.ComplexDoubleStorage": "complex128", "torch.QInt8Storage": "qint8", "torch.QUInt8Storage": "quint8",
    "torch.QInt32Storage": "qint32", "torch.QUInt4x2Storage": "quint4x2", "torch.QUInt2x4Storage": "quint2x4",
}  # fmt: skip
TRAP = re.compile(r"\A\Z|\A[/\\]|\A[A-Za-z]:[/\\]|\0|(?:\A|[/\\])\.\.(?:[/\\]|\Z)")


class BadFile(Exception):  # noqa: N818  (what it is)
    """The file must be rejected: `number` is that in the page's list."""

    def __init__(self, number: int) -> None:
        super().__init__(f"number {number} of what a reader must reject")
        self.number = number


def check(fine: bool, number: int) -> None:
    """Reject for this reason unless all is fine."""
    if not fine:
        raise BadFile(number)


@dataclass(eq=False)
class Tensor:
    """A tensor; those of one storage share memory through their arrays."""

    array: Array
    dtype: str
    requires_grad: bool = False
    metadata: dict[str, bool] = field(default_factory=dict)  # the bits "conj" and "neg"
    quantizer: tuple[Any, ...] = ()
    kind: str = "torch.Tensor"
    state: Any = None


@dataclass(eq=False)
class Storage:
    """The bytes of a storage, and how the pickle names it."""

    data: Array
    dtype: str
    location: str


@dataclass(frozen=True)
class Global:
    """A name that the pickle would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Object:
    """What a call, or a new object, would give; nothing is called."""

    function: Any
    arguments: tuple[Any, ...]
    states: list[Any] = field(default_factory=list)
    items: list[Any] = field(default_factory=list)  # appended, or set as pairs of key and value


def read(file: str | Path | bytes, limit: int = 2**30) -> Any:
    """The object in a tensor file, given by its path or as bytes; `limit` is how many bytes its storages may take."""
    archive = Archive(file if isinstance(file, bytes) else Path(file).read_bytes())
    manifest = Manifest(archive, limit)
    return Pickle(archive.content("data.pkl", checked=True), manifest).run()


# The archive


class Archive:
    """The entries, as the central directory tells them."""

    def __init__(self, data: bytes) -> None:
        name = b"cordwood-tensors"
        check(data[:4] == b"PK\3\4" and data[26:28] == bytes([len(name), 0]) and data[30:46] == name, 1)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                entries, end = archive.infolist(), archive.start_dir
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OverflowError, struct.error):
            raise BadFile(2) from None
        self.data = data
        self.entries = {entry.orig_filename: entry for entry in entries}
        self.starts: dict[str, int] = {}
        check(len(self.entries) == len(entries) and not any(TRAP.search(name) for name in self.entries), 2)
        check(name.decode() in self.entries and self.entries[name.decode()].header_offset == 0, 2)
        for entry in sorted(entries, key=lambda entry: -entry.header_offset):
            self.starts[entry.orig_filename] = self.locate(entry, end)
            end = entry.header_offset

    def locate(self, entry: zipfile.ZipInfo, end: int) -> int:
        """Where the data begin: behind the local header. Up to `end` there is room."""
        at, encoding = entry.header_offset, "utf-8" if entry.flag_bits & 1 << 11 else "cp437"
        check(self.data[at : at + 4] == b"PK\3\4" and at + 30 <= len(self.data), 2)
        method, name_size, extra_size = struct.unpack_from("<8xH16xHH", self.data, at)
        name = self.data[at + 30 : at + 30 + name_size]
        check(method == entry.compress_type and name == entry.orig_filename.encode(encoding), 2)
        check(at + 30 + name_size + extra_size + entry.compress_size <= end, 2)
        return int(at + 30 + name_size + extra_size)

    def content(self, name: str, *, checked: bool = False) -> bytes:
        """The bytes of an entry; those that nothing else covers are checked by the archive's checksum."""
        check(name in self.entries, 3)
        entry = self.entries[name]
        encrypted_or_patch = 1 << 0 | 1 << 5 | 1 << 6 | 1 << 13
        check(entry.compress_type in ((0, 8) if checked else (0,)) and not entry.flag_bits & encrypted_or_patch, 4)
        content = self.data[self.starts[name] : self.starts[name] + entry.compress_size]
        if entry.compress_type == 8:
            content = inflated(content, entry.file_size)
        check(len(content) == entry.file_size, 4)
        check(not checked or zlib.crc32(content) == entry.CRC, 5)
        return content


def inflated(data: bytes, size: int) -> bytes:
    """What was deflated, and not a byte more than it should be."""
    stream = zlib.decompressobj(-15)
    try:
        content = stream.decompress(data, size + 1)
    except zlib.error:
        raise BadFile(4) from None
    check(stream.eof and not stream.unused_data, 4)
    return content


# The manifest


def is_count(value: Any) -> bool:
    """Whether it is an integer that may be a size or an offset."""
    return type(value) is int and 0 <= value < 2**56


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, none of whose names is there twice."""
    check(len(dict(pairs)) == len(pairs), 6)
    return dict(pairs)


class Manifest:
    """Where the bytes of each storage are; they are read when they are asked for."""

    def __init__(self, archive: Archive, limit: int) -> None:
        self.archive = archive
        try:
            text = archive.content("manifest.json", checked=True).decode("utf-8")
            manifest = json.loads(text, object_pairs_hook=unique)
        except (ValueError, RecursionError):
            raise BadFile(6) from None
        check(isinstance(manifest, dict) and manifest.get("format") == "cordwood-tensors", 6)
        version, requires = manifest.get("version"), manifest.get("requires", [])
        check(isinstance(version, list) and len(version) == 2 and all(is_count(number) for number in version), 6)
        check(version[0] == 1, 7)  # a higher minor is fine
        check(isinstance(requires, list) and all(isinstance(feature, str) for feature in requires), 6)
        check(requires == [], 8)  # version 1.0 has no features
        self.storages = manifest.get("storages")
        check(isinstance(self.storages, dict), 6)
        self.names: set[str] = set()
        for storage in self.storages.values():
            self.check_storage(storage)
        check(sum(storage["nbytes"] for storage in self.storages.values()) <= limit, 21)
        self.memory: dict[str, Array] = {}

    def check_storage(self, storage: Any) -> None:
        """All of it that can be checked without looking at the data."""
        check(isinstance(storage, dict) and isinstance(storage.get("records"), list), 6)
        check(is_count(storage.get("nbytes")), 6)
        end = 0
        for record in storage["records"]:
            check(isinstance(record, dict) and isinstance(record.get("name"), str), 6)
            check(is_count(record.get("offset")) and is_count(record.get("nbytes")), 6)
            check(record.get("coding") in ("raw", "frame"), 9)
            check(record["nbytes"] >= 1 and end <= record["offset"] <= storage["nbytes"] - record["nbytes"], 10)
            check(record["offset"] - end < 16, 11)
            check(record["name"] not in self.names, 12)
            self.names.add(record["name"])
            size = len(self.archive.content(record["name"]))
            if record["coding"] == "raw":
                check(is_count(record.get("crc32c")) and record["crc32c"] < 2**32, 6)
                check(size == record["nbytes"], 13)
            end = record["offset"] + record["nbytes"]
        check(storage["nbytes"] - end < (16 if storage["records"] else 1), 11)

    def load(self, key: str) -> Array:
        """The bytes of a storage, the same memory every time."""
        if key not in self.memory:
            self.memory[key] = np.zeros(self.storages[key]["nbytes"], np.uint8)
            for record in self.storages[key]["records"]:
                content = self.archive.content(record["name"])
                if record["coding"] == "raw":
                    check(frames.crc32c(content) == record["crc32c"], 13)
                else:
                    content = self.decode(content, record["offset"], record["nbytes"])
                self.memory[key][record["offset"] :][: record["nbytes"]] = np.frombuffer(content, np.uint8)
        return self.memory[key]

    def decode(self, frame: bytes, offset: int, nbytes: int) -> bytes:
        """The bytes of the array in a frame; how many they are is checked before anything is decoded."""
        try:
            header, _ = frames.read_header(frame, {})
            check(header.elements * header.itemsize == nbytes, 15)
            check(offset % np.dtype(frames.DTYPES[header.dtype][2]).itemsize == 0, 15)
            array, _ = frames.read(frame)
        except frames.Reject:
            raise BadFile(14) from None
        return bytes(array.tobytes())


# The pickle

PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg"}


def check_key(key: Any) -> None:
    """Deep or wide keys take for ever to hash."""
    level, depth = [key], 0
    while level := [part for value in level if isinstance(value, tuple | frozenset) for part in value]:
        depth += 1
        check(depth < 20 and len(level) <= 100_000, 16)


class Pickle:
    """A stack of values, and a memo; marks cut the stack."""

    def __init__(self, data: bytes, manifest: Manifest) -> None:
        self.data, self.at, self.manifest = data, 0, manifest
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []  # the stacks under each open mark
        self.memo: dict[int, Any] = {}

    def run(self) -> Any:
        """The object."""
        check(self.take(2) == b"\x80\x02", 16)
        try:
            while (opcode := self.take(1)) != b".":
                self.step(opcode)
        except (UnicodeError, TypeError):  # text that is none, a key that has no hash
            raise BadFile(16) from None
        check(self.at == len(self.data) and len(self.stack) == 1 and not self.below, 16)
        return self.stack[0]

    def take(self, count: int) -> bytes:
        check(0 <= count <= len(self.data) - self.at, 16)
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, layout: str) -> Any:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))[0]

    def line(self) -> str:
        end = self.data.find(b"\n", self.at)
        check(end >= 0, 16)
        return self.take(end + 1 - self.at)[:-1].decode("ascii")

    def pop(self, kind: type = object) -> Any:
        check(bool(self.stack) and isinstance(self.stack[-1], kind), 16)
        return self.stack.pop()

    def pop_mark(self) -> list[Any]:
        """What was pushed since the last mark."""
        check(bool(self.below), 16)
        items, self.stack = self.stack, self.below.pop()
        return items

    def pop_some(self, count: int) -> list[Any]:
        check(len(self.stack) >= count, 16)
        items, self.stack[-count:] = self.stack[-count:], []
        return items

    def step(self, opcode: bytes) -> None:
        """One row of the page's table."""
        push = self.stack.append
        match opcode:
            case b"N" | b"\x88" | b"\x89":
                push({b"N": None, b"\x88": True, b"\x89": False}[opcode])
            case b"K" | b"M" | b"J" | b"G":
                push(self.number({b"K": "<B", b"M": "<H", b"J": "<i", b"G": ">d"}[opcode]))
            case b"\x8a" | b"\x8b":
                count = self.number("<B" if opcode == b"\x8a" else "<i")
                push(int.from_bytes(self.take(count), "little", signed=True))
            case b"X":
                push(self.take(self.number("<I")).decode("utf-8", "surrogatepass"))
            case b"]" | b"}" | b")":
                push({b"]": list, b"}": dict, b")": tuple}[opcode]())
            case b"\x85" | b"\x86" | b"\x87":
                push(tuple(self.pop_some(opcode[0] - 0x84)))
            case b"(":
                self.below.append(self.stack)
                self.stack = []
            case b"t":
                items = self.pop_mark()
                self.stack.append(tuple(items))
            case b"a" | b"e":
                items = [self.pop()] if opcode == b"a" else self.pop_mark()
                target = self.top(list | Object)
                (target.items if isinstance(target, Object) else target).extend(items)
            case b"s" | b"u":
                self.set(self.pop_some(2) if opcode == b"s" else self.pop_mark())
            case b"q" | b"r":
                self.memo[self.number("<B" if opcode == b"q" else "<I")] = self.top()
            case b"h" | b"j":
                number = self.number("<B" if opcode == b"h" else "<I")
                check(number in self.memo, 16)
                push(self.memo[number])
            case b"0" | b"1":
                self.pop() if opcode == b"0" else self.pop_mark()
            case b"c":
                module, name = self.line(), self.line()
                push(Global(PYTHON_2.get(module, module), name))
            case b"R":
                arguments = self.pop(tuple)
                push(call(self.pop(), arguments))
            case b"\x81":
                arguments = self.pop(tuple)
                push(Object(self.pop(Global), arguments))
            case b"b":
                self.build(self.pop())
            case b"Q":
                push(self.storage(self.pop()))
            case _:
                raise BadFile(16)

    def top(self, kind: Any = object) -> Any:
        check(bool(self.stack), 16)
        check(isinstance(self.stack[-1], kind), 20)
        return self.stack[-1]

    def set(self, items: list[Any]) -> None:
        check(len(items) % 2 == 0, 16)
        target = self.top(dict | Object)
        for key, value in zip(items[::2], items[1::2], strict=True):
            if isinstance(target, Object):
                target.items.append((key, value))
            else:
                check_key(key)
                target[key] = value

    def build(self, state: Any) -> None:
        target = self.top(OrderedDict | Counter | Object)
        if isinstance(target, Object):
            target.states.append(state)
        else:
            check(isinstance(state, dict) and all(isinstance(name, str) for name in state), 20)
            vars(target).update(state)

    def storage(self, identity: Any) -> Storage:
        """What a persistent id stands for."""
        check(isinstance(identity, tuple) and len(identity) == 5 and identity[0] == "storage", 17)
        _, cls, key, location, items = identity
        check(isinstance(cls, Global) and str(cls) in STORAGES, 17)
        check(isinstance(key, str) and isinstance(location, str) and is_count(items), 17)
        dtype = STORAGES[str(cls)]
        check(key in self.manifest.storages, 18)
        check(items * np.dtype(DTYPES[dtype]).itemsize == self.manifest.storages[key]["nbytes"], 18)
        return Storage(self.manifest.load(key), dtype, location)


def call(function: Any, arguments: tuple[Any, ...]) -> Any:
    """The result of a function that the page names, else a description."""
    check(isinstance(function, Global | Object), 20)
    known = FUNCTIONS.get(str(function)) if isinstance(function, Global) else None
    try:
        made = known(*arguments) if known else None
    except (TypeError, ValueError):  # more or fewer arguments than it has, or not of its types
        raise BadFile(20) from None
    return Object(function, arguments) if made is None else made


# Tensors


def view(storage: Any, dtype: str, offset: Any, size: Any, stride: Any) -> Array:
    """Items of a storage, seen as an array; offset and strides count items."""
    check(isinstance(storage, Storage) and is_count(offset), 19)
    check(isinstance(size, tuple) and isinstance(stride, tuple) and len(size) == len(stride) <= 64, 19)
    check(all(is_count(number) for number in (*size, *stride)), 19)
    item = np.dtype(DTYPES[dtype]).newbyteorder("<")
    check(math.prod(max(count, 1) for count in size) * item.itemsize < 2**63, 19)
    if 0 in size:
        return np.zeros(size, item)
    steps = [step if count > 1 else 0 for count, step in zip(size, stride, strict=True)]
    last = offset + sum((count - 1) * step for count, step in zip(size, steps, strict=True))
    check((last + 1) * item.itemsize <= storage.data.nbytes, 19)
    strides = [step * item.itemsize for step in steps]
    return np.ndarray(size, item, storage.data, offset * item.itemsize, strides)


def check_rest(requires_grad: Any, hooks: Any, metadata: Any = None) -> None:
    check(isinstance(requires_grad, bool) and isinstance(hooks, dict) and not hooks, 20)
    check(metadata is None or (isinstance(metadata, dict) and metadata.keys() <= {"conj", "neg"}), 20)


def tensor_v2(storage: Any, *rest: Any) -> Tensor | None:
    check(isinstance(storage, Storage), 19)
    return tensor_v3(storage, *rest[:5], Global("torch", storage.dtype), *rest[5:])


def tensor_v3(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Tensor | None:
    grad, hooks, dtype, *metadata = rest
    check(isinstance(dtype, Global) and len(metadata) <= 1, 20)
    check_rest(grad, hooks, *metadata)
    name = str(dtype).removeprefix("torch.")
    if name not in DTYPES:  # newer than this reader: not even the size of an item is known
        return None
    return Tensor(view(storage, name, offset, size, stride), name, grad, dict(*filter(None, metadata)))


def quantized(
    storage: Any, offset: Any, size: Any, stride: Any, quantizer: Any, grad: Any, hooks: Any
) -> Tensor | None:
    check(isinstance(storage, Storage) and isinstance(quantizer, tuple), 20)
    check_rest(grad, hooks)
    if storage.dtype in ("quint4x2", "quint2x4"):  # several items a byte: what its sizes mean is torch's affair
        return None
    return Tensor(view(storage, storage.dtype, offset, size, stride), storage.dtype, grad, {}, quantizer)


def parameter(tensor: Any, requires_grad: Any, hooks: Any, state: Any = None) -> Tensor | None:
    check(isinstance(tensor, Tensor | Object), 20)
    check_rest(requires_grad, hooks)
    if not isinstance(tensor, Tensor):
        return None
    return replace(tensor, requires_grad=requires_grad, kind="torch.nn.parameter.Parameter", state=state)


def from_type(function: Any, kind: Any, arguments: Any, state: Any) -> Tensor | None:
    check(isinstance(arguments, tuple) and str(function).startswith("torch._utils."), 20)
    tensor = call(function, arguments)
    if not isinstance(tensor, Tensor):
        return None
    return replace(tensor, kind=str(kind), state=state)


# Plain values that protocol 2 has no opcodes for


def encode(text: Any, encoding: Any) -> bytes:
    check(isinstance(text, str) and encoding in ("latin1", "latin-1"), 20)
    check(all(character < "\u0100" for character in text), 20)
    return bytes(text, "latin1")


def collection(kind: Callable[..., Any], items: Any = ()) -> Any:
    check(isinstance(items, list | tuple | dict), 20)
    for item in items:
        check_key(item)
    return kind(items)


def made_of(part: type, kind: Callable[..., Any], *arguments: Any) -> Any:
    check(all(type(argument) is part for argument in arguments), 20)
    return kind(*arguments)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "torch._utils._rebuild_tensor_v2": tensor_v2,
    "torch._utils._rebuild_tensor_v3": tensor_v3,
    "torch._utils._rebuild_qtensor": quantized,
    "torch._utils._rebuild_parameter": parameter,
    "torch._utils._rebuild_parameter_with_state": parameter,
    "torch._tensor._rebuild_from_type_v2": from_type,
    "torch.Size": partial(made_of, tuple, tuple),
    "_codecs.encode": encode,
    "builtins.bytes": partial(made_of, bytes, bytes),
    "builtins.bytearray": partial(made_of, bytes, bytearray),
    "builtins.complex": partial(made_of, float, complex),
    "builtins.set": partial(collection, set),
    "builtins.frozenset": partial(collection, frozenset),
    "collections.OrderedDict": partial(collection, OrderedDict),
    "collections.Counter": partial(collection, Counter),
}
