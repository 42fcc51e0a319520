"""Sizes: noise costs next to nothing, random values their entropy, constants a header; masks, labels and tokens pay."""

import math

import numpy as np
import pytest

from cordwood import codecs
from tests.codecs.support.definitions import Array
from tests.codecs.support.plans import GOALS
from tests.format.support.craft import COMPLEX, DTYPES
from tests.format.support.readers import same_bits
from tests.format.support.samples import array_type, random_bits


def encoded(array: Array, goal: codecs.Goal, dtype: str | None = None) -> int:
    frame = codecs.encode(array, goal, dtype=dtype)
    assert same_bits(codecs.decode(frame), array)
    return len(frame)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_noise_costs_a_thousandth_and_64_bytes_at_most(dtype: str, goal: codecs.Goal) -> None:
    for shape in [(), (1,), (2, 3), (33,), (3, 17, 19), (1000,), (3, 100, 100), (70_001,)]:
        noise = random_bits(dtype, shape, len(shape))
        if dtype == "bool":  # a bit each is what it cannot go below; here the bytes are noise
            noise = random_bits("uint8", shape, len(shape)).view(np.bool_)
        assert encoded(noise, goal, dtype) <= 1.001 * noise.nbytes + 64


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_noise_with_a_plan_for_other_data(dtype: str, goal: codecs.Goal) -> None:
    plan = codecs.plan(np.zeros((3, 64, 64), dtype), goal)
    noise = random_bits(dtype, (3, 64, 64))
    assert len(codecs.encode(noise, plan)) <= 1.001 * noise.nbytes + 64


@pytest.mark.slow
@pytest.mark.parametrize("values", [2, 3, 5, 6, 7, 11, 100, 300, 1000, 50257])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint16", "uint8"])
def test_uniformly_random_values_cost_their_entropy(dtype: str, values: int) -> None:
    if values > np.iinfo(dtype).max + 1:
        return
    for size in (4_096, 20_000, 150_000):
        array = (np.random.default_rng(values).integers(0, values, size)).astype(dtype)
        entropy = size * math.log2(values) / 8
        assert encoded(array, "small") <= 1.03 * entropy + 64


@pytest.mark.parametrize("goal", ["small", "balanced", "fast"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_constants_cost_a_header(dtype: str, goal: codecs.Goal) -> None:
    for shape in [(), (1,), (64, 64), (3, 400, 300)]:
        for value in (0, 1):
            array = np.full(shape, value, array_type(dtype))
            size = encoded(array, goal, dtype)
            if dtype == "bool" or "int" in dtype:
                assert size < 40  # there are no blocks
            elif array.size <= 64 * 64 and (goal != "fast" or dtype not in COMPLEX):
                assert size < 80
            else:
                assert size < 80 + array.nbytes / 50


def blobs(size: int, seed: int) -> Array:
    """A mask of discs, as segmentations have them."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:size, :size]
    mask = np.zeros((size, size), np.bool_)
    for _ in range(6):
        y, x, radius = rng.integers(0, size, 2)[0], rng.integers(0, size, 2)[1], rng.integers(size // 16, size // 5)
        mask |= (rows - y) ** 2 + (columns - x) ** 2 < radius**2
    return mask


@pytest.mark.parametrize("goal", ["small", "balanced", "fast"])
def test_masks_of_blobs(goal: codecs.Goal) -> None:
    for seed in range(5):
        mask = blobs(256, seed)
        assert encoded(mask, goal) <= mask.nbytes / 8
    assert encoded(np.stack([blobs(224, seed) for seed in range(8)]), "small") <= 8 * 224 * 224 / 30


@pytest.mark.parametrize("goal", ["small", "balanced"])
@pytest.mark.parametrize("classes", [2, 10, 100])
def test_labels(classes: int, goal: codecs.Goal) -> None:
    labels = np.random.default_rng(classes).integers(0, classes, 4096)
    assert encoded(labels, goal) <= labels.nbytes / 8
    assert encoded(np.sort(labels), goal) <= labels.nbytes / 20


@pytest.mark.parametrize("goal", ["small", "balanced"])
def test_label_maps(goal: codecs.Goal) -> None:
    """A class for every pixel, in regions."""
    rows, columns = np.mgrid[:256, :256]
    labels = ((rows // 40) * 7 + (columns // 50) * 3) % 21
    assert encoded(labels, goal) <= labels.nbytes / 50


@pytest.mark.parametrize("goal", ["small", "balanced"])
def test_token_ids(goal: codecs.Goal) -> None:
    """Ids as tokenizers give them: the n-th commonest has a probability of about 1/n, and common ones have low ids."""
    rng = np.random.default_rng(0)
    words = 50257
    chances = 1 / (np.arange(words) + 2.7)
    ranks = rng.choice(words, 1 << 16, p=chances / chances.sum())
    id_of_rank = np.argsort(np.argsort(np.log(np.arange(words) + 1) + rng.standard_normal(words)))
    tokens = id_of_rank[ranks]
    assert encoded(tokens, goal) <= tokens.nbytes / 4


@pytest.mark.parametrize("goal", ["small", "balanced", "fast"])
def test_mostly_zeros(goal: codecs.Goal) -> None:
    rng = np.random.default_rng(0)
    sparse = np.where(rng.random(200_000) < 0.01, rng.standard_normal(200_000), 0).astype(np.float32)
    assert encoded(sparse, goal) <= sparse.nbytes / 8
