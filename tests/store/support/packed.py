"""Stores for tests of the reading side.

ds = pack(tmp_path / "s", samples)                  # written and opened
ds = pack(tmp_path / "s", samples, shard_bytes=1)   # a shard a sample
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

import cordwood as cw
from cordwood.codecs import Goal
from tests.store.support.samples import assert_same_sample


def pack(path: Path, samples: Iterable[Any], goal: Goal = "fast", **options: Any) -> cw.Dataset:
    """Write a store and open it."""
    with cw.Writer(path, goal, **options) as writer:
        for sample in samples:
            writer.append(sample)
    return cw.open(path)


def images(count: int, shape: Sequence[int] = (3, 4, 5)) -> list[dict[str, Any]]:
    """Samples as a training job has them, no two alike."""
    made = torch.Generator().manual_seed(7)
    return [
        {
            "image": torch.randint(0, 255, tuple(shape), generator=made, dtype=torch.uint8),
            "label": number % 3,
            "meta": {"path": f"{number}.jpg", "size": (number, number / 2)},
        }
        for number in range(count)
    ]


def coded(count: int, size: int = 64) -> list[torch.Tensor]:
    """Tensors of eight values that no formula gives: with goal "small" a plan owns these, and frames name the plan."""
    made = torch.Generator().manual_seed(3)
    values = torch.rand(8, generator=made)
    return [values[torch.randint(0, 8, (size,), generator=made)] for _ in range(count)]


def assert_all_same(found: Iterable[Any], expected: Iterable[Any]) -> None:
    """As many samples, each the same."""
    for one, other in zip(found, expected, strict=True):
        assert_same_sample(one, other)
