"""Sources that are sorted: the store is as small as if they were shuffled, and a dry run says how large it will be."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import Generator

import cordwood as cw
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import pack
from tests.store.support.samples import assert_same_sample

COUNT, FEW = 1000, 300
Sample = dict[str, Any]


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made


def photo(draw: Generator, size: int = 32) -> Sample:
    y, x = np.mgrid[:size, :size]
    waves = sum(
        draw.uniform(5, 30, (3, 1, 1)) * np.sin(draw.uniform(0, 0.3) * x + draw.uniform(0, 0.3) * y) for _ in "abc"
    )
    return {"image": torch.from_numpy(np.clip(waves + draw.normal(120, 3, (3, size, size)), 0, 255).astype(np.uint8))}


def screen(draw: Generator) -> Sample:
    image = np.full((3, 32, 32), 250, np.uint8)
    for left, top, wide, high in draw.integers(1, 16, (8, 4)):
        image[:, top : top + high, left : left + wide] = draw.choice([0, 80, 160, 255], 3)[:, None, None]
    return {"image": torch.from_numpy(image)}


def mask(draw: Generator) -> Sample:
    cells = draw.integers(0, 9, (8, 8), dtype=np.uint8) * 17
    return {"mask": torch.from_numpy(cells.repeat(4, 0).repeat(4, 1))}


def ids(draw: Generator, most: int, count: int = 64) -> Sample:
    return {"ids": torch.from_numpy(draw.integers(0, most, count))}


def noise(draw: Generator) -> Sample:
    return {"image": torch.from_numpy(draw.integers(0, 256, (3, 32, 32), dtype=np.uint8))}


def text(draw: Generator) -> Sample:
    number = int(draw.integers(9999))
    return {"text": f'{{"id": {number}, "user": "u{number % 37}", "tags": ["a", "b"]}}'}


BLACK, EMPTY = torch.zeros(3, 32, 32, dtype=torch.uint8), torch.zeros(32, 32, dtype=torch.uint8)
Maker = Callable[[Generator], Sample]
CASES: dict[str, tuple[int, Maker, Maker]] = {
    "empty masks, full ones": (FEW, lambda _: {"mask": EMPTY}, mask),
    "empty bool masks, full ones": (FEW, lambda _: {"mask": EMPTY > 0}, lambda draw: {"mask": mask(draw)["mask"] > 60}),
    "black images, photos": (FEW, lambda _: {"image": BLACK}, photo),
    "noise, photos": (FEW, noise, photo),
    "padding, tokens": (FEW, lambda _: {"ids": torch.zeros(64, dtype=torch.int64)}, partial(ids, most=1 << 20)),
    "small ids, large ones": (FEW, partial(ids, most=50), partial(ids, most=1 << 20)),
    "one small image, photos": (1, partial(photo, size=4), photo),
    "screens, photos": (FEW, screen, photo),
    "short texts, long ones": (FEW, lambda draw: {"text": str(draw.integers(99))}, text),
}


def sorted_samples(case: str) -> list[Sample]:
    draw = np.random.default_rng(3)
    few, first, then = CASES[case]
    return [(first if number < few else then)(draw) for number in range(COUNT)]


@pytest.mark.parametrize("goal", ["balanced", "small"])
@pytest.mark.parametrize("case", CASES)
def test_the_order_costs_nothing_and_a_dry_run_is_right(folder: Path, case: str, goal: Any) -> None:
    samples = sorted_samples(case)
    packed = pack(samples, folder / "sorted", goal=goal)
    found = cw.pack(samples, folder / "s", goal=goal, workers=0, limit=200)
    assert isinstance(found, cw.Estimate)
    assert found.all_bytes is not None
    assert abs(found.all_bytes / packed.stored_bytes - 1) < 0.1
    mixed = random.Random(1).sample(samples, COUNT)
    assert packed.stored_bytes < 1.05 * pack(mixed, folder / "mixed", goal=goal).stored_bytes


@pytest.mark.parametrize("shard_bytes", [3_000, 7_000])
def test_a_dry_run_counts_what_each_shard_takes(folder: Path, shard_bytes: int) -> None:
    samples = sorted_samples("short texts, long ones")
    packed = pack(samples, folder / "s", shard_bytes=shard_bytes)
    found = cw.pack(samples, folder / "t", workers=0, limit=50, shard_bytes=shard_bytes)
    assert isinstance(found, cw.Estimate)
    assert found.all_bytes is not None
    assert packed.shards > 3
    assert abs(found.all_bytes / packed.stored_bytes - 1) < 0.1


class Growing:
    """A dataset that is known by what it is, not by how long it is."""

    def __init__(self, samples: list[Sample]) -> None:
        self.samples = samples

    def __reduce__(self) -> Any:
        return Growing, ([],)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int) -> Sample:
        return self.samples[number]


def plans_of(path: Path) -> set[str]:
    return {one.name for one in (path / "plans").iterdir()}


def test_an_update_keeps_the_plans_of_the_store(folder: Path) -> None:
    samples = sorted_samples("black images, photos")
    pack(Growing(samples[:FEW]), folder / "s", shard_bytes=30_000)
    before = plans_of(folder / "s")
    pack(Growing(samples), folder / "s", update=True, shard_bytes=30_000, accept_changed_transform=True)
    assert plans_of(folder / "s") == before
    assert cw.verify(folder / "s").ok
    for one, other in zip(cw.open(folder / "s"), samples, strict=True):
        assert_same_sample(other, one)


def test_a_merged_store_has_the_plans_of_both(folder: Path) -> None:
    samples = sorted_samples("small ids, large ones")
    pack(samples[:FEW], folder / "a", shard_bytes=10_000)
    pack(samples[FEW:], folder / "b", shard_bytes=10_000)
    assert plans_of(folder / "a").isdisjoint(plans_of(folder / "b"))
    cw.merge([folder / "a", folder / "b"], folder / "all")
    assert plans_of(folder / "all") == plans_of(folder / "a") | plans_of(folder / "b")
    assert cw.verify(folder / "all").ok
    for one, other in zip(cw.open(folder / "all"), samples, strict=True):
        assert_same_sample(other, one)
