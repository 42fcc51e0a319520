"""What the golden tensor files hold, by formula: the same everywhere and for ever."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from cordwood.codecs import Goal
from tests.golden.arrays import hills, mixed

Dtypes = dict[str, torch.Tensor]


@dataclass(frozen=True)
class GoldenObject:
    """An object, made anew at each call, and the goal it was written with."""

    make: Callable[[], Any]
    goal: Goal = "balanced"
    trusted: bool = False  # holds what torch.load, too, refuses with weights_only=True


def bits(dtype: torch.dtype, count: int) -> torch.Tensor:
    """Any bits, as items of a dtype."""
    raw = mixed(count * dtype.itemsize).astype(np.uint8)
    if dtype == torch.bool:
        raw &= 1
    return torch.from_numpy(raw).view(dtype)


def example() -> Any:
    w = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return {"w": w, "row": w[1:3]}


def image() -> torch.Tensor:
    """16 by 16 smooth bytes."""
    return torch.from_numpy(hills(16, 16).astype(np.uint8))


def frames() -> Any:
    normalised = (image().float() / 255 - 0.5) / 0.25
    labels = torch.from_numpy((mixed(200) % np.uint64(10)).astype(np.int64))
    return {"labels": labels, "image": image(), "normalised": normalised[:8], "half": normalised[8:].bfloat16()}


def shared() -> Any:
    """Views that overlap, tied tensors, rows that adjoin, and much that nobody sees."""
    matrix = torch.from_numpy(mixed(40 * 30).astype(np.int32)).reshape(40, 30)
    rows, columns = matrix[2:6, :8], matrix[4:8, 4:12]
    return {"rows": rows, "columns": columns, "tied": rows, "also": matrix[2:6, :8], "apart": matrix[20]}


def mixed_dtypes() -> Any:
    """One memory under three dtypes; and two views with padding between them."""
    floats = torch.tensor([0.5, -2.0, 8.0, 1e9])
    whole = torch.arange(64, dtype=torch.uint8)
    return {
        "floats": floats, "bits": floats.view(torch.int32), "bytes": floats.view(torch.uint8)[5:9],
        "three": whole[:3], "doubles": whole[32:48].view(torch.float64),
    }  # fmt: skip


def shapes() -> Any:
    image = torch.arange(2 * 3 * 4 * 5, dtype=torch.int16).reshape(2, 3, 4, 5)
    return {
        "scalar": torch.tensor(2.5, dtype=torch.float64), "empty": torch.zeros(0, 3), "hollow": image[:, :0],
        "expanded": torch.tensor([7]).expand(3, 1000), "channels_last": image.to(memory_format=torch.channels_last),
        "transposed": image[0, 0].t(), "windows": torch.arange(6).unfold(0, 3, 1),
    }  # fmt: skip


def kinds() -> Any:
    parameter = torch.nn.Parameter(torch.tensor([1.5, -1.5]))
    noted = torch.tensor([3.0, 4.0])
    noted.note = "kept"  # type: ignore[attr-defined]
    small = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    return [
        parameter,
        {"again": parameter, "frozen": torch.nn.Parameter(torch.ones(2, dtype=torch.float16), requires_grad=False)},
        torch.zeros(1, requires_grad=True),
        noted,
        torch.tensor([1 + 2j]).conj(),
        torch._neg_view(torch.tensor([1.0])),
        small.to_sparse_coo(),
    ]


def parts() -> Any:
    """Tensors that are made of others, or of integers and what they stand for."""
    small = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    scales, zero_points = torch.tensor([0.5, 0.25], dtype=torch.float64), torch.tensor([0, 1])
    return [
        torch.quantize_per_tensor(small, 0.1, 3, torch.quint8),
        torch.quantize_per_channel(small, scales, zero_points, 0, torch.qint8),
        torch.empty(2, 3, device="meta"),
        torch.arange(4, dtype=torch.int16)._typed_storage(),
    ]


def containers() -> Any:
    ordered = OrderedDict([("b", 1), ("a", None)])
    ordered.note = [True]  # type: ignore[attr-defined]
    itself: list[Any] = [1]
    itself.append(itself)
    return {
        "text": "Füße 🪵", "bytes": b"\x00\xff", "array": bytearray(b"ab"), 7: -(2**31) - 1, (1, "two"): 2**80,
        "set": {1, 2}, "numbers": [0, 255, 256, 65536, -1, 0.1, float("-inf"), 1 - 2j], "itself": itself,
        "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)), "ordered": ordered, "count": Counter("abba"),
        "device": torch.device("cuda", 1), "dtype": torch.bfloat16,
    }  # fmt: skip


def more_containers() -> Any:
    around: list[Any] = []
    around.append((around, frozenset(["x"]), b""))
    return around


# Typed storages have these, and not those.
_INTEGERS = "bool uint8 int8 int16 int32 int64"
_FLOATS = "float16 bfloat16 float32 float64 complex64 complex128"
_NEW = (
    "uint16 uint32 uint64 complex32 float8_e4m3fn float8_e5m2 float8_e4m3fnuz float8_e5m2fnuz float8_e8m0fnu "
    "float4_e2m1fn_x2"
)


def dtypes(names: str) -> Dtypes:
    return {name: bits(getattr(torch, name), 3) for name in names.split()}


GOLDEN: dict[str, GoldenObject] = {
    "example": GoldenObject(example, "raw"),
    "frames-small": GoldenObject(frames, "small"),
    "frames-balanced": GoldenObject(frames),
    "frames-fast": GoldenObject(frames, "fast"),
    "shared": GoldenObject(shared),
    "mixed-dtypes": GoldenObject(mixed_dtypes),
    "shapes": GoldenObject(shapes),
    "kinds": GoldenObject(kinds),
    "parts": GoldenObject(parts),
    "containers": GoldenObject(containers),
    "more-containers": GoldenObject(more_containers, trusted=True),
    "dtypes-integers": GoldenObject(lambda: dtypes(_INTEGERS)),
    "dtypes-floats": GoldenObject(lambda: dtypes(_FLOATS)),
    "dtypes-new": GoldenObject(lambda: dtypes(_NEW)),
}
