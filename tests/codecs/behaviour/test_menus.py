"""Menus: arrays of several kinds share a plan, and each gets about the smallest frame that the plan's chains make."""

from collections.abc import Callable

import numpy as np
import pytest

from cordwood import codecs
from tests.codecs.support.definitions import Array
from tests.codecs.support.short import is_short, short_frames, smallest
from tests.format.support.readers import same_bits

GOALS: tuple[codecs.Goal, ...] = ("small", "balanced")
Draw = np.random.Generator


def constant(shape: tuple[int, ...], draw: Draw) -> Array:
    return np.full(shape, draw.integers(0, 200))


def noise(shape: tuple[int, ...], draw: Draw) -> Array:
    return draw.integers(0, 256, shape)


def wave(shape: tuple[int, ...], draw: Draw) -> Array:
    grid = np.indices(shape).sum(axis=0) / draw.uniform(4, 9)
    made: Array = np.sin(grid) * 100 + 120 + draw.integers(0, 4, shape)
    return made


def mask(shape: tuple[int, ...], draw: Draw) -> Array:
    made: Array = (np.indices(shape)[-1] > draw.integers(3, 20)) * 255
    return made


def levels(shape: tuple[int, ...], draw: Draw) -> Array:
    return draw.choice(np.random.default_rng(5).normal(size=20), shape)


def weights(shape: tuple[int, ...], draw: Draw) -> Array:
    return draw.normal(size=shape) * 0.02


BYTES: dict[str, Callable[..., Array]] = {"constant": constant, "noise": noise, "wave": wave, "mask": mask}
FLOATS: dict[str, Callable[..., Array]] = {"constant": constant, "levels": levels, "weights": weights, "mask": mask}


def mixed(dtype: str, shape: tuple[int, ...], seed: int, each: int = 8) -> list[tuple[str, Array]]:
    """So many arrays of each kind, in turn."""
    draw = np.random.default_rng(seed)
    kinds = BYTES if dtype.startswith("uint") else FLOATS
    return [(kind, make(shape, draw).astype(dtype)) for _ in range(each) for kind, make in kinds.items()]


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("shape", [(24, 24), (3, 40, 48), (3, 200, 200)], ids=["576", "6 thousand", "120 thousand"])
def test_each_array_has_about_the_smallest_frame_of_the_menu(
    shape: tuple[int, ...], dtype: str, goal: codecs.Goal
) -> None:
    seen = mixed(dtype, shape, seed=1, each=8 if len(shape) == 2 else 3)
    plan = codecs.plan([array for _, array in seen], goal, own=True)
    assert len(plan.chains) > 1
    others = mixed(dtype, shape, seed=2, each=2)  # none that the plan was chosen on
    if len(shape) == 3 and goal == "balanced":
        # Where an array is not small, what a mask takes is estimated, and as if a Huffman code could be below one bit.
        others = [(kind, array) for kind, array in others if kind != "mask"]
    frames = short_frames([array for _, array in others], plan)
    for (kind, array), frame in zip(others, frames, strict=True):
        assert same_bits(codecs.decode(frame, plans=plan), array)
        # "balanced" pays bytes for what is read quicker: a part of the array's, not of the frame's
        room = 0.03 * array.nbytes * 2 + 50 if goal == "balanced" else 16 + array.nbytes / 1000
        assert len(frame) <= 1.03 * smallest(array, plan) + room, (kind, plan)


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_kinds_do_not_spoil_each_other(dtype: str, goal: codecs.Goal) -> None:
    """A plan for all of them is hardly worse than one for each."""
    seen, others = mixed(dtype, (24, 24), seed=1, each=12), mixed(dtype, (24, 24), seed=2, each=4)
    common = codecs.plan([array for _, array in seen], goal, own=True)
    for kind in dict(seen):
        alike, asked = ([array for name, array in some if name == kind] for some in (seen, others))
        own = codecs.plan(alike, goal, own=True)
        together, apart = (sum(map(len, short_frames(asked, plan))) for plan in (common, own))
        assert together <= 1.06 * apart + 0.01 * sum(array.nbytes for array in asked), kind


def test_constants_are_next_to_nothing_and_noise_is_left_alone() -> None:
    arrays = mixed("uint8", (24, 24), seed=1)
    plan = codecs.plan([array for _, array in arrays], "small", own=True)
    for (kind, array), frame in zip(arrays, short_frames([array for _, array in arrays], plan), strict=True):
        assert is_short(frame)
        if kind == "constant":
            assert len(frame) <= 4
        if kind == "noise":
            assert len(frame) <= array.nbytes + 4


@pytest.mark.parametrize("goal", ["small", "balanced", "fast"])
def test_frames_do_not_depend_on_the_number_of_threads(goal: codecs.Goal) -> None:
    arrays = [array for shape in ((9, 9), (24, 24), (90, 100)) for _, array in mixed("float32", shape, 1, each=6)]
    plan = codecs.plan(arrays, goal, own=True)
    frames = short_frames(arrays, plan)
    assert len({frame[0] for frame in frames}) > 1  # several chains, or full frames and short ones
    assert short_frames(arrays, plan, threads=2) == frames
    assert short_frames(arrays, plan, threads=7) == frames
    assert short_frames(arrays[::-1], plan, threads=3) == frames[::-1]  # nor on the neighbours
    assert codecs.plan(arrays, goal, own=True) == plan
    large = np.random.default_rng(0).choice(np.random.default_rng(5).normal(size=20), (900, 900)).astype(np.float32)
    assert codecs.encode(large, plan, threads=1) == codecs.encode(large, plan, threads=4)
