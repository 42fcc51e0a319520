"""Tensor files byte by byte: pickles opcode by opcode, and the archives around them.

    pickle = craft.pickled(craft.tensor("0", 6, size=(2, 3), stride=(3, 1)))
    cordwood.load(io.BytesIO(craft.archive(pickle, {"0": bytes(24)})))

Nothing here goes through the package's own writers, so that files can be made that these would never write.
"""

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Mapping, Sequence
from typing import Any

MAGIC = 0x1950A86A20F9469CFC6C


def integer(value: int) -> bytes:
    """The shortest opcode for small numbers, LONG1 and LONG4 beyond."""
    if 0 <= value <= 0xFF:
        return b"K" + bytes([value])
    raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(raw)]) + raw if len(raw) < 256 else b"\x8b" + struct.pack("<I", len(raw)) + raw


def text(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw


def value(given: Any) -> bytes:
    """Opcodes of a plain value; bytes are opcodes already."""
    if isinstance(given, bytes):
        return given
    if given is None or isinstance(given, bool):
        return {None: b"N", True: b"\x88", False: b"\x89"}[given]
    if isinstance(given, int):
        return integer(given)
    if isinstance(given, float):
        return b"G" + struct.pack(">d", given)
    if isinstance(given, str):
        return text(given)
    if isinstance(given, list):
        return b"](" + b"".join(map(value, given)) + b"e"
    if isinstance(given, dict):
        return b"}(" + b"".join(value(key) + value(item) for key, item in given.items()) + b"u"
    assert isinstance(given, tuple)
    return tup(*given)


def tup(*items: Any) -> bytes:
    return b"(" + b"".join(map(value, items)) + b"t"


def glob(name: str) -> bytes:
    """GLOBAL; the last dot parts module and name."""
    module, _, last = name.rpartition(".")
    return f"c{module}\n{last}\n".encode()


def call(function: str | bytes, *arguments: Any) -> bytes:
    """REDUCE."""
    return (glob(function) if isinstance(function, str) else function) + tup(*arguments) + b"R"


def put(index: int) -> bytes:
    return b"r" + struct.pack("<I", index)


def get(index: int) -> bytes:
    return b"j" + struct.pack("<I", index)


def persistent(*parts: Any) -> bytes:
    return tup(*parts) + b"Q"


def storage(key: Any = "0", numel: Any = 4, kind: str = "torch.FloatStorage", location: Any = "cpu") -> bytes:
    return persistent("storage", glob(kind), key, location, numel)


EMPTY_HOOKS = call("collections.OrderedDict")


def tensor(
    key: Any = "0",
    numel: Any = 4,
    *,
    kind: str = "torch.FloatStorage",
    offset: Any = 0,
    size: Any = (4,),
    stride: Any = (1,),
    requires_grad: Any = False,
    hooks: Any = EMPTY_HOOKS,
    metadata: Any = None,
) -> bytes:
    """``_rebuild_tensor_v2`` over a storage."""
    extra = () if metadata is None else (metadata,)
    return call(
        "torch._utils._rebuild_tensor_v2", storage(key, numel, kind), offset, size, stride, requires_grad, hooks, *extra
    )


def meta(size: Any, stride: Any, dtype: str = "torch.float32") -> bytes:
    return call("torch._utils._rebuild_meta_tensor_no_storage", glob(dtype), size, stride, False)


def pickled(*opcodes: bytes, protocol: int = 2) -> bytes:
    return b"\x80" + bytes([protocol]) + b"".join(opcodes) + b"."


def archive(
    data_pkl: bytes | None,
    storages: Mapping[str, bytes] | None = None,
    *,
    extra: Mapping[str, bytes] | None = None,
    deflated: bool = False,
    prefix: str = "archive",
) -> bytes:
    """A `.pt` file as torch writes it since 1.6, by the standard library's zipfile."""
    entries = {} if data_pkl is None else {"data.pkl": data_pkl}
    entries |= {f"data/{key}": content for key, content in (storages or {}).items()}
    entries |= dict(extra or {})
    return zipped({f"{prefix}/{name}": content for name, content in entries.items()}, deflated=deflated)


def zipped(entries: Mapping[str, bytes], *, deflated: bool = False) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED) as out:
        for name, content in entries.items():
            out.writestr(zipfile.ZipInfo(name), content, out.compression)
    return file.getvalue()


def one(opcodes: bytes, nbytes: int = 16) -> bytes:
    """An archive of one value, with storage 0 at hand."""
    return archive(pickled(opcodes), {"0": bytes(nbytes)})


def legacy(
    opcodes: bytes,
    storages: Sequence[tuple[Any, int, bytes]] = (),
    *,
    keys: bytes | None = None,
    system: Any = None,
    version: Any = 1001,
) -> bytes:
    """A file from before 1.6; storages are (key, count, bytes)."""
    facts = {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}
    parts = [pickle.dumps(MAGIC, 2), pickle.dumps(version, 2), pickle.dumps(facts if system is None else system, 2)]
    parts.append(pickled(opcodes))
    parts.append(pickle.dumps([key for key, _, _ in storages], 2) if keys is None else keys)
    parts += [struct.pack("<q", count) + content for _, count, content in storages]
    return b"".join(parts)


def legacy_storage(
    key: Any = "0", numel: Any = 4, kind: str = "torch.FloatStorage", view: Any = None, location: Any = "cpu"
) -> bytes:
    return persistent("storage", glob(kind), key, location, numel, view)


def legacy_tensor(key: Any = "0", numel: Any = 4, *, view: Any = None, size: Any = (4,), stride: Any = (1,)) -> bytes:
    return call(
        "torch._utils._rebuild_tensor_v2", legacy_storage(key, numel, view=view), 0, size, stride, False, EMPTY_HOOKS
    )


def cord(
    data_pkl: bytes,
    manifest: Any,
    records: Mapping[str, bytes] | None = None,
    *,
    deflated: bool = False,
) -> bytes:
    """A `.cord` file; a manifest that is bytes is written as it is."""
    text_of = manifest if isinstance(manifest, bytes) else json.dumps(manifest).encode()
    entries = {"cordwood-tensors": b"", **(records or {}), "data.pkl": data_pkl, "manifest.json": text_of}
    return zipped(entries, deflated=deflated)


def manifest(storages: Any, **others: Any) -> dict[str, Any]:
    return {"format": "cordwood-tensors", "version": [1, 0], "requires": [], "storages": storages, **others}


def crc32c(data: bytes) -> int:
    """Bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def raw_record(name: str, content: bytes, offset: int = 0, **others: Any) -> dict[str, Any]:
    row = {"name": name, "offset": offset, "nbytes": len(content), "coding": "raw", "crc32c": crc32c(content)}
    return row | others


def safetensors(header: Any, data: bytes = b"", *, length: int | None = None) -> bytes:
    """A header that is bytes is written as it is."""
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(raw) if length is None else length) + raw + data
