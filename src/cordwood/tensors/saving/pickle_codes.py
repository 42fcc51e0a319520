"""Writes a few values as opcodes of pickle protocol 2, to insert them into an existing pickle."""

import struct
from collections.abc import Sequence


def integer(value: int) -> bytes:
    """As Python's own pickler writes it, so that a rewritten file looks like any other."""
    if 0 <= value <= 0xFF:
        return b"K" + value.to_bytes(1, "little")
    if 0 <= value <= 0xFFFF:
        return b"M" + value.to_bytes(2, "little")
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    raw = value.to_bytes(max(value, ~value).bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + len(raw).to_bytes(1, "little") + raw


def integers(values: Sequence[int]) -> bytes:
    """A tuple of integers."""
    body = b"".join(integer(value) for value in values)
    match len(values):
        case 0:
            return b")"
        case 1:
            return body + b"\x85"
        case 2:
            return body + b"\x86"
        case 3:
            return body + b"\x87"
    return b"(" + body + b"t"


def text(value: str) -> bytes:
    """A string."""
    raw = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(raw)) + raw
