"""The plain reader of the docs reads what the page describes: frames crafted by hand from the page alone."""

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.format.support import craft
from tests.format.support.craft import ANS, COMPLEX, DTYPES, HUFFMAN, itemsize
from tests.format.support.craft_coding import CODED, ENTROPY, LZ4, PACKED, RAW, ZSTD
from tests.format.support.formulas import FORMULAS
from tests.format.support.readers import PAGE, reader, same_bits
from tests.format.support.recipe import DELTA, MED, NARROW, NONE, PALETTE, STORED, Crafted, Recipe, craft_frame
from tests.format.support.samples import SAMPLES, few_floats, random_bits, skewed, smooth


def assert_reads(crafted: Crafted) -> None:
    array, dtype = reader.read(crafted.frame, crafted.owned)
    assert dtype == crafted.dtype
    assert same_bits(array, crafted.array)


@pytest.mark.parametrize("name", SAMPLES)
def test_samples(name: str) -> None:
    assert_reads(SAMPLES[name])


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name: str) -> None:
    assert_reads(FORMULAS[name])


def test_dtypes_are_those_of_the_page() -> None:
    table = PAGE.read_text(encoding="utf-8").split("| dtype | |")[1].split("\n\n")[0]
    named = dict(re.findall(r"\| (\d+) (\w+)", table))
    assert [named[str(i)] for i in range(len(DTYPES))] == list(DTYPES)
    assert [name for name, _, _ in reader.DTYPES] == list(DTYPES)


def test_crc32c_of_the_check_word() -> None:
    assert craft.crc32c(b"123456789") == 0xE3069283
    assert reader.crc32c(b"123456789") == 0xE3069283


modes = st.lists(st.sampled_from([RAW, ENTROPY, ENTROPY, ZSTD, LZ4]), min_size=1, max_size=4)
coders = st.sampled_from([HUFFMAN, ANS])


@st.composite
def flat_frames(draw: st.DrawFn) -> Crafted:
    """Any dtype, as is or narrowed or through a palette, one after the other."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(0, 6), max_size=4)))
    seed = draw(st.integers(0, 99))
    coder = draw(st.sampled_from([STORED, HUFFMAN, ANS]))
    predict = draw(st.sampled_from([NONE, DELTA])) if coder != STORED else NONE
    recipe = Recipe(
        coder=coder, predict=predict, lag=draw(st.integers(1, 9)),
        planes=draw(st.integers(0, 1 if predict == DELTA else 2)) if coder != STORED else 0,
        block=draw(st.integers(1, 70)) * 8, modes=draw(modes), tile=(0, draw(st.integers(3, 8))),
        tables=draw(st.integers(1, 6)), map_form=draw(st.sampled_from([PACKED, CODED])), log=draw(st.integers(9, 12)),
        pad=draw(st.integers(0, 63)),
    )  # fmt: skip
    if recipe.planes == 2:
        return craft_frame(random_bits(dtype, shape, seed), dtype, recipe, seed)
    if dtype in ("float16", "bfloat16", "float32", "float64", *COMPLEX) and 0 not in shape and draw(st.booleans()):
        axis = 255 if dtype in COMPLEX else draw(st.sampled_from([255, *range(len(shape))]))
        bits = draw(st.sampled_from([8, 16]))
        recipe = replace(recipe, value=PALETTE, axis=axis, bits=bits, palette_of_plan=draw(st.booleans()))
        return craft_frame(few_floats(dtype, shape, seed), dtype, recipe, seed)
    if "int" in dtype and draw(st.booleans()):
        bits = draw(st.sampled_from([b for b in (8, 16, 32, 64) if b <= 8 * itemsize(dtype)]))
        minimum = draw(st.integers(-(2**63), 2**63 - 1))
        codes = random_bits(f"uint{bits}", shape, seed).astype(np.uint64)
        elements = (codes + np.uint64(minimum % 2**64)).astype(f"u{itemsize(dtype)}").view(dtype)
        return craft_frame(elements, dtype, replace(recipe, value=NARROW, minimum=minimum, bits=bits), seed)
    return craft_frame(random_bits(dtype, shape, seed), dtype, recipe, seed)


@st.composite
def image_frames(draw: st.DrawFn) -> Crafted:
    """Images of any geometry and color, cut into blocks and tiles anywhere."""
    geometry = draw(st.integers(0, 2))
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=2 if geometry == 0 else 3, max_size=4)))
    channels = (1, shape[-3] if geometry else 1, shape[-1])[geometry]
    dtype = draw(st.sampled_from(["uint8", "int16", "float8_e5m2", "bfloat16"]))
    height = draw(st.integers(0, 3))
    recipe = Recipe(
        predict=MED, geometry=geometry, color=draw(st.sampled_from([0, 1, 2] if channels >= 3 else [0, 2])),
        planes=1 if itemsize(dtype) == 2 else draw(st.integers(0, 1)), coder=draw(coders), modes=draw(modes),
        block=draw(st.integers(1, 20)), tile=(height, draw(st.integers(3 - height, 4))),
        tables=draw(st.integers(1, 4)), map_form=draw(st.sampled_from([PACKED, CODED])), log=draw(st.integers(8, 12)),
        tables_of_plan=draw(st.booleans()),
    )  # fmt: skip
    seed = draw(st.integers(0, 99))
    image = smooth(shape, dtype, seed) if draw(st.booleans()) else random_bits(dtype, shape, seed)
    return craft_frame(image, dtype, recipe, seed)


@settings(max_examples=150, deadline=None)
@given(flat_frames())
def test_any_flat_frame(crafted: Crafted) -> None:
    assert_reads(crafted)


@settings(max_examples=150, deadline=None)
@given(image_frames())
def test_any_image_frame(crafted: Crafted) -> None:
    assert_reads(crafted)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), coders, st.integers(1, 8), st.integers(6, 12), st.integers(0, 99))
def test_any_entropy_section(size: int, coder: int, tables: int, log: int, seed: int) -> None:
    recipe = Recipe(coder=coder, tables=tables, log=log, tile=(0, 3), map_form=seed % 2)
    assert_reads(craft_frame(skewed(size, seed), "uint8", recipe, seed))
