"""What the golden stores hold, by formula: the same everywhere and for ever."""

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from cordwood.store.schema.field import Field
from tests.golden.arrays import hills, mixed
from tests.golden.tensors.objects import bits, dtypes

Point = namedtuple("Point", "x y")
Renamed = namedtuple("Renamed", ["a", "a"], rename=True)


@dataclass(frozen=True)
class GoldenStore:
    """Samples, made anew at each call, and how they were written."""

    make: Callable[[], list[Any]]
    goal: str = "balanced"
    shard_bytes: int = 64 << 20
    fields: dict[str, Field] = field(default_factory=dict)
    is_older: bool = False  # written by an earlier version: read for ever, and not written any more


def example() -> list[Any]:
    return [{"x": torch.tensor([1.0, 2.0]), "label": 7}, {"x": torch.tensor([0.5])}]


def older_example() -> list[Any]:
    return [{"x": torch.tensor([1.0, 2.0]), "label": 7}, {"x": torch.tensor([[0.5]])}]


def leaves() -> list[Any]:
    """Every kind of leaf, in every kind of container."""
    return [
        {
            "tensor": torch.arange(6, dtype=torch.int16).reshape(2, 3) + i,
            "array": np.arange(4, dtype=np.float64) / (i + 1),
            "text": "Füße 🪵 \ud800" * i,
            "bytes": bytes(range(i)),
            "any": [None, {"i": i}][i % 2],
            "numbers": OrderedDict(int=i - 1, float=-0.0 if i else float("inf"), bool=bool(i), complex=complex(i, -2)),
            "numpy": (np.float32(i / 3), np.bool_(i), np.uint64(2**64 - 1 - i)),
            "alone": [torch.tensor(i, dtype=torch.bfloat16), np.array(i, np.int8), torch.tensor(1j * i), np.zeros(2)],
            "named": Point(torch.ones(i), Renamed(i, None)),
            3: None,
            "nothing": {"dict": {}, "tuple": (), "list": [], "ordered": OrderedDict()},
        }
        for i in range(3)
    ]


def optional() -> list[Any]:
    """Everything may be absent or None."""
    tensor, inner = torch.tensor([1, 2]), {"b": 5, "c": "text"}
    return [
        {"t": tensor, "d": inner, "l": (1, tensor)},
        {},
        {"t": None, "d": None, "l": None},
        {"d": {"b": None}, "l": (None, tensor)},
        {"t": tensor, "d": {}, "l": (2, None)},
    ]


def shapes() -> list[Any]:
    sizes = [(), (0,), (3,), (2, 0, 4), (1, 2, 3, 4), (5, 1)]
    return [
        {"t": torch.from_numpy(mixed(int(np.prod(size))).astype(np.int32)).reshape(size), "a": hills(i, 3)}
        for i, size in enumerate(sizes)
    ]


def image(number: int) -> torch.Tensor:
    """12 by 12 smooth bytes in three channels."""
    return torch.from_numpy(np.stack([hills(12, 12) + 7 * channel + number for channel in range(3)]).astype(np.uint8))


def labelled() -> list[Any]:
    """Images as a training job wants them, with palettes that a plan can own."""
    shifted = [(image(i).float() / 255 - 0.45) / 0.22 for i in range(6)]
    odd = torch.tensor([0.1, 0.7, 1e-3, -2.5, 7.25, 9.0, -1.0, 3.5])
    codes = [torch.from_numpy((mixed(64) % np.uint64(8)).astype(np.int64)).roll(i) for i in range(6)]
    return [(shifted[i], odd[codes[i]], i % 3) for i in range(6)]


def lossy() -> list[Any]:
    values = (torch.arange(20, dtype=torch.float64) - 10) * 0.3
    return [
        {
            "half": (values * i).float(),
            "brain": values + i,
            "single": (values / (i + 1)).numpy(),
            "whole": values.float(),
        }
        for i in range(2)
    ]


