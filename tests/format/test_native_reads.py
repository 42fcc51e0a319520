"""The native decoder and the plain reader give the same arrays: of crafted frames, and of those the encoder writes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs import Goal
from tests.format.support.craft import DTYPES, Array
from tests.format.support.formulas import FORMULAS
from tests.format.support.readers import native_read, owned_by, reader, same_bits
from tests.format.support.recipe import Crafted
from tests.format.support.samples import SAMPLES, array_type, few_floats, random_bits, skewed, smooth
from tests.format.test_reader import flat_frames, image_frames

CRAFTED = SAMPLES | FORMULAS
GOALS: tuple[Goal, ...] = ("small", "balanced", "fast", "raw")


def assert_native_reads(crafted: Crafted) -> None:
    array, dtype = native_read(crafted.frame, crafted.assets)
    assert dtype == crafted.dtype
    assert same_bits(array, crafted.array)


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted(name: str) -> None:
    assert_native_reads(CRAFTED[name])


@settings(max_examples=400, deadline=None)
@given(st.one_of(flat_frames(), image_frames()))
def test_any_crafted(crafted: Crafted) -> None:
    assert_native_reads(crafted)


def assert_plainly_read(frame: bytes, plan: codecs.Plan | None, array: Array, dtype: str) -> None:
    owned = owned_by(plan)
    found, name = reader.read(frame, owned)
    assert name == dtype
    assert same_bits(found, array)


def arrays_of(dtype: str) -> dict[str, Array]:
    """Small arrays of every kind that the chooser tells apart."""
    kind = array_type(dtype)
    arrays = {
        "noise": random_bits(dtype, (7, 40)),
        "scalar": random_bits(dtype, ()),
        "one": random_bits(dtype, (1,)),
        "empty": np.zeros((2, 0), kind),
        "constant": np.zeros(300, kind),
        "few": few_floats(dtype, (3, 12, 12)) if dtype != "bool" else random_bits(dtype, (3, 12, 12)),
        "runs": np.repeat(random_bits(dtype, (20,)), 60),
    }
    if kind.kind in "iu" and dtype == kind.name:
        arrays["image"] = smooth((3, 24, 24), dtype)
        arrays["ramp"] = np.arange(500).astype(kind)
        arrays["small numbers"] = skewed(600).astype(kind)
    if kind.kind == "f":
        arrays["weights"] = (np.random.default_rng(3).standard_normal(600) * 0.02).astype(kind)
        arrays["signed zeros"] = np.array([-0.0, 0.0, 1.0, np.inf, np.nan] * 60, kind)
        largest, smallest = np.nextafter(np.array([np.inf, 0.0], kind), np.array([0.0, 1.0], kind))
        arrays["far apart"] = np.array([0.0, smallest, largest] * 60, kind)
        pixels = smooth((3, 20, 20)).astype(np.float32)
        arrays["normalised"] = ((pixels / np.float32(255) - np.float32(0.45)) / np.float32(0.225)).astype(kind)
    return arrays


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_encoded_alone(dtype: str, goal: Goal) -> None:
    for array in arrays_of(dtype).values():
        frame = codecs.encode(array, goal, dtype=dtype)
        assert codecs.frame_info(frame).plan_hash is None
        assert_plainly_read(frame, None, array, dtype)
        assert same_bits(native_read(frame)[0], array)


@pytest.mark.slow
@pytest.mark.parametrize("own", [False, True], ids=["alone", "own"])
@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_encoded_with_a_plan(dtype: str, goal: Goal, own: bool) -> None:
    for array in arrays_of(dtype).values():
        alike = [array, np.flip(array), np.roll(array, 3)]
        plan = codecs.plan(alike, goal, dtype=dtype, own=own)
        empty = [np.zeros(shape, array_type(dtype)) for shape in ((0,), (3, 0, 4), (0, 5, 5), (3, 5, 0))]
        for one in [*alike, random_bits(dtype, (5, 6)), random_bits(dtype, (3, 2, 2)), *empty]:
            frame = codecs.encode(one, plan, dtype=dtype)
            assert own or codecs.frame_info(frame).plan_hash is None
            assert_plainly_read(frame, plan, one, dtype)
            assert same_bits(codecs.decode(frame, plans=plan), one)


def kinds_owned(plan: codecs.Plan) -> set[str]:
    read = reader.read_plan(plan.chains[0].assets.encoded)
    kinds = {"palette": read.palette[0] >= 0, "tables": read.tables[0] >= 0, "dictionary": bool(read.dictionary)}
    return {kind for kind, owned in kinds.items() if owned}


def test_plans_own_things() -> None:
    """The plans above would prove little if none owned anything: here each kind of thing is owned, and used."""
    owned = set()
    images = [smooth((3, 16, 16), seed=seed) for seed in range(12)]
    patterns = list(few_floats("float32", (12, 3, 16, 16)))
    words = [np.frombuffer(b"%d: the same words over and over, number %d" % (i, i * i), np.uint8) for i in range(200)]
    for arrays in (images, patterns, words):
        for goal in GOALS:
            plan = codecs.plan(arrays, goal, own=True)
            for array in arrays[:4]:
                frame = codecs.encode(array, plan)
                assert_plainly_read(frame, plan, array, array.dtype.name)
                if codecs.frame_info(frame).plan_hash is not None:
                    owned |= kinds_owned(plan)
    assert owned == {"palette", "tables", "dictionary"}
