"""What an epoch consists of: all samples, chosen ones, weighted ones, those that a torch sampler draws."""

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from cordwood.errors import UsageError
from cordwood.feed.order.permutation import Shuffled
from cordwood.feed.order.samplers import EpochOrder, order_of, seeded
from tests.feed.support.plain_order import defined, deviation


def numbers(epoch: EpochOrder) -> list[int]:
    found = epoch.at(np.arange(epoch.length, dtype=np.int64))
    assert found.dtype == np.int64
    return [int(number) for number in found]


def drawn(sampler: Any, length: int = 100, seed: int = 0, epoch: int = 0) -> list[int]:
    return numbers(order_of(length, False, seed, sampler).epoch(epoch))


# ---- all samples, or those named -------------------------------------------------------------------------------------


def test_all_samples_in_order_or_shuffled() -> None:
    straight, shuffled = order_of(50, False, 3), order_of(50, True, 3)
    assert numbers(straight.epoch(0)) == numbers(straight.epoch(9)) == list(range(50))
    assert numbers(shuffled.epoch(4)) == Shuffled(50, 3, 4).at(np.arange(50)).tolist()
    assert numbers(shuffled.epoch(4)) != numbers(shuffled.epoch(5))
    for order in (straight, shuffled):
        assert (order.length, order.repeats, order.fingerprint) == (50, False, 0)
        assert (order.epoch(0).repeats, order.epoch(0).fingerprint) == (False, 0)


@pytest.mark.parametrize(
    "sampler",
    [
        [5, 1, 99],
        (5, 1, -1),
        np.array([5, 1, 99], np.uint8),
        np.array([5, 1, 99], np.uint64),
        torch.tensor([5, 1, 99]),
        torch.tensor([5, 1, -1], dtype=torch.int32),
        [np.int64(5), 1, np.uint8(99)],
        [torch.tensor(5), torch.tensor(1), torch.tensor(99)],
    ],
)
def test_named_samples_come_in_their_order(sampler: Any) -> None:
    order = order_of(100, False, 0, sampler)
    assert (order.length, order.repeats) == (3, False)
    assert numbers(order.epoch(0)) == numbers(order.epoch(1)) == [5, 1, 99]
    assert order.fingerprint == order_of(100, False, 0, [5, 1, 99]).fingerprint > 0


def test_named_samples_can_be_shuffled() -> None:
    order = order_of(1000, True, 0, range(0, 1000, 10))
    epochs = [numbers(order.epoch(n)) for n in range(3)]
    for found in epochs:
        assert sorted(found) == list(range(0, 1000, 10))
    assert len({tuple(found) for found in epochs}) == 3
    assert [10 * k for k in numbers(order_of(100, True, 0).epoch(1))] == epochs[1]


def test_a_list_changed_later_changes_nothing() -> None:
    given = np.array([3, 4])
    order = order_of(10, False, 0, given)
    given[:] = 9
    assert numbers(order.epoch(0)) == [3, 4]


def test_no_samples_are_a_short_epoch() -> None:
    for length, sampler in ((0, None), (0, []), (10, []), (10, np.zeros(0, np.int64)), (0, SequentialSampler([]))):
        assert numbers(order_of(length, False, 0, sampler).epoch(0)) == []
    assert numbers(order_of(0, True, 0).epoch(0)) == []


@given(st.lists(st.integers(0, 30), max_size=40), st.integers(31, 100_000))
def test_repeats_are_found(named: list[int], samples: int) -> None:
    order = order_of(samples, False, 0, named)
    assert order.repeats == order.epoch(0).repeats == (len(set(named)) < len(named))


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        ([1, 100], "sampler has sample 100, but the dataset has 100 samples"),
        ([-101], "sampler has sample -101"),
        (np.array([2**64 - 1], np.uint64), "sampler has sample 18446744073709551615"),
        ([2**70], "items of type object"),
        ([[1, 2], [3, 4]], "makes batches itself"),
        ([[1, 2], [3]], "items of different sizes"),
        (np.zeros((1, 1, 1), np.int64), "one dimension"),
        (np.ones(100, np.bool_), r"ds\.subset\(mask\)"),
        (torch.ones(100, dtype=torch.bool), r"ds\.subset\(mask\)"),
        ([True] * 100, r"ds\.subset\(mask\)"),
        (["a"], "items of type <U1"),
        ("abc", "sampler is 'abc'"),
        (b"abc", "sampler is b'abc'"),
        ({1, 2}, "no order of its own"),
        ({1: 2}, "no order of its own"),
        (7, "sampler is a int, but can be"),
        (iter([1]), "make a list of it"),
        (torch.tensor(3), "one dimension"),
    ],
)
def test_what_names_no_samples_is_refused(sampler: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        order_of(100, False, 0, sampler)


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, True, "0", None])
def test_seeds_that_cannot_be_are_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match="seed must be"):
        order_of(10, True, seed)