def anything() -> list[Any]:
    point = Point(1, "two")
    return [
        -(2**200),
        [0, 127, 128, -128, -129, 2**63, 0.1, float("-inf"), 1 - 2j, True, False, None],
        {None: 1, 2: 3, 2.5: (), "a": [], b"b": {}, (1, ("x",)): OrderedDict(z=1, a=2)},
        [point, Renamed(point, 2), "Füße \udcff", b"\x00\xff"],
        dtypes("bool int8 uint64 float16 bfloat16 complex64 complex32 float8_e4m3fn"),
        [
            torch.zeros(2, 0),
            torch.tensor(5),
            np.arange(3, dtype=np.uint16),
            np.array(2.5),
            np.float16(0.5),
            np.int64(-1),
        ],
        (),
        [[1, -2, 3, 4], [300, 1, 2, 3], [1, 2, 3, -(2**31)], [0, 1, 2, 2**63 - 1], [0.5, -0.0, 1e300, float("inf")]],
    ]


_DTYPES = (
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 bfloat16 float32 float64 complex64 complex128 "
    "complex32 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu float4_e2m1fn_x2"
)


def all_dtypes() -> list[Any]:
    """A frame and a column of each."""
    names = _DTYPES.split()
    return [
        {
            "frames": {name: bits(getattr(torch, name), 3 + i) for name in names},
            "columns": {name: bits(getattr(torch, name), 1 + i)[i] for name in names[::3]},
        }
        for i in range(2)
    ]


def columns() -> list[Any]:
    """Small arrays of one shape but for one, and texts that a dictionary makes smaller."""
    return [
        {
            "box": torch.arange(4 if i != 30 else 9, dtype=torch.float32) / (i + 1),
            "id": i * i,
            "text": f"images/train/n{i % 7:08d}/n{i % 7:08d}_{i * 37 % 1000}.JPEG",
        }
        for i in range(64)
    ]


def kinds() -> list[Any]:
    """Arrays of several kinds, each with another chain of one menu: smooth, constant, noise, few values."""
    smooth = [image(i).numpy() for i in range(8)]
    noise = [(mixed(432 * (i + 1))[-432:] % np.uint64(256)).astype(np.uint8).reshape(3, 12, 12) for i in range(8)]
    flat = [np.full((3, 12, 12), i, np.uint8) for i in range(8)]
    blocks = [np.repeat(np.repeat(one[:, ::6, ::6], 6, 1), 6, 2) for one in smooth]
    return [np.ascontiguousarray(one) for four in zip(smooth, flat, noise, blocks, strict=True) for one in four]


GOLDEN: dict[str, GoldenStore] = {
    "example": GoldenStore(example, "raw"),
    "leaves": GoldenStore(leaves),
    "optional": GoldenStore(optional),
    "shapes": GoldenStore(shapes, "fast"),
    "dtypes": GoldenStore(all_dtypes),
    "labelled-small": GoldenStore(labelled, "small", 256, {"2": Field(classes=["cat", "dog", "newt"])}),
    "labelled-balanced": GoldenStore(labelled, shard_bytes=1024, fields={"1": Field(goal="small")}),
    "lossy": GoldenStore(
        lossy,
        fields={
            "half": Field(store_as="float16"),
            "brain": Field(store_as="bfloat16"),
            "single": Field(store_as="float32", goal="raw"),
        },
    ),
    "any": GoldenStore(anything, shard_bytes=100),
    "texts": GoldenStore(lambda: [f"line {i} of the text" for i in range(5)], "small"),
    "empty": GoldenStore(list),
    # Records and rows in columns: arrays of one shape, one that lies apart, and texts of a dictionary.
    "columns": GoldenStore(columns, shard_bytes=4096),
    "mixed": GoldenStore(kinds),
    # Of before `optional` was recorded.
    "older-example": GoldenStore(older_example, "raw", is_older=True),
    "older-leaves": GoldenStore(leaves, is_older=True),
    "older-optional": GoldenStore(optional, is_older=True),
    # Of version 1, before menus and short frames.
    "v1-example": GoldenStore(older_example, "raw", is_older=True),
    "v1-leaves": GoldenStore(leaves, is_older=True),
    "v1-optional": GoldenStore(optional, is_older=True),
    "v1-dtypes": GoldenStore(all_dtypes, is_older=True),
    "v1-labelled-small": GoldenStore(labelled, "small", is_older=True),
    "v1-lossy": GoldenStore(lossy, is_older=True),
    "v1-texts": GoldenStore(lambda: [f"line {i} of the text" for i in range(5)], "small", is_older=True),
}
