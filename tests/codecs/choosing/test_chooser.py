"""chooser: the chains that typical data gets, at every goal, and never a stage that does not help."""

import numpy as np
import pytest

from cordwood import codecs
from cordwood.codecs import Goal
from cordwood.codecs.chain import STAGES, costs
from cordwood.codecs.plan import GOALS, WEIGHT, Plan
from cordwood.codecs.stages.base import Stage
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd
from cordwood.errors import UsageError
from tests.codecs.support import definitions
from tests.codecs.support.definitions import Array
from tests.codecs.support.photographs import photographs
from tests.format.support.readers import same_bits
from tests.format.support.samples import few_floats, smooth

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def prediction(plan: Plan) -> Predict:
    (stage,) = (stage for stage in plan.chains[0].stages if isinstance(stage, Predict))
    return stage


def normalised(photograph: Array) -> Array:
    return definitions.normalize(np.ascontiguousarray(photograph.transpose(2, 0, 1)), MEAN, STD)


def total(arrays: list[Array], plan: Plan) -> int:
    return sum(map(len, codecs.encode_many(arrays, plan)))


@pytest.mark.parametrize("goal", ["small", "balanced"])
def test_normalised_photographs(goal: Goal) -> None:
    for photograph in photographs()[:5]:
        image = normalised(photograph)
        plan = codecs.plan(image, goal)
        assert str(plan) == f"palette[channel] | predict{'[mixed]' if goal == 'small' else ''} | entropy"
        assert prediction(plan).geometry == "chw"
        frame = codecs.encode(image, plan)
        assert codecs.frame_info(frame).chain == str(plan)
        assert same_bits(codecs.decode(frame), image)
        # the palette is a formula: the frame is hardly larger than the bytes' own
        pixels = np.ascontiguousarray(photograph.transpose(2, 0, 1))
        assert len(frame) < len(codecs.encode(pixels, goal)) + 120


def test_normalised_photographs_that_shall_be_read_fast() -> None:
    for photograph in photographs():
        image = normalised(photograph)
        frame = codecs.encode(image, "fast")
        assert codecs.frame_info(frame).chain.startswith("palette[channel]")
        assert len(frame) <= photograph.nbytes + 200
        assert same_bits(codecs.decode(frame), image)


def test_goals_trade_size_for_speed() -> None:
    images = [normalised(photograph) for photograph in photographs()]
    sizes = [total(images, codecs.plan(images, goal)) for goal in GOALS]
    assert sizes == sorted(sizes)
    small, balanced, fast, raw = sizes
    assert small < 0.97 * balanced < balanced < 0.85 * fast
    assert fast <= raw / 4 + 200 * len(images)
    assert raw < 1.001 * sum(image.nbytes for image in images) + 64 * len(images)


@pytest.mark.parametrize("goal", ["small", "balanced"])
@pytest.mark.parametrize("form", ["HWC", "CHW", "batch CHW", "grey", "RGBA"])
def test_photographs_as_bytes(form: str, goal: Goal) -> None:
    photograph = photographs()[0]
    chw = np.ascontiguousarray(photograph.transpose(2, 0, 1))
    alpha = np.full_like(photograph[..., :1], 255)
    forms: dict[str, tuple[Array, str]] = {
        "HWC": (photograph, "hwc"),
        "CHW": (chw, "chw"),
        "batch CHW": (np.stack([chw, chw[:, ::-1], chw[:, :, ::-1]]), "chw"),
        "grey": (np.ascontiguousarray(photograph[..., 1]), "hw"),
        "RGBA": (np.concatenate([photograph, alpha], axis=2), "hwc"),
    }
    image, geometry = forms[form]
    plan = codecs.plan(image, goal)
    assert str(plan) == f"narrow | predict{'[mixed]' if goal == 'small' else ''} | entropy"
    assert prediction(plan).geometry == geometry
    colors = ("none",) if form == "grey" else ("green", "previous") if goal == "small" else ("green",)
    assert prediction(plan).color in colors
    frame = codecs.encode(image, plan)
    assert len(frame) < 0.75 * image.nbytes
    assert same_bits(codecs.decode(frame), image)


