"""Damage to frames, done so that it gets past the checksums: what is behind them must hold as well.

>>> mutant = Mutator(seed=1).mutate(frame, block_sizes, other_frame)

A frame is taken apart into the header's fields, the block table and the blocks; some of them are damaged; then it is
put together again with right sizes and checksums, or, now and then, without.
"""

import random
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.format.support import craft
from tests.format.support.craft import crc32c, varint

# Numbers that sit at the edges of fields and of machine words
EDGES = [
    varint(n)
    for n in (0, 1, 2, 7, 8, 63, 64, 127, 128, 255, 256, 2**15, 2**16, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40,
              2**48 - 1, 2**56, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1)
]  # fmt: skip


@dataclass
class Parts:
    """A frame taken apart: the fields from the flags up to the block table, what follows the table, and the blocks."""

    fields: bytes
    pad: bytes
    blocks: list[bytes]

    @classmethod
    def of(cls, frame: bytes, block_sizes: Sequence[int]) -> "Parts":
        size = int.from_bytes(frame[6:10], "little")
        blocks, at = [], size
        for block_size in block_sizes:
            blocks.append(frame[at : at + block_size])
            at += block_size
        table = craft.table_of(blocks)
        start = frame.rindex(table, 10, size - 4)  # with no blocks, the padding is among the fields
        return cls(frame[10:start], frame[start + len(table) : size - 4], blocks)

    def together(self, table: bytes | None = None) -> bytes:
        table = craft.table_of(self.blocks) if table is None else table
        rest = self.fields + table + self.pad
        header = struct.pack("<4sBBI", b"CWFR", 1, 0, 10 + len(rest) + 4) + rest
        return header + struct.pack("<I", crc32c(header)) + b"".join(self.blocks)


class Mutator:
    """The same seed gives the same damage."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def mutate(self, frame: bytes, block_sizes: Sequence[int], other: bytes) -> bytes:
        """The frame with some damage; `other` lends bytes to splices."""
        pick = self.random.random()
        if pick < 0.1:
            return self.damage(frame, other)
        if pick < 0.15:
            return craft.repair(self.damage(frame, other))
        parts = Parts.of(frame, block_sizes)
        if parts.blocks and self.random.random() < 0.6:
            place = self.random.randrange(len(parts.blocks))
            parts.blocks[place] = self.damage(parts.blocks[place], other)
            if self.random.random() < 0.05:
                parts.blocks.insert(place, parts.blocks[self.random.randrange(len(parts.blocks))])
        else:
            parts.fields = self.damage(parts.fields, other)
        if self.random.random() < 0.03:
            parts.pad = self.damage(parts.pad, other)
        if self.random.random() < 0.03:
            return parts.together(self.damage(craft.table_of(parts.blocks), other))
        return parts.together()

    def mutate_assets(self, frame: bytes, assets: bytes, other: bytes) -> tuple[bytes, bytes]:
        """Damaged assets, and the frame naming them by their new hash."""
        damaged = self.damage(assets, other)
        named = frame.replace(craft.u64(craft.hash_of(assets)), craft.u64(craft.hash_of(damaged)), 1)
        return craft.repair(named), damaged

    def damage(self, data: bytes, other: bytes) -> bytes:
        """One to four small changes."""
        ways: list[Callable[[bytes, bytes], bytes]] = [
            self.flip, self.flip, self.flip, self.set_byte, self.set_byte, self.put_edge, self.truncate, self.splice,
            self.repeat, self.remove, self.swap, self.insert,
        ]  # fmt: skip
        for _ in range(self.random.choice((1, 1, 1, 2, 4))):
            data = self.random.choice(ways)(data, other)
        return data

    def _place(self, data: bytes) -> int:
        """Any place, but the beginning, where the small fields are, more often."""
        top = len(data) if self.random.random() < 0.5 else min(len(data), 40)
        return self.random.randrange(top + 1)

    def flip(self, data: bytes, other: bytes) -> bytes:
        at = self._place(data)
        return data[:at] + bytes(byte ^ 1 << self.random.randrange(8) for byte in data[at : at + 1]) + data[at + 1 :]

    def set_byte(self, data: bytes, other: bytes) -> bytes:
        at = self._place(data)
        value = self.random.choice((0, 1, 2, 3, 5, 8, 16, 64, 127, 128, 254, 255, self.random.randrange(256)))
        return data[:at] + bytes([value]) + data[at + 1 :]

    def put_edge(self, data: bytes, other: bytes) -> bytes:
        at = self._place(data)
        return data[:at] + self.random.choice(EDGES) + data[at + self.random.choice((1, 1, 2, 3)) :]

    def truncate(self, data: bytes, other: bytes) -> bytes:
        return data[: self._place(data)]

    def splice(self, data: bytes, other: bytes) -> bytes:
        at, start = self._place(data), self._place(other)
        length = self.random.choice((1, 2, 4, 16, 64))
        return data[:at] + other[start : start + length] + data[at + self.random.choice((0, length)) :]

    def repeat(self, data: bytes, other: bytes) -> bytes:
        at, length = self._place(data), self.random.choice((1, 2, 8, 40))
        return data[: at + length] + data[at:]

    def remove(self, data: bytes, other: bytes) -> bytes:
        at = self._place(data)
        return data[:at] + data[at + self.random.choice((1, 1, 2, 8)) :]

    def swap(self, data: bytes, other: bytes) -> bytes:
        a, b = sorted((self._place(data), self._place(data)))
        return data[:a] + data[b : b + 1] + data[a + 1 : b] + data[a : a + 1] + data[b + 1 :] if b > a else data

    def insert(self, data: bytes, other: bytes) -> bytes:
        at = self._place(data)
        return data[:at] + self.random.randbytes(self.random.choice((1, 2, 5))) + data[at:]
