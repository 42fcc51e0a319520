"""chain: templates byte by byte, how a reader settles them, and that short frames bring every array back."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.assets import Assets
from cordwood.codecs.chain import Chain, Shape
from cordwood.codecs.dtypes import DTYPES, Array
from cordwood.codecs.formula import Formula
from cordwood.codecs.plan import GOALS, Goal, Plan
from cordwood.codecs.stages.base import Stage
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd
from tests.codecs.support.plans import plans
from tests.codecs.support.short import array_of, arrays, is_short, shapes, short_frame, short_frames
from tests.format.support.craft import assets, owned_palette, varint
from tests.format.support.craft_coding import CONSTANT
from tests.format.support.readers import same_bits
from tests.format.support.samples import random_bits, smooth

IMAGE: Shape = (3, None, None)
FORMULA = Formula((("*", (2.0,)),), "float32", 9)


# ---- templates -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "stages", "shape", "template"),
    [
        ("float32", (Raw(),), (), "00 00 00 00"),
        ("int16", (Narrow(), Raw()), (None,), "01 00 00 00"),
        ("int32", (Narrow(), Predict("delta", lag=300), Planes(), Zstd()), (7,), "01 02 ac02 01 01 00 00 0c"),
        ("uint8", (Predict("med", "hwc", "previous"), Entropy("ans", tile=8)), IMAGE, "00 01 02 02 00 01 01 03 03"),
        ("float32", (Planes(rotated=True), Lz4()), (5, 5), "00 00 02 01 00 00 0c"),
        ("float32", (Palette(source="plan"), Raw()), (4,), "02 08 ff 02 00 00 00"),
        ("float64", (Palette(-3, 16, "plan"), Raw()), IMAGE, "02 10 00 02 00 00 00"),
    ],
)  # fmt: skip
def test_templates(dtype: str, stages: tuple[Stage, ...], shape: Shape, template: str) -> None:
    made = Chain(stages).with_short(dtype, shape).short
    assert made is not None
    assert made.hex() == template.replace(" ", "")


@pytest.mark.parametrize(("axis", "shape", "good"), [(-1, (4, 3), True), (-1, (4, 2), False), (None, (4, 3), False)])
def test_a_formula_of_other_channels_has_no_template(axis: int | None, shape: Shape, good: bool) -> None:
    """A reader would take operands for the rest of the template."""
    of_each = Formula((("*", (1.0, 2.0, 3.0)), ("+", (0.5,))), "float32", 9)
    chain = Chain((Palette(axis, 8, "formula", of_each), Raw())).with_short("float32", shape)
    assert (chain.short is not None) == good
    assert Plan.from_json(Plan("fast", "float32", (chain,), shape).to_json()).shape == shape


def test_the_template_of_a_formula_has_the_formula_of_a_full_frame() -> None:
    stages = (Palette(None, 8, "formula", FORMULA), Raw())
    made = Chain(stages).with_short("float32", (4,)).short
    assert made == bytes([2, 8, 255, 1]) + FORMULA.to_bytes() + bytes(3)


@pytest.mark.parametrize(
    ("stages", "shape"),
    [
        ((Raw(),), None),
        ((Palette(), Raw()), (4,)),  # in the frame: no frame is so short
        ((Palette(-3, 8, "plan"), Raw()), (None, 4, 4)),  # as many palettes as there are channels: who knows how many
        ((Palette(-3, 8, "plan"), Raw()), (4, 4)),  # an axis that the arrays lack
    ],
)
def test_chains_without_a_template(stages: tuple[Stage, ...], shape: Shape | None) -> None:
    assert Chain(stages).with_short("float32", shape).short is None


# ---- settling: each of the rules that a reader follows ---------------------------------------------------------------

CODED = Entropy("huffman")
SQUARE = smooth((16, 16))


@pytest.mark.parametrize(
    ("dtype", "stages", "shape", "array", "chain"),
    [
        pytest.param("int16", (Narrow(), Predict("delta"), CODED), (None,), np.zeros(0, np.int16), "raw", id="empty"),
        pytest.param(
            "int16", (Narrow(), Predict("delta"), CODED), (None,), np.full(90, -7, np.int16), "narrow | raw",
            id="codes of no bits",
        ),
        pytest.param(
            "uint8", (Narrow(), Predict("delta"), Zstd()), (None,), np.arange(900, dtype=np.uint8) // 9 % 2,
            "narrow | zstd", id="codes of one bit",
        ),
        pytest.param(
            "uint8", (Narrow(), Predict("med", "hw"), Zstd()), (None, None), np.indices((64, 64), np.uint8)[0] % 2 + 3,
            "narrow | zstd", id="med of one bit",
        ),
        pytest.param(
            "int64", (Narrow(), Predict("med", "hw"), Planes(), CODED), (None, None),
            SQUARE.astype(np.int64) << 14, "narrow | planes | entropy", id="med of wide codes",
        ),
        pytest.param(
            "complex64", (Predict("med", "hw"), Planes(), CODED), (None, None),
            (SQUARE // 64).astype(np.complex64), "planes | entropy", id="med of complex numbers",
        ),
        pytest.param(
            "uint8", (Predict("med", "chw"), Zstd()), (None, None), np.tile(SQUARE, (1, 9)), "zstd",
            id="med of too few dimensions",
        ),
        pytest.param(
            "int32", (Narrow(), Predict("med", "hw"), CODED), (None, None), SQUARE.astype(np.int32) * 200,
            "narrow | predict | planes | entropy", id="planes of 16-bit med",
        ),
        pytest.param(
            "int32", (Narrow(), Planes(), CODED), (None, None), np.tile(SQUARE, 9).astype(np.int32), "narrow | entropy",
            id="planes of codes of a byte",
        ),
        pytest.param(
            "int64", (Narrow(), Planes(rotated=True), CODED), (None, None), SQUARE.astype(np.int64) * 3000,
            "narrow | planes | entropy", id="rotated planes of codes",
        ),
        pytest.param(
            "uint8", (Predict("med", "hwc", "green"), CODED), (None, None, None), np.stack([SQUARE] * 2, axis=2),
            "predict | entropy", id="green of two channels",
        ),
    ],
)  # fmt: skip
def test_a_template_settles_for_arrays_that_it_was_not_made_for(
    dtype: str, stages: tuple[Stage, ...], shape: Shape, array: Array, chain: str
) -> None:
    array = np.ascontiguousarray(array)
    plan = Plan("small", dtype, (Chain(stages).with_short(dtype, shape),), shape)
    frame = short_frame(array, plan)
    assert is_short(frame)
    assert codecs.frame_info(frame, plan).chain == chain
    assert same_bits(codecs.decode(frame, plans=plan), array)


def test_more_channels_than_an_image_may_have() -> None:
    """A reader takes short frames of any size: these have as many channels as med serves, and one more."""
    template = Chain((Predict("med", "hwc"), Zstd())).with_short("uint8", (1, 1, None))
    plan = Plan("small", "uint8", (template,), (1, 1, None))
    for channels, planes in ((65536, 65536), (65537, 1)):
        block = bytes([CONSTANT]) * planes + b"\x06" * planes
        array = codecs.decode(bytes([0]) + varint(channels) + block, plans=plan)
        assert same_bits(array, np.full((1, 1, channels), 3 if planes > 1 else 6, np.uint8))


def test_narrow_is_left_out_where_it_gains_nothing() -> None:
    plan = Plan("small", "uint8", (Chain((Narrow(), Raw())).with_short("uint8", (None,)),), (None,))
    array = np.arange(256, dtype=np.uint8)
    frame = short_frame(array, plan)
    assert frame == b"\x00\x80\x02\x06" + array.tobytes()
    assert same_bits(codecs.decode(frame, plans=plan), array)


def test_a_short_frame_byte_by_byte() -> None:
    """The chain's number, the dimension that varies, the range (8 bits, no shift), the minimum in zigzag, the codes."""
    chains = (Chain((Zstd(),)).with_short("int32", (None, 2)), Chain((Narrow(), Raw())).with_short("int32", (None, 2)))
    plan = Plan("small", "int32", chains, (None, 2))
    array = np.array([[-3, 5], [0, 100], [7, -3]], np.int32)
    frame = short_frame(array, plan)
    assert frame == bytes([1, 3, 2, 5, 0, 8, 3, 103, 10, 0])
    assert same_bits(codecs.decode(frame, plans=plan), array)


