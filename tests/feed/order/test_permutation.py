"""The order of an epoch: a permutation, as random as one drawn from a hat, and never another one for the same seed."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import UsageError
from cordwood.feed.order import permutation as order
from cordwood.feed.order.permutation import LONGEST, InOrder, Shuffled, mixed, sample_seeds
from tests.feed.support.plain_order import defined, deviation

SEEDS = st.integers(0, 2**64 - 1)
EPOCHS = st.integers(0, 2**31)
# SplitMix64's first outputs for the seed 0, as its authors and many libraries give them.
SPLITMIX = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B]


@pytest.fixture
def never_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short orders made as long ones are, so that all of one can be looked at."""
    monkeypatch.setattr(order, "_SORTED", 0)


def whole(length: int, seed: int = 0, epoch: int = 0) -> npt.NDArray[np.int64]:
    return Shuffled(length, seed, epoch).at(np.arange(length, dtype=np.int64))


# ---- a permutation --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", range(200))
def test_every_short_order_has_every_number_once(length: int) -> None:
    assert sorted(whole(length)) == list(range(length))


@pytest.mark.usefixtures("never_sorted")
def test_every_short_order_made_like_a_long_one_has_every_number_once() -> None:
    for length in range(1, 500):
        assert np.array_equal(np.sort(whole(length, seed=length)), np.arange(length)), length


@given(length=st.integers(1, 300_000), seed=SEEDS, epoch=EPOCHS)
def test_an_order_has_every_number_once(length: int, seed: int, epoch: int) -> None:
    found = whole(length, seed, epoch)
    assert found.dtype == np.int64
    assert np.array_equal(np.bincount(found, minlength=length), np.ones(length, np.int64))


@pytest.mark.parametrize("length", [65_535, 65_536, 65_537, 256 * 257, 256 * 257 + 1, 257 * 257, 1 << 18, 1_000_003])
def test_lengths_around_the_seams_have_every_number_once(length: int) -> None:
    assert np.array_equal(np.sort(whole(length, seed=5, epoch=2)), np.arange(length))


@given(length=st.integers(1 << 20, LONGEST), seed=SEEDS, start=st.integers(0, LONGEST))
def test_places_of_a_huge_order_hold_different_numbers_of_it(length: int, seed: int, start: int) -> None:
    places = (np.arange(1000, dtype=np.int64) * 7 + start % (length - 7000)).astype(np.int64)
    found = Shuffled(length, seed, 0).at(places)
    assert found.min() >= 0
    assert found.max() < length
    assert len(np.unique(found)) == 1000


def test_the_longest_order() -> None:
    found = Shuffled(LONGEST, 0, 0).at(np.array([0, LONGEST - 1]))
    assert found.tolist() == [1271902602887903654, 1985698493998909092]


@given(length=st.integers(1, 1 << 40), seed=SEEDS, places=st.lists(st.integers(0, 1 << 40), min_size=1, max_size=20))
def test_a_place_holds_the_same_whoever_asks_with_it(length: int, seed: int, places: list[int]) -> None:
    one = Shuffled(length, seed, 1)
    asked = np.array(places, np.int64) % length
    alone = [int(one.at(asked[k : k + 1])[0]) for k in range(len(asked))]
    assert Shuffled(length, seed, 1).at(asked).tolist() == alone
    assert one.at(asked[::-1]).tolist() == alone[::-1]


def test_asking_changes_nothing_that_is_the_callers() -> None:
    for length in (100, 100_000):
        places = np.arange(50, dtype=np.int64)
        found = Shuffled(length, 0, 0).at(places)
        found[:] = 0
        assert places.tolist() == list(range(50))
        assert len(np.unique(Shuffled(length, 0, 0).at(places))) == 50


@pytest.mark.parametrize("length", [0, 10, 100_000])
def test_places_outside_are_refused(length: int) -> None:
    for one in (Shuffled(length, 0, 0), InOrder(length)):
        for place in (-1, length, length + 1, 2**62):
            with pytest.raises(IndexError, match=f"of an order of {length}"):
                one.at(np.array([place]))
        assert one.at(np.zeros(0, np.int64)).tolist() == []


@pytest.mark.parametrize("length", [-1, LONGEST + 1])
def test_lengths_that_cannot_be_are_refused(length: int) -> None:
    with pytest.raises(UsageError, match=r"2\*\*62"):
        Shuffled(length, 0, 0)
    with pytest.raises(UsageError, match=r"2\*\*62"):
        InOrder(length)


def test_without_shuffling_a_place_holds_itself() -> None:
    assert InOrder(10**15).at(np.array([3, 10**15 - 1])).tolist() == [3, 10**15 - 1]


# ---- the promise ----------------------------------------------------------------------------------------------------


