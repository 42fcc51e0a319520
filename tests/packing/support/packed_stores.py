"""Small stores as a packing job leaves them: every shard tells the inputs of its samples, and the store its job.

    path = write_packed(tmp_path / "x.cordwood", [("cats/1.jpg", 1), ("cats/2.jpg", 0), ("dogs/1.jpg", 2)])

Sample number n of input "cats/1.jpg" is ``{"pixels": ..., "name": "cats/1.jpg", "number": n}``.
"""

import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import cordwood as cw
from cordwood.packing.journal import inputs as inputfiles
from cordwood.packing.journal import job_file as job
from cordwood.packing.journal.inputs import InputEntry, Lines, Position, Totals
from cordwood.packing.journal.job_file import JobFile
from cordwood.store.format import shard_index

Inputs = Sequence[tuple[str | None, int]]  # name, and number of samples, -1 if it failed
JOB = JobFile({"kind": "images", "path": "/photos"}, "f00d", {"name": "m.f", "hash": "1", "version": None}, {"seed": 0})


def sample(name: str, number: int) -> dict[str, Any]:
    """What the input of that name becomes."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"{name} {number}".encode()))
    return {"pixels": torch.randint(0, 256, (60,), generator=generator), "name": name, "number": number}


def named(names: Sequence[str], samples: int = 1) -> Inputs:
    """Inputs of so many samples each."""
    return [(name, samples) for name in names]


def size_of(name: str) -> int:
    return 1000 + len(name)


def write_packed(
    path: Path, inputs: Inputs, *, start: int = 0, packed: JobFile | None = JOB, shard_bytes: int = 80, **options: Any
) -> Path:
    """A store of these inputs, the first of which has the number `start` in its source."""
    with cw.Writer(path, shard_bytes=shard_bytes, **options) as writer:
        for number, (name, count) in enumerate(inputs):
            for each in range(count):
                writer.append(sample(name or str(start + number), each))
    totals = write_inputs(path, inputs, start)
    if packed is not None:
        job.write(path, replace(packed, complete=True, totals=totals))
    return path


def write_inputs(path: Path, inputs: Inputs, start: int = 0) -> Totals:
    """Tell the inputs of each shard; those without samples belong to the shard before them."""
    counts = shard_index.read(path).records["count"].tolist()
    totals, lines = Totals(), Lines()
    first = place = Position(start)
    shard, here = 0, 0

    def end_shard() -> None:
        nonlocal first, shard, here
        inputfiles.write(path, shard, first, place, totals, lines.text())
        first, shard, here = place, shard + 1, 0
        lines.clear()

    for number, (name, count) in enumerate(inputs, start):
        size = None if name is None else size_of(name)
        left = max(count, 0)
        while left:
            if here == counts[shard]:
                end_shard()
            took = min(left, counts[shard] - here)
            here, left = here + took, left - took
            totals.samples += took
            place = Position(number, count - left)
            lines.add(InputEntry(name, size, 7, took))
        if count <= 0:
            lines.add(InputEntry(name, size, 7, count))
        place = Position(number + 1)
        totals.inputs += 1
        totals.dropped += count == 0
        totals.failed += count < 0
        totals.bytes_in += size or 0
    if counts:
        end_shard()
    return totals


def entries_of(path: Path) -> list[InputEntry]:
    """All that a store tells of its inputs."""
    shards = len(shard_index.read(path).records)
    return [entry for shard in range(shards) for entry in inputfiles.read(path, shard).entries()]


def assert_samples(path: Path, inputs: Inputs) -> None:
    """Fail unless the store holds just the samples of these inputs, in their order."""
    dataset = cw.open(path)
    expected = [(name, each) for name, count in inputs for each in range(max(count, 0))]
    found = [dataset[index] for index in range(len(dataset))]
    assert [(one["name"], one["number"]) for one in found] == expected
    for one, (name, each) in zip(found, expected, strict=True):
        assert torch.equal(one["pixels"], sample(str(name), each)["pixels"])
