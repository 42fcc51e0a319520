"""Small stores with every kind of field in several shards, and ways to damage them.

::

    path = write_store(tmp_path / "x.cordwood")
    flip(path / "shard-00000001.cws", frame_of(path, 1, row=0, field="image") + 40)
"""

from collections import namedtuple
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cordwood as cw
from cordwood.store.format.manifest import read as read_manifest
from cordwood.store.format.rows import RowLayout
from cordwood.store.format.shard_file import ShardEnds, read_ends, shard_name
from cordwood.store.format.shard_table import ShardTable
from tests.store.support.samples import assert_same_sample

Point = namedtuple("Point", ["x", "y"])
FIELDS = {"features": cw.Field(store_as="float16"), "label": cw.Field(classes=["cat", "dog", "bird"])}


def sample(number: int) -> dict[str, Any]:
    """A sample that is known by its number; every third lacks its note, every fourth has None there.

    The frame of its image is larger than what the row's checksum covers, those of its other fields are not.
    """
    draw = np.random.default_rng(number)
    made: dict[str, Any] = {
        "image": torch.from_numpy(draw.integers(0, 256, (3, 24, 18 + number % 3), np.uint8)),
        "features": torch.arange(4.0) * number / 7,
        "label": number % 3,
        "at": Point(number / 2, np.int16(-number)),
        "meta": {"path": f"{number}.jpg", "tags": ["a", number][: number % 3]},
    }
    if number % 3:
        made["note"] = None if number % 4 == 0 else f"note {number}".encode()
    return made


def write_store(path: Path, count: int = 24, shard_bytes: int = 6000, **options: Any) -> Path:
    """A store of so many samples, some in a shard."""
    with cw.Writer(path, shard_bytes=shard_bytes, fields=FIELDS, **options) as writer:
        for number in range(count):
            writer.append(sample(number))
    return path


def write_planned(path: Path, count: int) -> Path:
    """A store whose frames all need what their plan owns: the hundred values that their floats have."""
    draw = np.random.default_rng(0)
    palette = draw.standard_normal(100).astype(np.float32)
    with cw.Writer(path) as writer:
        for number in range(count):
            writer.append({"codes": palette[draw.integers(0, 100, 500)], "number": number})
    return path


def assert_holds(path: Path, numbers: list[int]) -> None:
    """Fail unless the store holds just these samples."""
    dataset = cw.open(path)
    assert len(dataset) == len(numbers)
    for index, number in enumerate(numbers):
        expected = sample(number)
        expected["features"] = expected["features"].to(torch.float16).to(torch.float32)
        assert_same_sample(dataset[index], expected)


def files_of(path: Path) -> dict[str, bytes]:
    """All files of a store but the lock."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }


def put_back(path: Path, files: Mapping[str, bytes]) -> None:
    """Make the folder hold just these files again."""
    for file in [file for file in path.rglob("*") if file.is_file() or file.is_fifo()]:
        if str(file.relative_to(path)) not in files:
            file.unlink()
    for name, data in files.items():
        (path / name).write_bytes(data)


def flip(path: Path, at: int, bit: int = 0) -> None:
    """Change one bit of a file; negative places count from its end."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.write_bytes(data)


def cut(path: Path, size: int) -> None:
    """Keep the beginning of a file; a negative size is what is cut off."""
    path.write_bytes(path.read_bytes()[:size])


def shard(path: Path, number: int) -> Path:
    return path / shard_name(number)


def ends_of(path: Path, number: int) -> ShardEnds:
    return read_ends(shard(path, number))


def first_of(path: Path, number: int) -> int:
    """The number of a shard's first sample."""
    return sum(ends_of(path, before).count for before in range(number))


def rows_of(path: Path, number: int) -> Any:
    """The rows of a shard."""
    schema = read_manifest(path).schema
    assert schema is not None
    layout = RowLayout(schema)
    with shard(path, number).open("rb") as file:
        ends = read_ends(shard(path, number))
        table = ShardTable.read(file.fileno(), str(path), ends, layout)
        rows, _ = table.read_rows(file.fileno(), ends.file_size, ends.rows_offset, ends.count, layout)
    return rows


def frame_of(path: Path, number: int, row: int, field: str) -> range:
    """Where in its shard a frame lies."""
    schema = read_manifest(path).schema
    assert schema is not None
    offsets = rows_of(path, number)["offsets"][row]
    frame = schema.leaf(field).frame
    return range(int(offsets[frame]), int(offsets[frame + 1]))


def row_of(path: Path, number: int, row: int) -> range:
    """Where in its shard a row lies."""
    ends = ends_of(path, number)
    return range(ends.rows_offset + row * ends.row_size, ends.rows_offset + (row + 1) * ends.row_size)
