"""Arrays to frames and back, bit for bit: every dtype, goal, shape and memory layout."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs import Goal
from cordwood.codecs.dtypes import DTYPES, BytesLike
from cordwood.codecs.plan import GOALS
from tests.codecs.support.definitions import Array
from tests.format.support.readers import same_bits
from tests.format.support.samples import array_type, few_floats, random_bits, smooth

SHAPES = [
    (),
    (0,),
    (0, 5),
    (3, 0, 2),
    (2, 3, 0),
    (1,),
    (1, 1, 1, 1),
    (7,),
    (13, 17),
    (3, 24, 20),
    (2, 3, 9, 10),
    (9, 10, 3),
]
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "every other": lambda a: a[::2],
    "columns cut": lambda a: a[:, 3:-2],
    "backwards": lambda a: a[::-1, ::-1],
    "transposed": lambda a: a.T,
    "Fortran": np.asfortranarray,
    "broadcast": lambda a: np.broadcast_to(a[:1], a.shape),
    "one row, stride 0": lambda a: np.broadcast_to(a[0, 0], (40, 30)),
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "unaligned": lambda a: np.frombuffer(b"\0" + a.tobytes(), a.dtype, offset=1).reshape(a.shape),
}


def contents(dtype: str, shape: tuple[int, ...]) -> list[Array]:
    """Noise, one value, few values; images where the dtype can hold one."""
    kind = array_type(dtype)
    made = [random_bits(dtype, shape), np.ones(shape, kind)]
    if dtype != "bool":
        made.append(few_floats(dtype, shape))
    if kind.kind in "iu" and kind.name == dtype and len(shape) > 1:
        made.append(smooth(shape, dtype))
    return made


def assert_round_trip(array: Array, goal: Goal, dtype: str) -> None:
    frame = codecs.encode(array, goal, dtype=dtype)
    info = codecs.frame_info(frame)
    assert (info.dtype, info.shape, info.nbytes, info.size) == (dtype, array.shape, array.nbytes, len(frame))
    decoded = codecs.decode(frame)
    assert same_bits(decoded, array)
    assert decoded.flags.writeable
    assert decoded.flags.c_contiguous
    out = np.full(array.shape, 1, array.dtype)
    assert codecs.decode(frame, out) is out
    assert same_bits(out, array)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_goal_and_shape(dtype: str, goal: Goal) -> None:
    for shape in SHAPES:
        for array in contents(dtype, shape):
            assert_round_trip(array, goal, dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64"])
def test_every_layout_in_memory(dtype: str, layout: str) -> None:
    for base in contents(dtype, (40, 30)):
        array = LAYOUTS[layout](base)
        kept = array.tobytes()
        for goal in GOALS:
            frame = codecs.encode(array, goal, dtype=dtype)
            assert frame == codecs.encode(np.array(array, order="C"), goal, dtype=dtype)
            assert same_bits(codecs.decode(frame), array)
        assert array.tobytes() == kept


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("dtype", ["u2", "i4", "u8", "f2", "f4", "f8", "c8", "c16"])
def test_big_endian_comes_back_as_little(dtype: str, goal: Goal) -> None:
    array = np.arange(120).reshape(10, 12).astype(f">{dtype}")
    decoded = codecs.decode(codecs.encode(array, goal))
    assert decoded.dtype == np.dtype(f"<{dtype}")
    assert np.array_equal(decoded, array)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("repeats", [1, 2, 400])
def test_bool_keeps_the_bytes_it_has(goal: Goal, repeats: int) -> None:
    array = np.tile(np.array([0, 1, 2, 255], np.uint8), repeats).view(np.bool_)
    decoded = codecs.decode(codecs.encode(array, goal))
    assert decoded.dtype == np.bool_
    assert decoded.view(np.uint8).tolist() == array.view(np.uint8).tolist()


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize(("dtype", "bits"), [("float16", 16), ("bfloat16", 16), ("float32", 32), ("float64", 64)])
def test_every_kind_of_float_keeps_its_bits(dtype: str, bits: int, goal: Goal) -> None:
    """NaNs with payloads, quiet and signalling, both zeros, denormals, infinities, largest and smallest."""
    fraction = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}[dtype]
    sign, infinity = 1 << (bits - 1), ((1 << (bits - 1 - fraction)) - 1) << fraction
    special = [0, 1, 2, (1 << fraction) - 1, 1 << fraction, infinity - 1, infinity, infinity + 1]
    special += [infinity + (1 << (fraction - 1)), infinity + (1 << (fraction - 1)) + 5, (1 << (bits - 1)) - 1]
    patterns = np.array([s | sign * negative for s in special for negative in (0, 1)], f"<u{bits // 8}")
    for repeats in (1, 100):
        array = np.tile(patterns, repeats).view(array_type(dtype))
        assert_round_trip(array, goal, dtype)
        assert_round_trip(array.reshape(2, -1), goal, dtype)


@pytest.mark.parametrize("goal", GOALS)
def test_every_float16_there_is(goal: Goal) -> None:
    every = np.arange(65536, dtype=np.uint16)
    for dtype in ("float16", "bfloat16"):
        assert_round_trip(every.view(array_type(dtype)), goal, dtype)
        assert_round_trip(
            np.random.default_rng(0).permutation(every).reshape(256, 256).view(array_type(dtype)), goal, dtype
        )


@st.composite
def any_arrays(draw: st.DrawFn) -> tuple[str, Array]:
    dtype = draw(st.sampled_from(list(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 12), max_size=4)))
    seed = draw(st.integers(0, 2**32))
    pool = random_bits(dtype, (draw(st.integers(1, 300)),), seed)
    order = np.random.default_rng(seed).integers(0, pool.size, shape)
    if draw(st.booleans()):
        order = np.sort(order, axis=None).reshape(shape)
    return dtype, pool[order]


@settings(max_examples=300)
@given(any_arrays(), st.sampled_from(GOALS))
def test_any_array(given_array: tuple[str, Array], goal: Goal) -> None:
    dtype, array = given_array
    assert_round_trip(array, goal, dtype)


@settings(max_examples=60)
@given(st.sampled_from(GOALS), st.lists(any_arrays(), min_size=1, max_size=4), st.booleans())
def test_any_array_with_a_plan_made_for_others(goal: Goal, given_arrays: list[tuple[str, Array]], own: bool) -> None:
    """A plan is chosen on some arrays; what other arrays hold must come back all the same."""
    dtype, first = given_arrays[0]
    plan = codecs.plan([first], goal, dtype=dtype, own=own)
    for _, other in given_arrays:
        usable = other.nbytes // first.itemsize * first.itemsize
        array = np.frombuffer(other.tobytes()[:usable], first.dtype)
        frame = codecs.encode(array, plan, dtype=dtype)
        assert same_bits(codecs.decode(frame, plans=plan), array)


def test_what_frame_info_tells() -> None:
    array = smooth((3, 64, 64)).astype(np.float32) / np.float32(255)
    frame = codecs.encode(array, "small")
    info = codecs.frame_info(frame)
    assert (info.dtype, info.shape) == ("float32", (3, 64, 64))
    assert (info.nbytes, info.size, info.version) == (3 * 64 * 64 * 4, len(frame), (1, 0))
    assert info.blocks == 1
    assert info.plan_hash is None
    assert info.chain == "palette[channel] | predict[mixed] | entropy"
    assert 15 < info.payload_offset < len(frame)
    assert codecs.frame_info(codecs.encode(np.zeros(0), "small")).blocks == 0
    assert codecs.frame_info(codecs.encode(random_bits("uint8", (1 << 20,)), "raw")).blocks == 4


@pytest.mark.parametrize("goal", GOALS)
def test_frames_in_any_kind_of_memory(goal: Goal) -> None:
    array = smooth((3, 30, 30))
    frame = codecs.encode(array, goal)
    shifted = b"?" + frame + b"?"
    as_array = np.frombuffer(frame, np.uint8)
    views: list[BytesLike] = [
        bytearray(frame),
        memoryview(frame),
        as_array,
        memoryview(shifted)[1:-1],
        np.frombuffer(shifted, "u1")[1:-1],
    ]
    for view in views:
        assert codecs.frame_info(view) == codecs.frame_info(frame)
        assert same_bits(codecs.decode(view), array)
    outs = [np.empty_like(array) for _ in views]
    codecs.decode_into(views, outs)
    assert all(same_bits(out, array) for out in outs)


def test_arrays_of_the_largest_rank() -> None:
    array = np.arange(6, dtype=np.int16).reshape((1,) * 30 + (2, 3))
    assert same_bits(codecs.decode(codecs.encode(array)), array)


@pytest.mark.parametrize("shape", [(0, 2**47), (2**40, 0), (2**28, 0, 2**27)])
def test_empty_arrays_with_huge_sides(shape: tuple[int, ...]) -> None:
    array = np.empty(shape, np.uint8)
    assert codecs.decode(codecs.encode(array)).shape == shape