def test_orders_are_what_they_always_were() -> None:
    assert whole(10).tolist() == [5, 0, 1, 4, 8, 9, 2, 7, 3, 6]
    assert whole(10, seed=2**64 - 1, epoch=7).tolist() == [5, 3, 9, 8, 0, 4, 1, 7, 2, 6]
    assert Shuffled(65_536, 1, 2).at(np.array([0, 1, 65_535])).tolist() == [58581, 26169, 45215]
    assert Shuffled(65_537, 1, 2).at(np.array([0, 1, 65_536])).tolist() == [53608, 14382, 44481]
    found = Shuffled(10**12, 0, 0).at(np.array([0, 1, 10**12 - 1]))
    assert found.tolist() == [76296404245, 908030148452, 958723751348]


def test_hashes_are_what_they_always_were() -> None:
    assert mixed(np.arange(5, dtype=np.uint64)).tolist() == SPLITMIX
    assert [int(mixed(number)) for number in range(5)] == SPLITMIX
    assert int(mixed(1, 2, 3)) == 0x1A25B87719C210C2
    assert sample_seeds(0, 0, np.array([0, 1])).tolist() == [509497601085682247, 5923767524883875270]


@given(words=st.lists(st.integers(-(2**63), 2**64 - 1), max_size=5))
def test_the_hash_is_that_of_the_page(words: list[int]) -> None:
    assert int(mixed(*words)) == defined()["mixed"](*words)


@given(first=SEEDS, many=st.lists(SEEDS, max_size=5), last=SEEDS)
def test_hashes_of_arrays_are_those_of_their_numbers(first: int, many: list[int], last: int) -> None:
    array = np.array(many, np.uint64)
    assert mixed(first, array, last).tolist() == [int(mixed(first, one, last)) for one in many]
    assert mixed(array, array).tolist() == [int(mixed(one, one)) for one in many]
    assert array.tolist() == many


@pytest.mark.slow
@given(
    length=st.integers(1, 100) | st.integers(65_530, 1 << 62), seed=SEEDS, epoch=EPOCHS, place=st.integers(0, 1 << 62)
)
def test_orders_are_those_of_the_page(length: int, seed: int, epoch: int, place: int) -> None:
    place %= length
    expected = defined()["sample_at"](place, length, seed, epoch)
    assert Shuffled(length, seed, epoch).at(np.array([place])).tolist() == [expected]


def test_what_lands_beyond_the_end_goes_on_as_the_page_says() -> None:
    length = 65_537  # 257 rows of 256: 255 places too many
    found = Shuffled(length, 3, 0).at(np.arange(length, dtype=np.int64))
    for place in range(0, length, 131):
        assert found[place] == defined()["sample_at"](place, length, 3, 0)


# ---- as random as one drawn from a hat ------------------------------------------------------------------------------


LENGTHS = pytest.mark.parametrize("length", [64, 1000, 65_536, 65_537, 100_000, 1_000_000])


def test_all_orders_of_five_are_equally_likely() -> None:
    weights = 5 ** np.arange(5)
    codes = [int(whole(5, seed) @ weights) for seed in range(24_000)]
    found, counts = np.unique(codes, return_counts=True)
    assert len(found) == 120
    assert abs(deviation(counts, 200.0)) < 4


def test_all_orders_of_four_are_equally_likely_over_epochs() -> None:
    codes = [int(whole(4, 11, epoch) @ 4 ** np.arange(4)) for epoch in range(9_600)]
    found, counts = np.unique(codes, return_counts=True)
    assert len(found) == 24
    assert abs(deviation(counts, 400.0)) < 4


@pytest.mark.parametrize("place", [0, 31])
def test_every_number_is_equally_likely_at_a_place(place: int) -> None:
    found = [int(Shuffled(64, seed, 0).at(np.array([place]))[0]) for seed in range(6400)]
    assert abs(deviation(np.bincount(found, minlength=64), 100.0)) < 4


@pytest.mark.slow
@pytest.mark.usefixtures("never_sorted")
@pytest.mark.parametrize("place", [0, 99])
def test_every_number_is_equally_likely_at_a_place_of_a_long_order(place: int) -> None:
    found = [int(Shuffled(100, seed, 0).at(np.array([place]))[0]) for seed in range(5000)]
    assert abs(deviation(np.bincount(found, minlength=100), 50.0)) < 4


@pytest.mark.slow
@pytest.mark.usefixtures("never_sorted")
def test_every_pair_of_numbers_is_equally_likely_at_neighbouring_places_of_a_long_order() -> None:
    """The fewer numbers, the more a permutation of too few rounds shows: on twenty, four rounds fail clearly."""
    pairs = [Shuffled(20, seed, 0).at(np.array([0, 1])) for seed in range(9500)]
    found, counts = np.unique([20 * int(one) + int(other) for one, other in pairs], return_counts=True)
    assert len(found) == 380
    assert abs(deviation(counts, 25.0)) < 4