def test_a_constant_takes_no_more_than_its_value() -> None:
    plan = Plan("small", "int32", (Chain((Narrow(), CODED)).with_short("int32", (8, 8)),), (8, 8))
    array = np.full((8, 8), 1000, np.int32)
    frame = short_frame(array, plan)
    assert frame == bytes([0, 0, 0xD0, 0x0F])
    assert same_bits(codecs.decode(frame, plans=plan), array)


def test_palettes_of_the_plan_and_of_every_channel() -> None:
    values = [np.arange(5, dtype="<f4") * k for k in (1, 2, 3)]
    owned = Assets(assets(owned_palette("float32", values, axis=0)))
    stages = (Palette(-3, 8, "plan"), Predict("med", "chw"), Entropy("ans"))
    plan = Plan("small", "float32", (Chain(stages, owned).with_short("float32", IMAGE),), IMAGE)
    for height, width in ((4, 9), (16, 3), (1, 1), (0, 5)):
        codes = np.random.default_rng(width).integers(0, 5, (3, height, width))
        array = np.stack([one[code] for one, code in zip(values, codes, strict=True)]).astype(np.float32)
        frame = short_frame(array, plan)
        assert is_short(frame)
        assert len(frame) <= array.size + 6
        assert same_bits(codecs.decode(frame, plans=plan), array)