def test_shuffle_is_yes_or_no() -> None:
    with pytest.raises(UsageError, match="shuffle must be True or False, got 'no'"):
        order_of(10, "no", 0)  # type: ignore[arg-type]


# ---- weights --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.float32, np.float64, torch.float32, torch.bfloat16, list])
def test_weights_say_how_often_samples_come(kind: Any) -> None:
    weights = [1.0, 0.0, 2.0, 4.0, 0.0, 1.0, 0.5, 1.5]
    weights = weights * 500
    if isinstance(kind, torch.dtype):
        given: Any = torch.tensor(weights, dtype=kind)
    else:
        given = weights if kind is list else np.array(weights, kind)
    order = order_of(4000, False, 1, given)
    assert (order.length, order.repeats) == (4000, True)
    assert order.epoch(0).repeats
    found = np.concatenate([numbers(order.epoch(n)) for n in range(5)])
    counts = np.bincount(found % 8, minlength=8)
    likely = np.array(weights[:8])
    assert counts[likely == 0].tolist() == [0, 0]
    expected = likely[likely > 0] / likely.sum() * 20_000
    assert abs(deviation(counts[likely > 0], expected)) < 4


def test_draws_do_not_depend_on_who_asks_with_them() -> None:
    order = order_of(1000, False, 5, np.linspace(0, 1, 1000))
    found = numbers(order.epoch(2))
    assert order.epoch(2).at(np.array([7, 999, 3])).tolist() == [found[7], found[999], found[3]]
    assert found != numbers(order.epoch(3))
    assert found != numbers(order_of(1000, False, 6, np.linspace(0, 1, 1000)).epoch(2))


@given(
    weights=st.lists(st.sampled_from([0.0, 1.0, 1e-300, 0.1, 3.5, 1e300]), min_size=1, max_size=20).filter(any),
    seed=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 99),
)
def test_draws_are_those_of_the_page(weights: list[float], seed: int, epoch: int) -> None:
    expected = [defined()["weighted_at"](place, weights, seed, epoch) for place in range(len(weights))]
    assert drawn(weights, len(weights), seed, epoch) == expected
    assert all(weights[number] > 0 for number in expected)


def test_a_lone_weight_is_always_drawn() -> None:
    for where in (0, 57, 99):
        weights = np.zeros(100)
        weights[where] = 1e-320  # so small that draws round up to the sum
        assert set(drawn(weights)) == {where}


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0] * 99, "99 weights, but the dataset 100 samples"),
        ([1.0] * 99 + [float("nan")], "weight of sample 99 is nan"),
        ([float("inf")] + [1.0] * 99, "weight of sample 0 is inf"),
        ([1.0, -0.5] + [1.0] * 98, "weight of sample 1 is -0.5"),
        ([0.0] * 100, "add up to 0.0"),
        ([1e308] * 100, "add up to inf"),
    ],
)
def test_weights_that_cannot_be_are_refused(weights: list[float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        order_of(100, False, 0, weights)


def test_weights_are_not_shuffled() -> None:
    with pytest.raises(UsageError, match="leave shuffle out"):
        order_of(2, True, 0, [0.5, 0.5])


# ---- samplers of torch ----------------------------------------------------------------------------------------------


class ByPython(Sampler[int]):
    """A sampler that uses the generators which people use."""

    def __iter__(self) -> Iterator[int]:
        yield from random.sample(range(100), 10)
        yield from np.random.permutation(100)[:10]
        yield from torch.randperm(100)[:10]

    def __len__(self) -> int:
        return 30


class ByEpoch:
    """No subclass of anything, as many are."""

    def __init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        return iter([self.epoch, self.epoch + 1])

    def __len__(self) -> int:
        return 2


class Says:
    """A sampler that is not what it says."""

    def __init__(self, length: int, items: list[Any]) -> None:
        self.length = length
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self.items
            if len(self.items) != 1:
                return

    def __len__(self) -> int:
        return self.length


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomSampler(range(100)),
        lambda: RandomSampler(range(100), replacement=True, num_samples=30),
        lambda: SubsetRandomSampler(list(range(5, 50))),
        lambda: WeightedRandomSampler([1.0] * 100, 20),
        ByPython,
    ],
)
def test_a_sampler_draws_the_same_by_seed_and_epoch(make: Any) -> None:
    first = drawn(make())
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    assert drawn(make()) == first
    order = order_of(100, False, 0, make())
    assert numbers(order.epoch(1)) != first
    assert numbers(order.epoch(0)) == first
    assert drawn(make(), seed=1) != first
    assert order.length == len(first)
    assert order.epoch(0).repeats == (len(set(first)) < len(first))
    assert order.repeats


