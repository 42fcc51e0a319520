"""Shards one after the other: where one ends, when it takes its place, and what happens around that."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cordwood import codecs
from cordwood.errors import StorageError
from cordwood.store.format import shard_index
from cordwood.store.format.manifest import FieldEntry, Manifest
from cordwood.store.format.shard_file import shard_name
from cordwood.store.schema.schema import Schema
from cordwood.store.writing.encode import Chunk, Encoded, encode
from cordwood.store.writing.first_samples import FixedSchema
from cordwood.store.writing.infer import infer
from cordwood.store.writing.open_shard import ResumedShard, ShardSequence
from cordwood.store.writing.prepare import Preparer

COUNT = 20


def encoded() -> tuple[Schema, Encoded]:
    samples = [{"values": np.arange(30) + number} for number in range(COUNT)]
    schema = infer(samples)
    preparer, chunk = Preparer(schema), Chunk(len(schema.frames))
    for sample in samples:
        chunk.add(*preparer.prepare(sample))
    encoded = encode(chunk, fixed_of(schema).plans, 1)
    encoded.plans = fixed_of(schema).plan_names
    return schema, encoded


def fixed_of(schema: Schema) -> FixedSchema:
    plans = [codecs.plan([np.zeros(1, leaf.stored)], "raw") for leaf in schema.frames]
    return FixedSchema(Manifest(schema, (FieldEntry("values", "raw"),), "raw", 1000), plans)


def sequence(store: Path, schema: Schema) -> ShardSequence:
    shard_index.mend(store, shard_index.read(store))
    return ShardSequence(store, fixed_of(schema), 0, 0)


def write(shards: ShardSequence, samples: Encoded) -> list[int]:
    """Write samples, and commit full shards; the numbers behind each piece."""
    done, ends = 0, []
    while done < len(samples):
        done = shards.add(samples, done)
        ends.append(done)
        if shards.open is not None and shards.open.is_full:
            shards.commit()
    return ends


def shards_of(store: Path) -> list[str]:
    return sorted(path.name for path in store.glob("shard-*.cws"))


def counts_of(store: Path) -> list[int]:
    counts: list[int] = shard_index.read(store).records["count"].tolist()
    return counts


def test_shards_end_with_the_sample_that_makes_them_full(tmp_path: Path) -> None:
    schema, samples = encoded()
    shards = sequence(tmp_path, schema)
    ends = write(shards, samples)
    shards.finish()
    shards.stop()
    counts = counts_of(tmp_path)
    assert np.cumsum(counts).tolist() == ends
    assert len(set(counts[:-1])) == 1
    assert len(counts) > 3
    assert (shards.committed, shards_of(tmp_path)) == (COUNT, [shard_name(number) for number in range(len(counts))])


def test_samples_one_by_one_make_the_same_shards(tmp_path: Path) -> None:
    schema, samples = encoded()
    found = []
    for step in (COUNT, 1):
        store = tmp_path / str(step)
        store.mkdir()
        shards = sequence(store, schema)
        for first in range(0, COUNT, step):
            write(shards, samples.part(first, first + step))
        shards.finish()
        shards.stop()
        found.append({path.name: path.read_bytes() for path in store.iterdir()})
    assert found[0] == found[1]


def test_a_shard_takes_its_place_within_the_context_it_is_committed_with(tmp_path: Path) -> None:
    schema, samples = encoded()
    told: list[Any] = []

    @contextmanager
    def ending(number: int) -> Iterator[None]:
        told.append(("before", number, shard_name(number) in shards_of(tmp_path)))
        yield
        told.append(("after", number, shard_name(number) in shards_of(tmp_path)))

    shards = sequence(tmp_path, schema)
    done = shards.add(samples, 0)
    assert shards.open is not None
    assert shards.open.is_full
    shards.commit(ending(0))
    shards.add(samples.part(done, done + 1), 0)
    shards.commit(ending(1))
    shards.finish()
    shards.stop()
    assert told == [("before", 0, False), ("after", 0, True), ("before", 1, False), ("after", 1, True)]
    assert counts_of(tmp_path) == [done, 1]


def test_what_is_not_finished_stays_aside_and_is_gone_on_with(tmp_path: Path) -> None:
    schema, samples = encoded()
    aside = tmp_path / ".unfinished"
    shards = sequence(tmp_path, schema)
    shards.begin(ResumedShard(aside))
    assert shards.add(samples.part(0, 2), 0) == 2
    assert shards.open is not None
    rows, statistics = shards.open.sync()
    assert shards.add(samples.part(2, 3), 0) == 1
    shards.stop()
    assert shards_of(tmp_path) == []
    assert aside.exists()
    shards = sequence(tmp_path, schema)
    assert shards.begin(ResumedShard(aside, rows, statistics)).count == 2
    shards.add(samples.part(2, 3), 0)
    shards.finish()
    shards.stop()
    assert not aside.exists()
    at_once = tmp_path / "at once"
    at_once.mkdir()
    shards = sequence(at_once, schema)
    shards.add(samples.part(0, 3), 0)
    shards.finish()
    shards.stop()
    assert (at_once / shard_name(0)).read_bytes() == (tmp_path / shard_name(0)).read_bytes()


def test_a_shard_that_could_not_take_its_place_is_told_with_the_next_one(tmp_path: Path) -> None:
    schema, samples = encoded()
    (tmp_path / shard_name(0)).mkdir()
    (tmp_path / shard_name(0) / "in the way").touch()
    shards = ShardSequence(tmp_path, fixed_of(schema), 0, 0)
    shards.begin(ResumedShard(tmp_path / ".0"))
    done = shards.add(samples, 0)
    shards.commit()
    shards.begin(ResumedShard(tmp_path / ".1"))
    shards.add(samples, done)
    with pytest.raises(StorageError):
        shards.commit()
    shards.stop()
    assert shards.committed == 0
