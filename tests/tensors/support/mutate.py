"""Damage to tensor files, also such that it gets past the archive's checksums: what is behind them must hold as well.

>>> mutant = Mutator(seed=1).mutate(file)

A zip archive is now and then taken apart, one of its records damaged, and put together again with right sizes and
checksums. Small numbers, signs and lengths are what goes wrong most, so edges of them are put in often.
"""

import io
import random
import struct
import zipfile

from tests.tensors.support import craft

EDGES = [
    *(struct.pack("<B", n) for n in (0, 1, 2, 127, 128, 255)),
    *(struct.pack("<I", n) for n in (0, 1, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1)),
    *(struct.pack("<Q", n) for n in (0, 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1)),
    *(craft.integer(n) for n in (-1, 2**31, 2**40, 2**62, 2**63, -(2**63), 2**100)),
    *(
        b"0",
        b"1",
        b"2",
        b"(",
        b".",
        b")",
        b"]",
        b"}",
        b"\x85",
        b"\x86",
        b"t",
        b"R",
        b"Q",
        b"b",
        b"s",
        b"a",
        b"\x93",
        b"N",
    ),
    *(b"-1", b"0", b"1e9", b"null", b"true", b"[]", b"{}", b'"x"', b"99999999999999999999"),
    craft.get(0),
    craft.put(0),
]


class Mutator:
    """The same seed gives the same damage."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def mutate(self, file: bytes) -> bytes:
        if file[:2] == b"PK" and self.random.random() < 0.7:
            return self._inside(file)
        return self._bytes(file)

    def _inside(self, file: bytes) -> bytes:
        """An archive with damaged records, and right checksums."""
        try:
            with zipfile.ZipFile(io.BytesIO(file)) as archive:
                entries = {info.filename: archive.read(info) for info in archive.infolist()}
                deflated = any(info.compress_type for info in archive.infolist())
        except Exception:  # damaged before, and the library says so in many ways
            return self._bytes(file)
        if not entries:
            return self._bytes(file)
        names = list(entries)
        weights = [20 if name.endswith((".pkl", ".json")) else 1 for name in names]
        (name,) = self.random.choices(names, weights)
        pick = self.random.random()
        if pick < 0.05 and name != names[0]:
            del entries[name]
        elif pick < 0.1:
            other = self.random.choice(names)
            entries[name], entries[other] = entries[other], entries[name]
        elif entries[name][:2] == b"PK" and pick < 0.8:
            entries[name] = self.mutate(entries[name])
        else:
            entries[name] = self._bytes(entries[name])
        return craft.zipped(entries, deflated=deflated)

    def _bytes(self, data: bytes) -> bytes:
        made = bytearray(data)
        for _ in range(self.random.choice((1, 1, 1, 2, 3, 8))):
            at = self.random.randrange(len(made) + 1)
            match self.random.randrange(7):
                case 0:
                    made[at : at + 1] = bytes([self.random.randrange(256)])
                case 1 if at < len(made):
                    made[at] ^= 1 << self.random.randrange(8)
                case 2:
                    edge = self.random.choice(EDGES)
                    made[at : at + len(edge)] = edge
                case 3:
                    made[at:at] = self.random.choice(EDGES)
                case 4:
                    del made[at : at + self.random.choice((1, 1, 2, 4, 8, 40))]
                case 5:
                    length = self.random.choice((1, 4, 16, 60))
                    start = self.random.randrange(len(made) + 1)
                    made[at:at] = made[start : start + length]
                case 6 if self.random.random() < 0.3:
                    del made[at:]
        return bytes(made)
