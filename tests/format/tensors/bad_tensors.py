"""Bad tensor files: at least one for every number of the page's "A reader must reject"."""

import json
import struct
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.format.support import craft
from tests.format.tensors.craft_tensors import (
    FLOATS,
    HOOKS,
    ITEMS,
    MARK,
    Call,
    Crafted,
    Name,
    Stored,
    opcodes,
    patched,
    view,
)

FRAME = craft.frame("float32", (4,), craft.chain(), [ITEMS])


@dataclass(frozen=True)
class Bad:
    """A file, the number of what is wrong with it, and what that is in this case."""

    number: int
    label: str
    file: bytes


def bad_archives() -> list[Bad]:
    good = Crafted().file()
    size = len(good)
    directory = good.find(b"PK\1\2")
    local = good.find(b"data/0.0")
    return [
        Bad(1, "no file", b""),
        Bad(1, "another file", b"\x93NUMPY" + bytes(100)),
        Bad(1, "another first entry", Crafted(entries=lambda entries: entries.reverse()).file()),
        Bad(1, "no mark", Crafted(entries=lambda entries: entries.pop(0)).file()),
        Bad(1, "a longer name of the mark", good[:26] + struct.pack("<H", len(MARK) + 1) + good[28:]),
        Bad(2, "cut in the directory", good[: directory + 50]),
        Bad(2, "cut before the directory", good[:directory]),
        Bad(2, "the last byte is missing", good[: size - 1]),
        Bad(2, "a directory that begins elsewhere", good[:-6] + struct.pack("<I", directory - 7) + good[-2:]),
        Bad(2, "bytes before the archive, with a header of their own", good[:50] + good),
        Bad(2, "another name in the local header", patched(good, b"data/0.0", b"data/0.1")),
        Bad(2, "another method in the local header", good[: local - 22] + b"\x08" + good[local - 21 :]),
        Bad(2, "no local header", good[: local - 30] + b"XX" + good[local - 28 :]),
        Bad(2, "an entry over the next one", _sized(good, b"data/0.0", 10_000)),
        Bad(2, "a name twice", _renamed("manifest.jso_").replace(b"manifest.jso_", b"manifest.json")),
        Bad(2, "a name that leads out", _renamed("../up.json")),
        Bad(2, "an absolute name", _renamed("/root.json")),
        Bad(2, "a name with a zero byte", _renamed("a-b").replace(b"a-b", b"a\0b")),
        Bad(3, "no manifest", _without("manifest.json")),
        Bad(3, "no pickle", _without("data.pkl")),
        Bad(3, "no record", _without("data/0.0")),
        Bad(4, "manifest by bzip2", _packed("manifest.json", zipfile.ZIP_BZIP2)),
        Bad(4, "pickle by LZMA", _packed("data.pkl", zipfile.ZIP_LZMA)),
        Bad(4, "record deflated", _packed("data/0.0", zipfile.ZIP_DEFLATED)),
        Bad(4, "a deflated manifest of another size", _of_another_size(b"manifest.json")),
        Bad(4, "encrypted", _flagged(good, b"data/0.0", 1)),
        Bad(4, "two sizes", _sized(good, b"data/0.0", 16, 15)),
        Bad(5, "the manifest's checksum", patched(good, b'"goal": "raw"', b'"goal": "row"')),
        Bad(5, "the pickle's checksum", patched(good, b"FloatStorage", b"FloatStorbge")),
    ]


def _renamed(name: str) -> bytes:
    """With one more entry of that name."""
    return Crafted(entries=lambda entries: entries.append((name, b""))).file()


def _packed(name: str, method: int) -> bytes:
    return Crafted(method={name: method}).file()


def _of_another_size(name: bytes) -> bytes:
    data = _packed(name.decode(), zipfile.ZIP_DEFLATED)
    stored, size = struct.unpack_from("<II", data, _central(data, name) + 20)
    return _sized(data, name, stored, size - 1)


def _without(name: str) -> bytes:
    def drop(entries: list[tuple[str, bytes]]) -> None:
        entries[:] = [entry for entry in entries if entry[0] != name]

    return Crafted(entries=drop).file()