@pytest.mark.parametrize("goal", ["small", "balanced"])
def test_sixteen_bit_images(goal: Goal) -> None:
    noise = np.random.default_rng(0).integers(0, 40, (200, 200))
    depth = (np.add.outer(np.arange(200) * 60, np.sin(np.arange(200) / 30) * 3000 + 9000) + noise).astype(np.uint16)
    plan = codecs.plan(depth, goal)
    assert str(plan).startswith("narrow | predict | planes | ")
    assert prediction(plan).kind == "med"
    frame = codecs.encode(depth, plan)
    assert len(frame) < 0.5 * depth.nbytes
    assert same_bits(codecs.decode(frame), depth)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("goal", ["small", "balanced"])
def test_weights(dtype: str, goal: Goal) -> None:
    weights = (np.random.default_rng(0).standard_normal(100_000) * 0.02).astype(np.float32)
    kinds: dict[str, Array] = {
        "float32": weights,
        "float16": weights.astype(np.float16),
        "bfloat16": (weights.view(np.uint32) >> 16).astype(np.uint16),
    }
    array = kinds[dtype]
    plan = codecs.plan(array, goal, dtype=dtype)
    assert str(plan) == "planes | entropy"
    frame = codecs.encode(array, plan, dtype=dtype)
    assert len(frame) < {"float32": 0.87, "bfloat16": 0.72, "float16": 0.92}[dtype] * array.nbytes
    assert same_bits(codecs.decode(frame), array)


@pytest.mark.parametrize("goal", ["small", "balanced"])
def test_timestamps_and_offsets(goal: Goal) -> None:
    steps = np.random.default_rng(0).integers(900, 1100, 50_000)
    array = 1_700_000_000_000 + np.cumsum(steps)
    plan = codecs.plan(array, goal)
    assert str(plan).startswith("narrow | predict[delta] |")
    frame = codecs.encode(array, plan)
    assert len(frame) < array.nbytes / 6
    assert same_bits(codecs.decode(frame), array)


@pytest.mark.parametrize("goal", ["small", "balanced", "fast"])
def test_noise_is_left_alone(goal: Goal) -> None:
    noise = np.frombuffer(np.random.default_rng(0).bytes(400_000), np.uint32)
    frame = codecs.encode(noise, goal)
    assert codecs.frame_info(frame).chain == "raw"
    assert len(frame) < noise.nbytes + 200


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("arrays", [[np.zeros(0, np.float32)], [np.zeros((3, 0)), np.zeros((0,))], np.zeros((0, 2, 3))])
def test_nothing_to_look_at(arrays: list[Array] | Array, goal: Goal) -> None:
    assert str(codecs.plan(arrays, goal)) == "raw"


def test_nothing_at_all() -> None:
    with pytest.raises(UsageError, match="at least one array"):
        codecs.plan(iter([]))


@pytest.mark.parametrize("goal", GOALS)
def test_an_array_alone_and_in_a_list_are_the_same(goal: Goal) -> None:
    image = smooth((3, 40, 40))
    assert codecs.plan(image, goal) == codecs.plan([image], goal) == codecs.plan(iter([image]), goal)


@pytest.mark.parametrize("goal", ["small", "balanced"])
def test_arrays_of_different_shapes(goal: Goal) -> None:
    images = [smooth((3, 20 + 5 * i, 60 - 3 * i), seed=i) for i in range(10)]
    plan = codecs.plan(images, goal)
    assert prediction(plan).geometry == "chw"
    mixed = [*images, smooth((40, 40)), smooth((50,)), smooth((2, 3, 20, 20))]
    mixed_plan = codecs.plan(mixed, goal)
    for image, frame in zip(mixed, codecs.encode_many(mixed, mixed_plan), strict=True):
        assert same_bits(codecs.decode(frame), image)


