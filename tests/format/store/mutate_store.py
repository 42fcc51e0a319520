"""Damage to stores, also such that it gets past the checksums: what is behind them must hold as well.

>>> what, folder = StoreMutator(seed=1).mutate()

The stores are small ones put together by hand: a part of one is damaged, then it is sealed again with right checksums,
or, now and then, not.
"""

import json
import random
from dataclasses import replace

from tests.format.store.bad_stores import bad_values
from tests.format.store.craft_store import (
    ANY_VALUE,
    ROWS,
    CraftedStore,
    Folder,
    body,
    byte_frame,
    canonical,
    good_store,
    one_shard,
    resealed,
)
from tests.format.support.mutate import Mutator

# What may stand in a body, and in a value of any kind.
WORDS = (
    b"null",
    b"true",
    b"-1",
    b"0",
    b"[]",
    b"{}",
    b'""',
    b'"any"',
    b'"none"',
    b'"kind"',
    b'"uint8"',
    b'"!x"',
    b"1.5",
)
VALUES = [
    ANY_VALUE,
    b"\x0a\x02\x06\x01a\x09\x02\x00\x01\x03\x02\xff\x7f\x04" + bytes(8),
    b"\x0c\x05Point\x02\x01x\x01y\x0d\x0b\x02\x01\x02" + bytes(8) + b"\x0f\x08" + bytes(8),
    b"\x0b\x01\x09\x02\x02\x07\x01a\x05" + bytes(16),
] * 3 + list(bad_values().values())


class StoreMutator:
    """The same seed gives the same damage."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.bytes = Mutator(seed)
        self.good = good_store()

    def mutate(self) -> tuple[str, Folder]:
        """What was damaged, and the store."""
        ways = {
            "unsealed": self.unsealed,
            "shard": self.shard,
            "index": self.index,
            "body": self.body,
            "value": self.value,
        }
        what = self.random.choice(list(ways))
        return what, ways[what]()

    def damage(self, data: bytes) -> bytes:
        return self.bytes.damage(data, self.random.choice(list(self.good.values())))

    def unsealed(self) -> Folder:
        """Bytes of any file, and checksums left as they were."""
        name = self.random.choice(list(self.good))
        return self.good | {name: self.damage(self.good[name])}

    def shard(self) -> Folder:
        """Rows, offsets and sizes of a shard; frames are seldom hit, since their own checksums are not made right."""
        name = self.random.choice([name for name in self.good if name.startswith("shard-")])
        data = self.good[name]
        parts = [(0, 28), (len(data) - 48, len(data) - 4)]
        parts += [(int.from_bytes(data[-48:-40], "little"), len(data) - 48)] * 4
        start, end = self.random.choice(parts)
        damaged = data[:start] + self.damage(data[start:end]) + data[end:]
        if self.random.random() < 0.9:  # of the same size, or nothing is where it should be
            damaged = data[:start] + damaged[start : start + end - start].ljust(end - start, b"\0") + data[end:]
        return resealed(self.good | {name: damaged}, frames=self.random.choice((0, 3)))

    def index(self) -> Folder:
        """The index, with some shards taken away or exchanged."""
        made = self.good | {"shards.bin": self.damage(self.good["shards.bin"])}
        shards = [name for name in made if name.startswith("shard-")]
        pick = self.random.random()
        if pick < 0.2:
            del made[self.random.choice(shards)]
        elif pick < 0.4:
            made[shards[0]], made[shards[1]] = made[shards[1]], made[shards[0]]
        return made

    def body(self) -> Folder:
        """Another schema, or other fields; without shards, which would not fit."""
        text = canonical(body())
        for _ in range(self.random.choice((1, 1, 2, 3))):
            at = self.random.randrange(len(text) + 1)
            if self.random.random() < 0.5:
                end = at + self.random.choice((1, 4, 8))
                text = text[:at] + self.random.choice(WORDS) + text[end:]
            else:
                text = self.damage(text)
        try:
            return CraftedStore(json.loads(text), []).folder()
        except (ValueError, RecursionError, TypeError):
            return {"store.json": b'{"cordwood_store":[1,0],"crc32c":"00000000","body":' + text + b"}"}

    def value(self) -> Folder:
        """A text, or a value of any kind."""
        text = self.random.choice((b"one", "äöü 🪵".encode(), b"\xed\xa0\x80"))
        value = self.random.choice(VALUES)
        if self.random.random() < 0.2:
            text = self.damage(text)
        else:
            value = self.damage(value)
        return one_shard(replace(ROWS[0], frames=[ROWS[0].frames[0], byte_frame(text), byte_frame(value)]))
