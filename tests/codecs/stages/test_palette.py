"""palette: distinct bit patterns in numeric order, whole or a channel, and their places as codes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.assets import Assets
from cordwood.codecs.formula import Formula
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.raw import Raw
from tests.codecs.support import definitions
from tests.codecs.support.definitions import Array
from tests.codecs.support.inside import look_inside
from tests.format.support import craft
from tests.format.support.readers import same_bits
from tests.format.support.samples import array_type

REAL = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128", "complex32")


@st.composite
def arrays_of_few_values(draw: st.DrawFn) -> tuple[str, Array, int | None, int]:
    """dtype, array, axis from the end and bits: channels hold any bit patterns, NaNs too, each its own."""
    dtype = draw(st.sampled_from(REAL + COMPLEX))
    itemsize = craft.itemsize(dtype)
    shape = (*draw(st.lists(st.integers(1, 4), min_size=1, max_size=2)), draw(st.integers(200, 300)))
    axis = draw(st.sampled_from([None, *range(-len(shape), -1)])) if dtype in REAL else None
    bits = draw(st.sampled_from([8, 16]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    channels = 1 if axis is None else shape[axis]
    pools = rng.integers(0, 2 ** (8 * itemsize) - 1, (channels, draw(st.integers(1, 12))), np.uint64, endpoint=True)
    specials = np.array([0, 1 << (8 * itemsize - 1)], np.uint64)  # 0.0 and -0.0
    pools = np.concatenate([pools, np.tile(specials, (channels, 1))], axis=1).astype(f"<u{itemsize}")
    chosen = rng.integers(0, pools.shape[1], (*shape, 2 if dtype in COMPLEX else 1))
    which = 0 if axis is None else np.indices(chosen.shape)[axis - 1]
    array = np.ascontiguousarray(pools[which, chosen]).view(array_type(dtype)).reshape(shape)
    return dtype, array, axis, bits


@settings(max_examples=120)
@given(arrays_of_few_values())
def test_palettes_and_codes_are_the_definition(given_array: tuple[str, Array, int | None, int]) -> None:
    dtype, array, axis, bits = given_array
    plan = codecs.Plan.single("small", dtype, (Palette(axis, bits), Planes(), Lz4()))
    frame = codecs.encode(array, plan, dtype=dtype)
    header, blocks = look_inside(frame)
    assert same_bits(codecs.decode(frame), array)
    assert (header.value, header.bits) == (2, bits)
    assert header.axis == (255 if axis is None else array.ndim + axis)
    palettes, codes = definitions.palette(array, axis, bits, dtype)
    assert [p.tolist() for p in header.palettes] == [p.tolist() for p in palettes]
    assert [p.tobytes() for p in blocks[0]] == [p.tobytes() for p in definitions.byte_planes(codes)]


@settings(max_examples=120)
@given(arrays_of_few_values(), st.booleans())
def test_the_definition_is_decoded(given_array: tuple[str, Array, int | None, int], of_plan: bool) -> None:
    dtype, array, axis, bits = given_array
    palettes, codes = definitions.palette(array, axis, bits, dtype)
    place = 255 if axis is None else array.ndim + axis
    if of_plan:
        assets = Assets(craft.assets(craft.owned_palette(dtype, palettes, bits, place)))
        plans = [codecs.Plan.single("raw", dtype, (Raw(),), assets)]
        chain = craft.chain(craft.palette_of_plan(bits, place))
        frame = craft.frame(dtype, array.shape, chain, [codes.tobytes()], plan_hash=assets.hash)
    else:
        plans = []
        chain = craft.chain(craft.palette_in_frame(palettes, bits, place))
        frame = craft.frame(dtype, array.shape, chain, [codes.tobytes()])
    assert same_bits(codecs.decode(frame, plans=plans), array)


def test_a_palette_of_the_plan_is_not_in_the_frame() -> None:
    rng = np.random.default_rng(0)
    pools = rng.standard_normal((3, 256)).astype(np.float32)
    images = [np.stack([pool[rng.integers(0, 256, (16, 16))] for pool in pools]) for _ in range(20)]
    plan = codecs.plan(images, "balanced", own=True)
    assert str(plan).startswith("palette[channel]")
    frame = codecs.encode(images[0], plan)
    assert codecs.frame_info(frame).plan_hash == plan.chains[0].assets.hash
    assert len(frame) < 3 * 16 * 16 + 100 < 3 * 256 * 4
    assert same_bits(codecs.decode(frame, plans=plan), images[0])
    header, _ = look_inside(frame, plan)
    gathered = definitions.palette(np.stack(images, axis=2).reshape(3, -1), 0)[0]
    assert [p.tolist() for p in header.palettes] == [p.tolist() for p in gathered]


@pytest.mark.parametrize("source", ["formula", "plan"])
def test_other_values_than_the_plans_are_kept_in_the_frame(source: str) -> None:
    formula = Formula((("/", (255.0,)),))
    values = (np.arange(256, dtype=np.float32) / np.float32(255)).view(np.uint32)
    assets = Assets(craft.assets(craft.owned_palette("float32", [values]))) if source == "plan" else Assets()
    stage = Palette(None, 8, source, formula if source == "formula" else None)
    plan = codecs.Plan.single("balanced", "float32", (stage, Lz4()), assets)
    known = np.tile(values.view(np.float32)[20:220], 30)
    frame = codecs.encode(known, plan)
    assert len(frame) < 400
    other = known.copy()
    other[5] = 7.0
    missed = codecs.encode(other, plan)
    header, _ = look_inside(missed, plan)
    assert header.value == 2
    assert sorted(header.palettes[0].view(np.float32).tolist()) == sorted(set(other.tolist()))
    assert codecs.frame_info(missed).plan_hash is None
    assert same_bits(codecs.decode(missed), other)


def test_too_many_values_need_no_palette() -> None:
    plan = codecs.Plan.single("balanced", "float32", (Palette(), Lz4()))
    array = np.arange(257 * 4, dtype=np.float32) % 257
    frame = codecs.encode(array, plan)
    assert look_inside(frame)[0].value == 0
    assert same_bits(codecs.decode(frame), array)


@pytest.mark.parametrize("values", [255, 256, 257, 65535, 65536])
def test_sixteen_bits_hold_many_values(values: int) -> None:
    array = np.repeat(np.arange(values, dtype=np.uint32).view(np.float32), 3)
    frame = codecs.encode(array, codecs.Plan.single("fast", "float32", (Palette(bits=16), Raw())))
    assert same_bits(codecs.decode(frame), array)
    # one code of 65,536 may be kept back; then there is no palette
    assert values == 65536 or look_inside(frame)[0].bits == 16


def test_an_axis_that_the_array_lacks() -> None:
    plan = codecs.Plan.single("balanced", "float32", (Palette(-3), Lz4()))
    for shape in [(), (40,), (5, 8)]:
        array = np.ones(shape, np.float32)
        assert same_bits(codecs.decode(codecs.encode(array, plan)), array)
