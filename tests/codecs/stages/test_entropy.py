"""entropy: near Shannon's bound, tables by tile where they help, planes left alone where nothing does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.stages.entropy import CODERS, Entropy
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.errors import UsageError
from tests.codecs.support.definitions import Array
from tests.codecs.support.inside import modes_of
from tests.format.support.readers import reader, same_bits

RAW, CONSTANT, ENTROPY, ZSTD = 0, 1, 2, 3


def shannon_bytes(symbols: Array) -> float:
    """What a memoryless source of these counts costs."""
    counts = np.unique(symbols, return_counts=True)[1] / symbols.size
    return float(-(counts * np.log2(counts)).sum() * symbols.size / 8)


def distributions(size: int) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    return {
        "geometric": np.minimum(rng.geometric(0.2, size) - 1, 255).astype(np.uint8),
        "normal": np.clip(rng.standard_normal(size) * 20 + 128, 0, 255).astype(np.uint8),
        "rare": (rng.random(size) < 0.01).astype(np.uint8),
        "hundred": rng.integers(0, 100, size).astype(np.uint8),
        "two far apart": rng.choice(np.array([3, 251], np.uint8), size),
        "nearly constant": np.where(np.arange(size) % 9999 == 0, 7, 200).astype(np.uint8),
    }


def plan_of(coder: str, tables: int = 8, tile: int = 16, or_zstd: bool = False) -> codecs.Plan:
    return codecs.Plan.single("small", "uint8", (Entropy(coder, tile, tables, or_zstd=or_zstd),))


@pytest.mark.parametrize("name", distributions(1))
def test_ans_comes_near_shannons_bound(name: str) -> None:
    symbols = distributions(200_000)[name]
    frame = codecs.encode(symbols, plan_of("ans", tables=1))
    assert len(frame) <= 1.01 * shannon_bytes(symbols) + 350
    assert same_bits(codecs.decode(frame), symbols)


@pytest.mark.parametrize("name", distributions(1))
def test_huffman_stays_within_its_own_bound(name: str) -> None:
    """Gallager's: the bits lost on a symbol are at most the likeliest one's probability + 0.086, and at most one."""
    symbols = distributions(200_000)[name]
    likeliest = np.unique(symbols, return_counts=True)[1].max() / symbols.size
    frame = codecs.encode(symbols, plan_of("huffman", tables=1))
    assert len(frame) <= 1.01 * shannon_bytes(symbols) + min(1.0, likeliest + 0.086) * symbols.size / 8 + 350
    assert same_bits(codecs.decode(frame), symbols)


@pytest.mark.parametrize("coder", CODERS)
def test_regions_get_tables_of_their_own(coder: str) -> None:
    rng = np.random.default_rng(2)
    low, high = rng.geometric(0.4, 50_000), 256 - rng.geometric(0.4, 50_000)
    symbols = np.concatenate([low, high, low, high]).astype(np.uint8)
    one, many = (codecs.encode(symbols, plan_of(coder, tables)) for tables in (1, 8))
    # within a region there is one bit less to say: which of the two it is
    assert len(many) < 0.8 * len(one)
    assert same_bits(codecs.decode(many), symbols)


@pytest.mark.parametrize("coder", CODERS)
def test_each_plane_has_the_mode_that_suits_it(coder: str) -> None:
    rng = np.random.default_rng(3)
    size = 50_000
    noise, skewed = rng.integers(0, 256, size), np.minimum(rng.geometric(0.5, size), 200)
    array = (noise + 256 * skewed + 65536 * 9).astype(np.uint32)
    plan = codecs.Plan.single("small", "uint32", (Planes(), Entropy(coder)))
    frame = codecs.encode(array, plan)
    assert modes_of(frame) == [[RAW, ENTROPY, CONSTANT, CONSTANT]]
    assert same_bits(codecs.decode(frame), array)


def test_or_zstd_takes_the_plane_that_repeats() -> None:
    rng = np.random.default_rng(4)
    period = np.tile(rng.integers(0, 256, 1000), 50)
    skewed = np.minimum(rng.geometric(0.5, period.size), 200)
    array = (period + 256 * skewed).astype(np.uint16)
    entropy = Entropy("ans", or_zstd=True)
    frame = codecs.encode(array, codecs.Plan.single("small", "uint16", (Planes(), entropy)))
    assert modes_of(frame) == [[ZSTD, ENTROPY]]
    assert same_bits(codecs.decode(frame), array)


def test_saving_is_what_a_plane_must_get_smaller_by() -> None:
    symbols = np.random.default_rng(7).integers(0, 200, 50_000).astype(np.uint8)  # a table saves 4.5%
    assert modes_of(codecs.encode(symbols, codecs.Plan.single("small", "uint8", (Entropy("ans", saving=0.03),)))) == [
        [ENTROPY]
    ]
    left = codecs.encode(symbols, codecs.Plan.single("small", "uint8", (Entropy("ans", saving=0.06),)))
    assert len(left) >= symbols.nbytes


@settings(max_examples=150)
@given(
    st.sampled_from(list(CODERS)),
    st.sampled_from([4, 8, 16, 32, 64]),
    st.integers(1, 16),
    st.booleans(),
    st.integers(1, 60),
    st.integers(1, 60),
    st.integers(0, 999),
)
def test_both_readers_read_what_it_writes(
    coder: str, tile: int, tables: int, or_zstd: bool, height: int, width: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    base = rng.geometric(rng.choice([0.1, 0.5, 0.9]), (height, width)) + np.arange(width) // 16 * rng.integers(0, 40)
    image = np.clip(base, 0, 255).astype(np.uint8)
    entropy = Entropy(coder, tile, tables, or_zstd=or_zstd)
    for stages in ((entropy,), (Predict("med"), entropy)):
        frame = codecs.encode(image, codecs.Plan.single("small", "uint8", stages))
        assert same_bits(codecs.decode(frame), image)
        assert same_bits(reader.read(frame)[0], image)


@pytest.mark.parametrize("coder", CODERS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 8, 9, 31, 4095, 4096, 4097, 262143, 262144, 262145])
def test_sizes_around_streams_tiles_and_blocks(size: int, coder: str) -> None:
    symbols = distributions(size)["geometric"]
    assert same_bits(codecs.decode(codecs.encode(symbols, plan_of(coder))), symbols)


def test_tables_of_the_plan_save_the_small_ones() -> None:
    rng = np.random.default_rng(6)
    lines = [np.minimum(rng.geometric(0.05, 300), 255).astype(np.uint8) for _ in range(64)]
    alone, owning = (codecs.plan(lines, "small", own=own) for own in (False, True))
    sizes = {}
    for plan in (alone, owning):
        frames = codecs.encode_many(lines, plan)
        sizes[plan] = sum(map(len, frames))
        for line, frame in zip(lines, frames, strict=True):
            assert same_bits(codecs.decode(frame, plans=plan), line)
    assert sizes[owning] < 0.95 * sizes[alone]


@pytest.mark.parametrize(
    "wrong",
    [{"coder": "arithmetic"}, {"tile": 5}, {"tile": 128}, {"max_tables": 0}, {"max_tables": 17}, {"or_zstd": 1}],
)
def test_parameters_out_of_range(wrong: dict[str, object]) -> None:
    (name,) = wrong
    with pytest.raises(UsageError, match=f"entropy: {name} is .*, but "):
        Entropy(**wrong)  # type: ignore[arg-type]
