"""What a plan owns, so that its frames need not carry it: palettes, tables, a dictionary. docs/format/frame.md
describes the bytes.
"""

import hashlib
from dataclasses import dataclass

from cordwood.codecs.native_errors import raise_if_refused
from cordwood.native import _native


def varint(n: int) -> bytes:
    """Unsigned LEB128."""
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


@dataclass(frozen=True)
class Assets:
    """``encoded`` is empty when a plan owns nothing."""

    encoded: bytes = b""

    def __post_init__(self) -> None:
        if self.encoded:
            raise_if_refused(_native.check_plan(self.encoded), "plan")

    @classmethod
    def of(cls, palette: bytes = b"", tables: bytes = b"", dictionary: bytes = b"") -> "Assets":
        """From the three parts, each in the format's bytes without its leading mark."""
        if not (palette or tables or dictionary):
            return cls()
        marked = (b"\1" + palette if palette else b"\0") + (b"\1" + tables if tables else b"\0")
        return cls(b"CWPL\1\0" + marked + varint(len(dictionary)) + dictionary)

    @property
    def hash(self) -> int:
        """The 64 bits by which frames name the plan."""
        return int.from_bytes(hashlib.blake2b(self.encoded, digest_size=8).digest(), "little")