def test_drawing_leaves_the_generators_of_the_program_alone() -> None:
    def states() -> tuple[Any, ...]:
        return random.random(), np.random.random(), torch.rand(1).item()

    def begin() -> None:
        random.seed(5)
        np.random.seed(5)
        torch.manual_seed(5)

    begin()
    expected = states()
    begin()
    drawn(ByPython())
    assert states() == expected


def test_the_generators_are_put_back_when_a_sampler_fails() -> None:
    def states() -> tuple[Any, ...]:
        return torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state())

    def fail() -> None:
        with seeded(3):
            assert states() != before
            raise ZeroDivisionError

    before = states()
    with pytest.raises(ZeroDivisionError):
        fail()
    assert states() == before


def test_a_generator_of_the_samplers_own_goes_on_and_its_draws_are_told_apart() -> None:
    order = order_of(100, False, 0, RandomSampler(range(100), generator=torch.Generator().manual_seed(3)))
    first, second = order.epoch(0), order.epoch(0)
    assert numbers(first) != numbers(second)
    assert first.fingerprint != second.fingerprint
    again = order_of(100, False, 0, RandomSampler(range(100), generator=torch.Generator().manual_seed(3))).epoch(0)
    assert again.fingerprint == first.fingerprint > 0
    assert numbers(again) == numbers(first)


def test_a_sampler_is_told_its_epoch() -> None:
    assert drawn(ByEpoch(), epoch=7) == [7, 8]
    assert drawn(SequentialSampler(range(5))) == [0, 1, 2, 3, 4]


def test_kinds_of_samplers_have_different_fingerprints() -> None:
    samplers = [RandomSampler(range(100)), ByEpoch(), [1, 2], [2, 1], [1.0] * 100, [1.0] * 99 + [2.0]]
    found = [order_of(100, False, 0, sampler).fingerprint for sampler in samplers]
    assert len(set(found)) == len(found)
    assert all(0 < one < 2**53 for one in found)


@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (
            DistributedSampler(TensorDataset(torch.zeros(100)), num_replicas=2, rank=0),
            "shares samples out among the ranks itself",
        ),
        (BatchSampler(SequentialSampler(range(100)), 10, False), "give the sampler inside it"),
        (Says(2, [[1, 2], [3, 4]]), "Says drew lists of numbers"),
        (Says(2, [[1, 2], [3]]), "Says drew items of different sizes"),
        (Says(2, [1, 100]), "Says drew sample 100"),
        (Says(2, [0.5, 1.5]), "Says drew float64 numbers"),
        (Says(2, ["a", "b"]), "Says drew items of type"),
        (Says(3, [1, 2]), "draws 3 numbers, and drew only 2"),
        (Says(3, [1]), "draws 3 numbers, and drew more"),
        (Says(1, [1, 2]), "draws 1 numbers, and drew more"),
    ],
)
def test_samplers_that_cannot_be_used_are_refused(sampler: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        order_of(100, False, 0, sampler).epoch(0)


def test_what_only_looks_like_a_distributed_sampler_is_refused() -> None:
    looks_alike = ByEpoch()
    looks_alike.num_replicas, looks_alike.rank = 2, 0  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="among the ranks itself"):
        order_of(100, False, 0, looks_alike)


def test_a_sampler_is_not_shuffled() -> None:
    with pytest.raises(UsageError, match="has an order of its own"):
        order_of(100, True, 0, RandomSampler(range(100)))