# ---- any array -------------------------------------------------------------------------------------------------------


def fits(array: Array, plan: Plan) -> bool:
    """Whether the array has the shape that short frames of the plan have."""
    return (
        plan.shape is not None
        and len(plan.shape) == array.ndim
        and all(wanted in (None, size) for size, wanted in zip(array.shape, plan.shape, strict=True))
    )


@settings(max_examples=400)
@given(plans(), shapes(), st.lists(st.booleans(), min_size=4, max_size=4), st.data())
def test_any_chain_brings_any_small_array_back(
    one: Plan, usual: tuple[int, ...], varies: list[bool], data: st.DataObject
) -> None:
    shape = tuple(None if free else size for size, free in zip(usual, varies, strict=False))
    plan = Plan(one.goal, one.dtype, (one.chains[0].with_short(one.dtype, shape),), shape)
    assert Plan.from_json(plan.to_json()) == plan
    given_to_it = [
        array_of("noise", one.dtype, usual, 1),
        *data.draw(st.lists(arrays(one.dtype, shapes()), max_size=3)),
    ]
    for array, frame in zip(given_to_it, short_frames(given_to_it, plan), strict=True):
        if is_short(frame):
            assert fits(array, plan)
            assert frame[0] == 0
        assert same_bits(codecs.decode(frame, plans=plan), array)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(GOALS), st.sampled_from(list(DTYPES)), shapes(9), st.data())
def test_a_plan_of_some_arrays_serves_all_others(
    goal: Goal, dtype: str, usual: tuple[int, ...], data: st.DataObject
) -> None:
    sizes = tuple(data.draw(st.just(size) | st.integers(0, 9)) for size in usual)
    alike = data.draw(st.lists(arrays(dtype, st.just(usual) | st.just(sizes)), min_size=1, max_size=9))
    plan = codecs.plan(alike, goal, dtype=dtype, own=True)
    others = data.draw(st.lists(arrays(dtype, st.just(usual) | shapes(20)), max_size=4))
    for array, frame in zip(alike + others, short_frames(alike + others, plan), strict=True):
        assert is_short(frame) <= fits(array, plan)
        assert same_bits(codecs.decode(frame, plans=plan), array)
        info = codecs.frame_info(frame, plan)
        assert (info.dtype, info.shape, info.nbytes, info.size) == (dtype, array.shape, array.nbytes, len(frame))


@pytest.mark.parametrize("goal", GOALS)
def test_arrays_that_the_plan_was_chosen_on_have_short_frames(goal: Goal) -> None:
    for dtype in DTYPES:
        alike = [random_bits(dtype, (5, 4 + k), k) for k in range(9)]
        plan = codecs.plan(alike, goal, dtype=dtype, own=True)
        assert plan.shape == (5, None)
        for array, frame in zip(alike, short_frames(alike, plan), strict=True):
            assert is_short(frame), dtype
            assert len(frame) <= array.nbytes + 12, dtype


@pytest.mark.parametrize("goal", GOALS)
def test_large_arrays_have_full_frames(goal: Goal) -> None:
    """A short frame has no checksums of its own, and a large array has blocks."""
    alike = [random_bits("uint8", (size,), size) for size in (16384, 16385)]
    plan = codecs.plan(alike, goal, own=True)
    frames = short_frames(alike, plan)
    assert list(map(is_short, frames)) == [True, False]
    for array, frame in zip(alike, frames, strict=True):
        assert same_bits(codecs.decode(frame, plans=plan), array)


def test_a_plan_goes_to_other_processes() -> None:
    alike = [smooth((6, 6), seed=k) for k in range(9)]
    plan = codecs.plan(alike, "small", own=True)
    frames = short_frames(alike, plan)
    again = pickle.loads(pickle.dumps(plan))
    assert short_frames(alike, again) == frames