@LENGTHS
def test_parts_of_the_order_hold_numbers_of_all_parts(length: int) -> None:
    """Places and numbers cut into 8 parts each: how many fall from one part into another."""
    part = np.arange(length) * 8 // length
    counts = np.zeros((8, 8), np.int64)
    rounds = 20 if length <= 100_000 else 2
    for seed in range(rounds):
        np.add.at(counts, (part, part[whole(length, seed)]), 1)
    sizes = np.bincount(part).astype(np.float64)
    expected = np.outer(sizes, sizes) / length * rounds
    # Rows and columns are filled exactly, which leaves 7 times 7 free.
    chi = ((counts - expected) ** 2 / expected).sum() * (length - 1) / length
    assert abs(chi - 49) / np.sqrt(98) < 4


@LENGTHS
def test_neighbours_are_strangers(length: int) -> None:
    """The distances of adjacent places' numbers, modulo the length, in 16 parts; and their correlation."""
    counts, products, rounds = np.zeros(16, np.int64), [], 20 if length <= 100_000 else 2
    for seed in range(rounds):
        numbers = whole(length, seed, epoch=1)
        distances = np.diff(numbers) % length  # 1 to length - 1, all equally likely
        counts += np.bincount((distances - 1) * 16 // (length - 1), minlength=16)
        products.append(np.corrcoef(numbers[:-1], numbers[1:])[0, 1])
    sizes = np.bincount(np.arange(length - 1) * 16 // (length - 1), minlength=16)
    expected = sizes / (length - 1) * counts.sum()
    assert abs(deviation(counts, expected)) < 4
    assert abs(np.mean(products) + 1 / length) < 4 / np.sqrt(length * rounds)


@pytest.mark.parametrize("step", [2, 256, 257, 1000])
def test_places_a_row_or_a_column_apart_are_strangers(step: int) -> None:
    """Long orders are laid out in rows of about 316 here; what is below each other must not stay so."""
    length, counts = 100_000, np.zeros(64, np.int64)
    for seed in range(20):
        numbers = whole(length, seed)
        distances = (numbers[step:] - numbers[:-step]) % length
        counts += np.bincount((distances - 1) * 64 // (length - 1), minlength=64)
    assert abs(deviation(counts, counts.sum() / 64)) < 4


@LENGTHS
def test_few_numbers_stay_in_place_or_meet_again_in_the_next_epoch(length: int) -> None:
    rounds = 300 if length <= 1000 else 20 if length <= 100_000 else 2
    identity, fixed, again = np.arange(length), 0, 0
    for seed in range(rounds):
        first, second = whole(length, seed, 0), whole(length, seed, 1)
        fixed += int((first == identity).sum())
        again += int((first == second).sum())
    # One an order on average, whatever the length: Poisson.
    for found in (fixed, again):
        assert abs(found - rounds) < 4 * np.sqrt(rounds) + 1


@LENGTHS
def test_seeds_and_epochs_give_orders_that_know_nothing_of_each_other(length: int) -> None:
    pairs = [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 1), (1, 0)), ((5, 6), (6, 5)), ((1, 2), (2**63, 2))]
    for one, other in pairs:
        correlation = np.corrcoef(whole(length, *one), whole(length, *other))[0, 1]
        assert abs(correlation) < 4 / np.sqrt(length)


def test_a_samples_seed_tells_nothing_about_its_place() -> None:
    numbers = whole(50_000, seed=4, epoch=2)
    seeds = sample_seeds(4, 2, numbers).astype(np.float64)
    assert abs(np.corrcoef(np.arange(50_000), seeds)[0, 1]) < 4 / np.sqrt(50_000)


def test_bits_of_seeds_are_even_and_change_by_half_from_sample_to_sample() -> None:
    seeds = sample_seeds(0, 0, np.arange(20_000))
    bits = np.unpackbits(seeds.view(np.uint8)).reshape(-1, 64)
    flips = np.unpackbits((seeds[1:] ^ seeds[:-1]).view(np.uint8)).reshape(-1, 64)
    for found in (bits, flips):
        assert np.abs(found.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(len(found))


@given(seed=SEEDS, epoch=EPOCHS, numbers=st.lists(st.integers(0, 2**62), unique=True, max_size=50))
def test_no_two_samples_of_an_epoch_have_the_same_seed(seed: int, epoch: int, numbers: list[int]) -> None:
    seeds = sample_seeds(seed, epoch, np.array(numbers, np.int64))
    assert seeds.dtype == np.uint64
    assert len(set(seeds.tolist())) == len(numbers)