def _central(data: bytes, name: bytes) -> int:
    """Where the entry's row in the central directory begins."""
    return data.rfind(name) - 46


def _sized(data: bytes, name: bytes, stored: int, size: int | None = None) -> bytes:
    at = _central(data, name)
    return data[: at + 20] + struct.pack("<II", stored, stored if size is None else size) + data[at + 28 :]


def _flagged(data: bytes, name: bytes, flags: int) -> bytes:
    at = _central(data, name)
    return data[: at + 8] + struct.pack("<H", flags) + data[at + 10 :]


def bad_manifests() -> list[Bad]:
    good = Crafted().manifest
    text = json.dumps(good)
    found = [
        Bad(6, label, Crafted(manifest=manifest).file())
        for label, manifest in {
            "empty": b"",
            "not JSON": b"{",
            "bytes behind it": text.encode() + b"x",
            "not UTF-8": text.replace("raw", "r\xe4w").encode("latin1"),
            "UTF-16": text.encode("utf-16"),
            "a byte-order mark": text.encode("utf-8-sig"),
            "a list": [good],
            "deep": b"[" * 100_000,
            "a long number": text.replace("[1, 0]", "[1, " + "1" * 5000 + "]").encode(),
            "a member twice": text.replace('"goal": "raw"', '"version": [1, 0]').encode(),
        }.items()
    ]

    def case(number: int, label: str, change: Callable[[Crafted], Any]) -> None:
        crafted = Crafted()
        change(crafted)
        found.append(Bad(number, label, crafted.file()))

    def rows(crafted: Crafted) -> dict[str, dict[str, Any]]:
        return {"manifest": crafted.manifest, "storage": crafted.storage, "record": crafted.record}

    def put(where: str, member: str, value: Any) -> Callable[[Crafted], Any]:
        return lambda crafted: rows(crafted)[where].update({member: value})

    def drop(where: str, member: str) -> Callable[[Crafted], Any]:
        return lambda crafted: rows(crafted)[where].pop(member)

    for where, members in {
        "manifest": ("format", "version", "storages"),
        "storage": ("nbytes", "records"),
        "record": ("name", "offset", "nbytes", "crc32c"),
    }.items():
        for member in members:
            case(6, f"no {member} of the {where}", drop(where, member))
    wrongs: list[tuple[str, str, list[Any]]] = [
        ("manifest", "format", ["cordwood"]),
        ("manifest", "version", [1, [1], [1, 0, 0], ["1", "0"], [1.0, 0]]),
        ("manifest", "requires", ["nothing", {}]),
        ("manifest", "storages", [[], {"0": []}]),
        ("storage", "nbytes", ["16", 16.0, -16, True, 2**56]),
        ("storage", "records", [{}, [1]]),
        ("record", "name", [0]),
        ("record", "offset", [-4, 0.0]),
        ("record", "nbytes", [None]),
        ("record", "crc32c", ["00000000", 1.5]),
    ]
    for where, member, values in wrongs:
        for wrong in values:
            case(6, f"{member} of the {where} is {wrong!r}", put(where, member, wrong))
    case(7, "major 2", put("manifest", "version", [2, 0]))
    case(7, "major 0", put("manifest", "version", [0, 9]))
    case(8, "a feature", put("manifest", "requires", ["deltas"]))
    case(9, "coding deflate", put("record", "coding", "deflate"))
    case(9, "no coding", drop("record", "coding"))
    case(9, "coding of a list", put("record", "coding", ["raw"]))
    case(10, "an empty record", lambda c: c.with_records((0, b""), (0, ITEMS)))
    case(10, "behind the storage", put("storage", "nbytes", 15))
    case(10, "an offset that moves it out", put("record", "offset", 4))
    case(10, "overlap", lambda c: c.with_records((0, ITEMS[:8]), (4, ITEMS[4:])))
    case(10, "not in order", lambda c: c.with_records((8, ITEMS[8:]), (0, ITEMS[:8])))
    case(11, "a gap of 16", lambda c: _sparse(c, 48, (0, ITEMS), (32, ITEMS)))
    case(11, "a gap of 16 at the start", lambda c: _sparse(c, 32, (16, ITEMS)))
    case(11, "a gap of 16 at the end", lambda c: _sparse(c, 32, (0, ITEMS)))
    case(11, "huge, and nearly empty", lambda c: _sparse(c, 2**40, (0, ITEMS)))
    case(11, "no records", lambda c: _sparse(c, 8))
    case(12, "a record twice", _twice)
    case(13, "a shorter entry", lambda c: c.records.update({"data/0.0": ITEMS[:-1]}))
    case(13, "a longer entry", lambda c: c.records.update({"data/0.0": ITEMS + b"\0"}))
    case(13, "another byte", lambda c: c.records.update({"data/0.0": ITEMS[:-1] + b"\x41"}))
    case(13, "CRC-32 for CRC-32C", put("record", "crc32c", zlib.crc32(ITEMS)))
    case(14, "no frame", lambda c: c.with_frame(b""))
    case(14, "raw bytes for a frame", lambda c: c.with_frame(ITEMS))
    case(14, "a cut frame", lambda c: c.with_frame(FRAME[:-1]))
    case(14, "a byte behind the frame", lambda c: c.with_frame(FRAME + b"\0"))
    case(14, "a damaged header", lambda c: c.with_frame(patched(FRAME, b"CWFR\1\0", b"CWFR\1\1")))
    case(14, "a damaged block", lambda c: c.with_frame(FRAME[:-1] + b"\x41"))
    case(14, "a plan", lambda c: c.with_frame(craft.frame("float32", (4,), craft.chain(), [ITEMS], plan_hash=7)))
    case(15, "a smaller array", lambda c: c.with_frame(craft.frame("float32", (3,), craft.chain(), [ITEMS[:12]])))
    case(15, "a larger array", lambda c: c.with_frame(craft.frame("uint8", (2**40,), craft.chain(craft.narrow(7, 0)))))
    case(15, "an array of 8-byte items at 4", _misplaced)
    case(21, "16 TiB that no block needs", _huge)
    return found


