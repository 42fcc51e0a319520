"""Stores whose samples tell their numbers, and what a loader gives of them.

ds = numbered(tmp_path / "s", 100)
batches_of(Loader(ds, batch_size=8))     # [[0, 1, ..., 7], [8, ...], ...]
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

import cordwood as cw
from cordwood import Loader
from tests.store.support.packed import pack


def sample(number: int, size: int = 16) -> dict[str, Any]:
    """All of its values follow from its number."""
    return {"values": torch.arange(size) + 1000 * number, "number": number}


def numbered(path: Path, count: int, size: int = 16, **options: Any) -> cw.Dataset:
    """A store of such samples, written and opened."""
    return pack(path, (sample(number, size) for number in range(count)), "raw", **options)


def numbers_in(batch: Any) -> list[int]:
    """The numbers of a batch's samples; fails if the rest of the batch is of others."""
    found: list[int] = batch["number"].tolist()
    values = batch["values"]
    assert torch.equal(values, torch.stack([sample(number, values.shape[1])["values"] for number in found]))
    return found


def batches_of(batches: Iterable[Any]) -> list[list[int]]:
    """The numbers of every batch."""
    return [numbers_in(batch) for batch in batches]


def numbers_of(batches: Iterable[Any]) -> list[int]:
    """The numbers of all samples, in the order in which they come."""
    return [number for batch in batches_of(batches) for number in batch]


def taken(loader: Loader, batches: int) -> tuple[list[int], dict[str, Any]]:
    """The samples of the next batches, and the state after them, by way of JSON."""
    iterator = iter(loader)
    found = [number for _ in range(batches) for number in numbers_in(next(iterator))]
    state: dict[str, Any] = json.loads(json.dumps(loader.state_dict()))
    return found, state
