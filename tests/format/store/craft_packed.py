"""Shards of version 2 and their plans put together by hand, from the format's page alone.

>>> packed_shard(header, [PackedLeaf(1, plan=name)], [PackedRow([short])])
"""

import base64
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.format.store.craft_store import Json, blake, canonical, shard_header, tag_of
from tests.format.support.craft import crc32c
from tests.format.support.craft_short import Chain, ShortPlan


@dataclass(frozen=True)
class PackedLeaf:
    """What the table says of a frame leaf."""

    width: int = 2
    covered: bool = False
    plan: str = "0" * 16
    flags: int | None = None

    def packed(self) -> bytes:
        flags = int(self.covered) if self.flags is None else self.flags
        return struct.pack("<BBQ", self.width, flags, int(self.plan, 16))


@dataclass(frozen=True)
class PackedRow:
    """What a sample is made of; `tags` are those of the frames that are not covered unless given."""

    frames: Sequence[bytes] = ()
    columns: bytes = b""
    states: Sequence[int] = ()
    tags: Sequence[int] | None = None
    sizes: Sequence[int] | None = None
    apart: Sequence[bytes] = ()

    def packed(self, number: int, start: bytes, leaves: Sequence[PackedLeaf]) -> bytes:
        """The row, where its first frame begins at `start`."""
        sizes = [len(frame) for frame in self.frames] if self.sizes is None else self.sizes
        covered = [frame for frame, leaf in zip(self.frames, leaves, strict=True) if leaf.covered]
        others = [frame for frame, leaf in zip(self.frames, leaves, strict=True) if not leaf.covered]
        tags = [short_tag(frame) for frame in others] if self.tags is None else self.tags
        row = start
        for size, leaf in zip(sizes, leaves, strict=True):
            row += size.to_bytes(leaf.width, "little")
        bits = sum(state << 2 * place for place, state in enumerate(self.states))
        row += np.array(tags, "<u4").tobytes() + self.columns + bits.to_bytes((len(self.states) + 3) // 4, "little")
        of_covered = b"".join(struct.pack("<I", crc32c(frame) if frame else 0) for frame in covered)
        return row + struct.pack("<I", crc32c(struct.pack("<Q", number) + of_covered + row))


def short_tag(frame: bytes) -> int:
    if not frame:
        return 0
    return tag_of(frame) if frame[0] == ord("C") else crc32c(frame)


def table(leaves: Sequence[PackedLeaf], start_width: int = 2, magic: bytes = b"CWST") -> bytes:
    """How rows are packed."""
    made = magic + bytes([start_width, 0, 0, 0]) + b"".join(leaf.packed() for leaf in leaves)
    return made + struct.pack("<I", crc32c(made))


def packed_shard(
    hash_: int,
    leaves: Sequence[PackedLeaf],
    rows: Sequence[PackedRow],
    start_width: int = 2,
    made_table: bytes | None = None,
) -> bytes:
    """A shard of these samples."""
    data, packed = shard_header(hash_, minor=1, flags=1), []
    for number, row in enumerate(rows):
        packed.append(row.packed(number, len(data).to_bytes(start_width, "little") if start_width else b"", leaves))
        data += b"".join((*row.frames, *row.apart))
    data += table(leaves, start_width) if made_table is None else made_table
    footer = canonical({"fields": [], "plans": []})
    all_rows, checksums = b"".join(packed), b"".join(row[-4:] for row in packed)
    size = len(data) + len(all_rows) + len(footer) + 48
    parts = (len(data), len(rows), len(packed[0]), len(footer), crc32c(footer), crc32c(checksums), size)
    trailer = struct.pack("<QQIIIIQ4s", *parts, b"CWSE")
    return data + all_rows + footer + trailer + struct.pack("<I", crc32c(trailer))


def plan_json(plan: ShortPlan, **changed: Any) -> Json:
    """A plan file of version 2, what is for writers included."""
    chains = [{"stages": [{"stage": "raw"}], **chain_json(chain)} for chain in plan.chains]
    return {
        "cordwood_plan": 2, "goal": "balanced", "dtype": plan.dtype, "shape": plan.shape, "chains": chains,
    } | changed  # fmt: skip


def chain_json(chain: Chain) -> Json:
    short = None if chain.template is None else chain.template.hex()
    return {"assets": base64.b64encode(chain.assets).decode(), "short": short}


def plan_file(made: Any) -> tuple[str, bytes]:
    """The name of a plan with this content, and the bytes of its file."""
    data = made if isinstance(made, bytes) else json.dumps(made, indent=1).encode()
    return blake(data).hex(), data
