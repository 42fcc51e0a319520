"""Whether samples are the same every time, told without touching the user's random numbers."""

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, Subset

from cordwood.doctor.measure.determinism import (
    digest,
    first_that_changes,
    is_kept_in_memory,
    random_numbers_kept,
    set_apart,
)


class Pair(NamedTuple):
    x: int
    y: int


class Samples(Dataset[Any]):
    def __init__(self, make: Callable[[int], Any]) -> None:
        self.make = make

    def __len__(self) -> int:
        return 10

    def __getitem__(self, number: int) -> Any:
        return self.make(number)


DIFFERENT = [
    1,
    1.0,
    True,
    None,
    "a",
    b"a",
    (1, 2),
    [1, 2],
    (1, (2,)),
    {"a": 1},
    {"b": 1},
    Pair(1, 2),
    torch.zeros(3),
    torch.zeros(3, dtype=torch.int32),
    torch.zeros(3, 1),
    torch.tensor([0.0, -0.0, 0.0]),
    torch.zeros(0),
    torch.zeros(()),
    np.zeros(3),
    np.zeros(3, np.float32),
    Image.new("RGB", (2, 3)),
    Image.new("RGB", (3, 2)),
    Image.new("L", (2, 3)),
    torch.eye(3).to_sparse(),
]


def test_different_things_have_different_digests() -> None:
    assert len({digest(found) for found in DIFFERENT}) == len(DIFFERENT)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.full((3,), float("nan")), torch.full((3,), float("nan"))),
        (torch.arange(6).reshape(2, 3).t(), torch.tensor([[0, 3], [1, 4], [2, 5]])),
        (torch.zeros(1, 3).expand(2, 3), torch.zeros(2, 3)),
        ({"a": [np.arange(3), "b"]}, {"a": [np.arange(3), "b"]}),
        (torch.tensor([1 + 2j]).conj(), torch.tensor([1 - 2j])),
        (torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.bfloat16)),
    ],
)
def test_the_same_bits_have_the_same_digest(one: Any, other: Any) -> None:
    assert digest(one) == digest(other)


def test_lists_pass_for_tuples_only_where_that_is_asked_for() -> None:
    assert digest([1, (2, 3)], lists_as_tuples=True) == digest((1, [2, 3]), lists_as_tuples=True)
    assert digest([1, 2]) != digest((1, 2))
    assert digest(Pair(1, 2), lists_as_tuples=True) != digest((1, 2), lists_as_tuples=True)


@pytest.mark.parametrize(
    "draw",
    [random.random, np.random.rand, lambda: torch.rand(1), np.random.default_rng, lambda: torch.randint(1000, (2,))],
    ids=["random", "numpy", "torch", "an object", "integers"],
)
def test_random_samples_are_noticed_whatever_they_are_drawn_from(draw: Callable[[], Any]) -> None:
    def make(number: int) -> Any:
        drawn = draw()
        return number, drawn.random() if isinstance(drawn, np.random.Generator) else drawn

    assert first_that_changes(Samples(make), [4, 7]) == 4


def test_the_first_number_that_changes_is_told() -> None:
    assert first_that_changes(Samples(lambda number: torch.rand(2) if number > 5 else number), [1, 5, 8]) == 8
    assert first_that_changes(Samples(lambda number: torch.full((2,), number)), range(10)) is None


def test_the_generators_of_the_process_are_put_back() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # type: ignore[index]
    first_that_changes(Samples(lambda number: (random.random(), np.random.rand(), torch.rand(1))), [1])
    with random_numbers_kept():
        random.seed(1)
        torch.manual_seed(1)
        np.random.seed(1)
    assert random.getstate() == before[0]
    assert np.random.get_state()[1].tolist() == before[1]  # type: ignore[index]
    assert torch.equal(torch.get_rng_state(), before[2])


def test_samples_that_are_only_handed_out_are_told_from_those_that_are_made() -> None:
    kept = torch.arange(30.0).reshape(10, 3)
    array = np.arange(30.0).reshape(10, 3)
    assert is_kept_in_memory(Samples(lambda number: (kept[number], 1)), 2)
    assert is_kept_in_memory(Samples(lambda number: {"x": array[number]}), 2)
    assert not is_kept_in_memory(Samples(lambda number: (kept[number] + 1, 1)), 2)
    assert not is_kept_in_memory(Samples(lambda number: (kept[number], kept[number] + 1)), 2)
    assert not is_kept_in_memory(Samples(lambda number: number), 2)


class Noisy:
    def __init__(self, generator: Any) -> None:
        self.generator = generator

    def __call__(self, number: int) -> Any:
        if isinstance(self.generator, torch.Generator):
            return torch.rand(1, generator=self.generator).item()
        return self.generator.random()


@pytest.mark.parametrize(
    "generator",
    [np.random.default_rng(1), np.random.RandomState(1), random.Random(1), torch.Generator().manual_seed(1)],
    ids=["numpy", "old numpy", "python", "torch"],
)
def test_generators_inside_a_dataset_are_not_drawn_from(generator: Any) -> None:
    dataset = Subset(Samples(Noisy(generator)), [3, 4])
    dataset.dataset.transforms = [Noisy(generator)]  # type: ignore[attr-defined]
    apart = set_apart(dataset)
    first = [apart[0] for _ in range(3)]
    assert [dataset[0] for _ in range(3)] == first
    assert len(set(first)) == 3
    assert apart.dataset.transforms[0].generator is not generator


def test_data_is_shared_with_the_copy() -> None:
    data = torch.zeros(5)
    dataset = Samples(lambda number: data[number])
    dataset.data = data  # type: ignore[attr-defined]
    apart = set_apart(dataset)
    assert apart is not dataset
    assert apart.data is data
    assert apart.make is dataset.make
