"""Frames put together by hand, field by field, from the format's page alone.

>>> craft.frame("uint8", (3,), craft.chain(), [b"abc"])

Every field can be given another value than the right one; checksums and sizes are right unless overridden.
"""

import hashlib
import struct
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

DTYPES = (
    "bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
    "float8_e8m0fnu", "complex32", "float4_e2m1fn_x2",
)  # fmt: skip
COMPLEX = ("complex64", "complex128", "complex32")
HUFFMAN, ANS = 0, 1
WHOLE = 255  # the axis of a palette for the whole array


def itemsize(dtype: str) -> int:
    """Bytes of an element, which is the component of a complex number."""
    if dtype in COMPLEX:
        return {"complex32": 2, "complex64": 4, "complex128": 8}[dtype]
    if dtype in ("bool", "float4_e2m1fn_x2") or dtype.startswith("float8"):
        return 1
    return 2 if dtype == "bfloat16" else np.dtype(dtype).itemsize


# Fields


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC_OF_BYTE[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def _crc_of_byte(crc: int) -> int:
    for _ in range(8):
        crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc


_CRC_OF_BYTE = [_crc_of_byte(byte) for byte in range(256)]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def zigzag(value: int, bits: int = 64) -> int:
    mask: int = 2**bits - 1
    return ((value << 1) ^ (value >> (bits - 1))) & mask


def u64(value: int) -> bytes:
    return struct.pack("<Q", value)


class BitWriter:
    """A bit stream, from the lowest bit of the first byte upwards."""

    def __init__(self) -> None:
        self.bits: list[int] = []

    def put(self, value: int, count: int) -> Self:
        self.bits += [value >> i & 1 for i in range(count)]
        return self

    def unary(self, value: int) -> Self:
        self.bits += [1] * value + [0]
        return self

    def to_bytes(self) -> bytes:
        return np.packbits(np.array(self.bits, np.uint8), bitorder="little").tobytes()


# The chain. A kind is a number, or bytes with its parameters behind it.


def chain(
    value: bytes = b"\0", predict: bytes = b"\0", planes: int = 0, coder: bytes = b"\0", block: int | bytes = 2**20
) -> bytes:
    """The five fields; what is not given does nothing."""
    return value + predict + bytes([planes]) + coder + (block if isinstance(block, bytes) else varint(block))


def narrow(minimum: int = 0, bits: int = 8, shift: int = 0) -> bytes:
    return b"\1" + varint(zigzag(minimum)) + bytes([bits, shift])


def palette_in_frame(palettes: Sequence[Array], bits: int = 8, axis: int = WHOLE) -> bytes:
    """Palettes are arrays of bit patterns: unsigned integers as wide as an element."""
    return bytes([2, bits, axis, 0]) + palette_fields(palettes)


def palette_fields(palettes: Sequence[Array]) -> bytes:
    return b"".join(varint(len(p)) + p.tobytes() for p in palettes)


def palette_formula(
    n: int,
    operations: Sequence[tuple[int, int, Sequence[float]]],
    work: int = 0,
    bits: int = 8,
    axis: int = WHOLE,
) -> bytes:
    """Operations are (operation, scope, operands)."""
    out = bytes([2, bits, axis, 1]) + varint(n) + bytes([work, len(operations)])
    for operation, scope, operands in operations:
        out += bytes([operation, scope]) + np.array(operands, "<f4" if work == 0 else "<f8").tobytes()
    return out


def palette_of_plan(bits: int = 8, axis: int = WHOLE) -> bytes:
    return bytes([2, bits, axis, 2])


def med(geometry: int, color: int = 0) -> bytes:
    return bytes([1, geometry, color])


def mixed(geometry: int, color: int = 0) -> bytes:
    return bytes([3, geometry, color])


def delta(lag: int = 1) -> bytes:
    return b"\2" + varint(lag)


def coded(entropy: int = HUFFMAN, tile_height: int = 0, tile_width: int = 15) -> bytes:
    """The tile's sides are logarithms."""
    return bytes([1, entropy, tile_height, tile_width])


# The frame


def frame(
    dtype: str | int,
    shape: Sequence[int],
    chain: bytes,
    blocks: Sequence[bytes] = (),
    *,
    magic: bytes = b"CWFR",
    major: int = 1,
    minor: int = 0,
    header_size: int | None = None,
    flags: int | None = None,
    rank: int | None = None,
    dims: bytes | None = None,
    plan_hash: int | None = None,
    block_table: bytes | None = None,
    pad: bytes | None = None,
    after_pad: bytes = b"",
    header_checksum: int | None = None,
    tail: bytes = b"",
) -> bytes:
    """A frame of these parts. What is None is made right; `pad` is the count and what follows it."""
    number = DTYPES.index(dtype) if isinstance(dtype, str) else dtype
    fields = bytes([number, len(shape) if rank is None else rank])
    fields += b"".join(varint(d) for d in shape) if dims is None else dims
    if plan_hash is not None:
        fields += u64(plan_hash)
    fields += chain
    fields += table_of(blocks) if block_table is None else block_table
    fields += (b"\0" if pad is None else pad) + after_pad
    size = 11 + len(fields) + 4 if header_size is None else header_size
    named = 0 if plan_hash is None else 1
    start = magic + struct.pack("<BBIB", major, minor, size, named if flags is None else flags)
    header = start + fields
    checksum = crc32c(header) if header_checksum is None else header_checksum
    return header + struct.pack("<I", checksum) + b"".join(blocks) + tail


def table_of(blocks: Sequence[bytes]) -> bytes:
    return b"".join(varint(len(b)) + struct.pack("<I", crc32c(b)) for b in blocks)


def repair(frame: bytes) -> bytes:
    """The header's checksum made right, at the place that the header size names."""
    size = int.from_bytes(frame[6:10], "little")
    if not 15 <= size <= len(frame):
        return frame
    return frame[: size - 4] + struct.pack("<I", crc32c(frame[: size - 4])) + frame[size:]


# What a plan owns


def assets(
    palette: bytes = b"\0",
    tables: bytes = b"\0",
    dictionary: bytes = b"",
    *,
    magic: bytes = b"CWPL",
    major: int = 1,
    minor: int = 0,
    tail: bytes = b"",
) -> bytes:
    return magic + bytes([major, minor]) + palette + tables + varint(len(dictionary)) + dictionary + tail


def owned_palette(
    dtype: str | int, palettes: Sequence[Array], bits: int = 8, axis: int = WHOLE, count: int | None = None
) -> bytes:
    number = DTYPES.index(dtype) if isinstance(dtype, str) else dtype
    palette_count = len(palettes) if count is None else count
    return bytes([1, number, bits, axis]) + varint(palette_count) + palette_fields(palettes)


def owned_tables(coder: int, log: int, count: int, descriptions: bytes) -> bytes:
    return bytes([1, coder, log]) + varint(count) + varint(len(descriptions)) + descriptions


def hash_of(assets: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(assets, digest_size=8).digest(), "little")