def _sparse(crafted: Crafted, nbytes: int, *records: tuple[int, bytes]) -> None:
    crafted.with_records(*records)
    crafted.storage["nbytes"] = nbytes
    identity = ("storage", Name("torch", "FloatStorage"), "0", "cpu", nbytes // 4)
    crafted.with_value(view(Stored(identity), 0, (2,)))


def _twice(crafted: Crafted) -> None:
    crafted.manifest["storages"]["1"] = json.loads(json.dumps(crafted.storage))
    other = Stored(("storage", Name("torch", "FloatStorage"), "1", "cpu", 4))
    crafted.with_value([view(), view(other)])


def _misplaced(crafted: Crafted) -> None:
    crafted.with_records((0, ITEMS[:4]), (4, ITEMS[:8]))
    crafted.records["data/0.1"] = craft.frame("int64", (1,), craft.chain(), [ITEMS[:8]])
    crafted.storage["records"][1] = {"name": "data/0.1", "offset": 4, "nbytes": 8, "coding": "frame"}
    crafted.storage["nbytes"] = 12
    identity = ("storage", Name("torch", "FloatStorage"), "0", "cpu", 3)
    crafted.with_value(view(Stored(identity), 0, (3,)))


def _huge(crafted: Crafted) -> None:
    crafted.with_frame(craft.frame("int64", (2**41,), craft.chain(craft.narrow(7, 0))), 2**44)
    crafted.storage["nbytes"] = 2**44
    identity = ("storage", Name("torch", "LongStorage"), "0", "cpu", 2**41)
    crafted.with_value(view(Stored(identity), 0, (1,)))


def bad_pickles() -> list[Bad]:
    found = []

    def pickle(label: str, data: bytes, number: int = 16) -> None:
        found.append(Bad(number, label, Crafted(pickle=data).file()))

    def value(number: int, label: str, obj: Any) -> None:
        found.append(Bad(number, label, Crafted().with_value(obj).file()))

    pickle("empty", b"")
    pickle("protocol 6", b"\x80\x06N.")
    pickle("no stop", b"\x80\x02N")
    pickle("bytes behind stop", b"\x80\x02N.N")
    pickle("nothing at stop", b"\x80\x02.")
    pickle("two values at stop", b"\x80\x02NN.")
    pickle("an open mark at stop", b"\x80\x02(N.")
    pickle("an unknown opcode", b"\x80\x02\xf0.")
    pickle("a number as text", b"\x80\x02I1\n.")
    pickle("a tuple of nothing", b"\x80\x02N\x86.")
    pickle("a tuple without a mark", b"\x80\x02Nt.")
    pickle("append to nothing", b"\x80\x02Na.")
    pickle("key without a value", b"\x80\x02}(Nu.")
    pickle("memo", b"\x80\x02h\x05.")
    pickle("put of nothing", b"\x80\x02q\x05N.")
    pickle("a text longer than the pickle", b"\x80\x02X\xff\xff\xff\xffa.")
    pickle("a text that is not UTF-8", b"\x80\x02X\x01\0\0\0\xff.")
    pickle("an integer of fewer than no bytes", b"\x80\x02\x8b\xff\xff\xff\xff.")
    pickle("a global without an end", b"\x80\x02ctorch\nSize.")
    pickle("a call with a list", b"\x80\x02" + opcodes(HOOKS.function) + b"]R.")
    pickle("a list for a key", b"\x80\x02}]Ns.")
    pickle("a key of many tuples", b"\x80\x02}N" + b"\x85" * 100_000 + b"Ns.")
    pickle("a key that grows", b"\x80\x02})" + b"q\0h\0\x86" * 40 + b"Ns.")
    pickle("items for a number", b"\x80\x02K\x01K\x01a.", 20)
    pickle("keys for a list", b"\x80\x02]K\x01K\x01s.", 20)
    pickle("a state for a list", b"\x80\x02]}b.", 20)
    pickle("a call of a text", b"\x80\x02" + opcodes("f") + b")R.", 20)

    floats = ("storage", Name("torch", "FloatStorage"), "0", "cpu", 4)
    word, cls, *rest = floats
    for label, identity in {
        "no tuple": "storage",
        "too short": floats[:4],
        "too long": (*floats, None, None),
        "another word": ("module", cls, *rest),
        "a class that is text": (word, "FloatStorage", *rest),
        "an unknown class": (word, Name("torch", "HugeStorage"), *rest),
        "no text for a location": (*floats[:3], 0, 4),
        "a float for items": (*floats[:4], 4.0),
        "fewer than no items": (*floats[:4], -4),
    }.items():
        value(17, label, view(Stored(identity)))
    value(18, "an unknown key", view(Stored((*floats[:2], "1", *floats[3:]))))
    value(18, "more items", view(Stored((*floats[:4], 5))))
    value(18, "fewer items", view(Stored((*floats[:4], 3)), 0, (3,)))
    value(18, "items of another size", view(Stored((word, Name("torch", "DoubleStorage"), *rest)), 0, (2,)))
    value(18, "a second id of another size", [view(), view(Stored((*floats[:4], 3)), 0, (3,))])

    for label, arguments in {
        "over a list": ([], 0, (4,), (1,)),
        "too large": (FLOATS, 0, (5,), (1,)),
        "behind the end": (FLOATS, 1, (4,), (1,)),
        "offset behind the end": (FLOATS, 4, (), ()),
        "a long stride": (FLOATS, 0, (2,), (4,)),
        "two strides that add up": (FLOATS, 0, (2, 2), (2, 2)),
        "a negative size": (FLOATS, 0, (-1,), (1,)),
        "a negative stride": (FLOATS, 3, (4,), (-1,)),
        "a negative offset": (FLOATS, -1, (4,), (1,)),
        "fewer strides": (FLOATS, 0, (2, 2), (1,)),
        "fewer sizes": (FLOATS, 0, (2,), (2, 1)),
        "a list for the size": (FLOATS, 0, [4], (1,)),
        "a float in the size": (FLOATS, 0, (4.0,), (1,)),
        "a text for the offset": (FLOATS, "0", (4,), (1,)),
        "65 dimensions": (FLOATS, 0, (1,) * 65, (1,) * 65),
        "2^100 items in one": (FLOATS, 0, (2**50, 2**50), (0, 0)),
        "a stride that wraps around": (FLOATS, 0, (2,), (2**64,)),
        "a size that wraps around": (FLOATS, 0, (2**64 + 4,), (1,)),
    }.items():
        value(19, label, view(*arguments))
    value(19, "quantized, too large", Call(Name("torch._utils", "_rebuild_qtensor"), _quantized((5,))))
    v3 = Name("torch._utils", "_rebuild_tensor_v3")
    value(19, "too large for its dtype", Call(v3, (FLOATS, 0, (4,), (1,), False, HOOKS, Name("torch", "float64"))))

    v2 = Name("torch._utils", "_rebuild_tensor_v2")
    parameter = Name("torch._utils", "_rebuild_parameter")
    value(20, "too few arguments", Call(v2, (FLOATS, 0, (4,))))
    value(20, "too many arguments", Call(v2, (FLOATS, 0, (4,), (1,), False, HOOKS, {}, {})))
    value(20, "hooks", view(FLOATS, 0, (4,), (1,), False, {1: 2}))
    value(20, "other metadata", view(FLOATS, 0, (4,), (1,), False, HOOKS, {"device": "cpu"}))
    value(20, "a text for a dtype", Call(v3, (FLOATS, 0, (4,), (1,), False, HOOKS, "float32")))
    value(20, "a parameter of a list", Call(parameter, ([], True, HOOKS)))
    value(20, "a set of a number", Call(Name("__builtin__", "set"), (1,)))
    value(20, "a bytearray of a size", Call(Name("__builtin__", "bytearray"), (2**40,)))
    value(20, "bytes in another encoding", Call(Name("_codecs", "encode"), ("a", "rot13")))
    return found


def _quantized(size: tuple[int, ...]) -> tuple[Any, ...]:
    storage = Stored(("storage", Name("torch", "QUInt8Storage"), "0", "cpu", 16))
    return (storage, 12, size, (1,), (Name("torch", "per_tensor_affine"), 0.5, 0), False, HOOKS)


def allowed_files() -> dict[str, bytes]:
    """What is unusual and must be read all the same: as the tensor [1, 2, 3, 4] under "w"."""
    newer = Crafted()
    newer.manifest.update(version=[1, 7], new={"member": None})
    newer.storage["hint"] = newer.record["hint"] = 1
    bare = Crafted()
    del bare.manifest["goal"], bare.manifest["requires"]
    padded = Crafted().with_records((4, ITEMS))
    padded.storage["nbytes"] = 24
    padded.with_value({"w": view(Stored(("storage", Name("torch", "FloatStorage"), "0", "cpu", 6)), 1)})
    unused = Crafted(records={"data/0.0": ITEMS, "data/1.0": ITEMS, "thumbnail": b"jpeg"})
    unused.manifest["storages"]["1"] = {"nbytes": 16, "records": [{**unused.record, "name": "data/1.0"}]}
    doubled = craft.frame("uint16", (2, 4), craft.chain(), [np.frombuffer(ITEMS, "<u2").tobytes()])
    return {
        "plain": Crafted().file(),
        "higher minor, unknown members": newer.file(),
        "no goal, no requires": bare.file(),
        "padding": padded.file(),
        "entries and storages that nobody asks for": unused.file(),
        "two records": Crafted().with_records((0, ITEMS[:8]), (8, ITEMS[8:])).file(),
        "a frame": Crafted().with_frame(FRAME).file(),
        "a frame of another dtype": Crafted().with_frame(doubled).file(),
        "another order of entries": Crafted(entries=lambda entries: entries.append(entries.pop(1))).file(),
    }


BAD = bad_archives() + bad_manifests() + bad_pickles()
