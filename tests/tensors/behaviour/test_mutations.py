"""Thousands of damaged files of every format, the same ones every time: loaded or refused, and nothing else."""

import io

import pytest

import cordwood
from tests.tensors.support.mutate import Mutator
from tests.tensors.support.samples import feed, samples

MUTANTS = 120  # of each sample


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own, of kinds that it has in beta state or wants to drop
@pytest.mark.parametrize("name", sorted(samples()))
def test_a_damaged_file_is_loaded_or_refused(name: str) -> None:
    good = samples()[name]
    cordwood.load(io.BytesIO(good))
    mutator = Mutator(sum(name.encode()))
    outcomes = {}
    for number in range(MUTANTS):
        mutant = mutator.mutate(good)
        try:
            outcomes[number] = feed(mutant)
        except Exception as error:
            raise AssertionError(f"mutant {number} of {name}: {type(error).__name__}: {error}") from error
    assert "refused" in outcomes.values()


def test_the_same_seed_gives_the_same_damage() -> None:
    good = samples()["views, pt"]
    first, second = Mutator(3), Mutator(3)
    assert [first.mutate(good) for _ in range(50)] == [second.mutate(good) for _ in range(50)]
    assert Mutator(3).mutate(good) != Mutator(4).mutate(good)


@pytest.mark.parametrize("name", ["views, legacy", "safetensors", "state_dict, pt", "state_dict, cord raw"])
def test_a_file_that_is_cut_is_refused_or_what_is_left(name: str) -> None:
    good = samples()[name]
    for length in range(0, len(good), max(1, len(good) // 300)):
        feed(good[:length])
