"""Random numbers of a sample's own: the same for a seed, wherever they are drawn, and others for another one."""

import random

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from cordwood.common.seeding import seed_generators
from cordwood.packing.workers.work import seed_of

SEEDS = st.integers(0, (1 << 64) - 1)


def drawn(seed: int) -> tuple[list[float], list[float], list[float]]:
    seed_generators(seed)
    return (
        [random.random() for _ in range(4)],
        np.random.random(4).tolist(),
        torch.rand(4, dtype=torch.float64).tolist(),
    )


@given(SEEDS)
def test_a_seed_gives_the_same_numbers_every_time(seed: int) -> None:
    first = drawn(seed)
    random.random(), np.random.random(), torch.rand(1)
    assert drawn(seed) == first


def test_other_seeds_give_other_numbers() -> None:
    """Such as those of samples, whose 63 bits are spread by a hash."""
    for drawn_by_one in zip(*(drawn(seed_of(0, number)) for number in range(500)), strict=True):
        assert len({tuple(numbers) for numbers in drawn_by_one}) == 500


@given(SEEDS)
@example(0x9E3779B9 << 32)  # whose halves and the constant of `seed_generators` cancel out
def test_no_two_generators_draw_the_same(seed: int) -> None:
    """All three are of one kind, and seeded alike they would."""
    seed_generators(seed)
    python, numpy, torches = (
        [random.getrandbits(32) for _ in range(8)],
        np.random.randint(0, 1 << 32, 8, np.uint64).tolist(),
        torch.randint(0, 1 << 32, (8,)).tolist(),
    )
    assert not set(python) & set(numpy)
    assert not set(numpy) & set(torches)
    assert not set(python) & set(torches)


@pytest.mark.parametrize("bit", range(64))
def test_every_bit_of_a_seed_counts(bit: int) -> None:
    """But for torch's generator, which takes the lower half."""
    python, numpy, torches = (first != second for first, second in zip(drawn(0), drawn(1 << bit), strict=True))
    assert python
    assert numpy
    assert torches or bit >= 32