@pytest.mark.parametrize("goal", ["small", "balanced"])
def test_what_a_plan_owns_makes_small_arrays_smaller(goal: Goal) -> None:
    rng = np.random.default_rng(0)
    pools = rng.standard_normal((3, 200)).astype(np.float32)
    thumbnails = [np.stack([pool[rng.integers(0, 200, (12, 12))] for pool in pools]) for _ in range(40)]
    alone, owning = (codecs.plan(thumbnails, goal, own=own) for own in (False, True))
    assert total(thumbnails, owning) < 0.6 * total(thumbnails, alone)


def test_few_values_of_any_kind_get_a_palette() -> None:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        array = few_floats(dtype, (300, 100))
        plan = codecs.plan(array, "balanced", dtype=dtype)
        assert str(plan).startswith("palette")
        frame = codecs.encode(array, plan, dtype=dtype)
        assert len(frame) < 0.8 * array.size
        assert same_bits(codecs.decode(frame), array)


def test_a_plan_may_own_a_palette_that_small_samples_fill() -> None:
    """Almost every value occurs once: a palette in the frame would be as large as the array, the plan's is not."""
    values = np.random.default_rng(0).normal(size=(3, 126)).astype(np.float64)
    arrays = [np.random.default_rng(i).permuted(values, axis=1).reshape(3, 9, 14) for i in range(16)]
    for goal in ("small", "balanced", "fast"):
        plan = codecs.plan(arrays, goal, own=True)
        for array in arrays:
            assert np.array_equal(codecs.decode(codecs.encode(array, plan), plans=plan), array)


def per_byte(stages: tuple[Stage, ...], code_share: float) -> float:
    return costs(stages, code_share, owns=False)[1]


@pytest.mark.parametrize("kind", STAGES.values(), ids=STAGES)
def test_no_stage_is_free(kind: type[Stage]) -> None:
    assert per_byte((kind(),), 1.0) > per_byte((), 1.0) > 0


def test_faster_coders_cost_less() -> None:
    ordered = [Raw(), Lz4(), Entropy("huffman"), Entropy("ans")]
    found = [per_byte((stage,), 1.0) for stage in ordered]
    assert found == sorted(found)
    assert per_byte((Lz4(),), 1.0) < per_byte((Zstd(),), 1.0)


def test_fewer_codes_cost_less() -> None:
    for stages in ((Entropy(),), (Predict("med"), Entropy("ans")), (Predict("delta"), Planes(), Zstd())):
        assert per_byte(stages, 0.25) < per_byte(stages, 1.0)


def test_goals_weigh_time_ever_more() -> None:
    weights = [WEIGHT[goal] for goal in GOALS]
    assert weights == sorted(weights)
    assert len(set(weights)) == len(GOALS)


@pytest.mark.parametrize("dtype", ["uint64", "int64"])
def test_large_numbers_of_64_bits(dtype: str) -> None:
    """Where the lowest and the highest are far apart, or beyond what the other kind of 64 bits has."""
    limits = np.iinfo(dtype)
    draw = np.random.default_rng(0)
    for low, high in ((limits.max - 9000, limits.max), (limits.min, limits.min + 99), (limits.min, limits.max)):
        arrays = [draw.integers(low, high, (9, 9), dtype, endpoint=True) for _ in range(20)]
        for goal in GOALS:
            plan = codecs.plan(arrays, goal, own=True)
            for array in arrays:
                assert same_bits(codecs.decode(codecs.encode(array, plan), plans=plan), array)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8])
def test_arrays_that_are_too_small_for_a_dictionary(size: int) -> None:
    for dtype in ("uint8", "int16", "float32"):
        arrays = [np.full(size, number, dtype) for number in range(40)]
        plan = codecs.plan(arrays, "small", own=True)
        for array in arrays:
            assert same_bits(codecs.decode(codecs.encode(array, plan), plans=plan), array)
