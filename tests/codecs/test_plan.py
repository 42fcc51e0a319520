"""plan: a readable chain that serves any array of its dtype, what it owns, and who needs it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.assets import Assets
from cordwood.codecs.dtypes import DTYPES, Array
from cordwood.codecs.plan import GOALS, Plan, fallback
from cordwood.codecs.stages.base import Stage
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.palette import Palette
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd
from cordwood.errors import FormatError, UsageError
from tests.codecs.support.plans import plans
from tests.format.support.craft import assets, owned_palette
from tests.format.support.readers import same_bits
from tests.format.support.samples import few_floats, random_bits, smooth


@settings(max_examples=300)
@given(plans(), st.integers(0, 99), st.lists(st.integers(0, 20), max_size=4))
def test_any_plan_brings_any_array_back(plan: Plan, seed: int, shape: list[int]) -> None:
    made = [random_bits(plan.dtype, tuple(shape), seed), np.zeros(shape, DTYPES[plan.dtype].numpy)]
    if plan.dtype != "bool":
        made.append(few_floats(plan.dtype, tuple(shape), seed))
    for array in made:
        frame = codecs.encode(array, plan, dtype=plan.dtype)
        assert same_bits(codecs.decode(frame), array)


@pytest.mark.parametrize(
    ("stages", "shown"),
    [
        ((Raw(),), "raw"),
        ((Narrow(), Raw()), "narrow | raw"),
        ((Palette(-3), Predict("med", "chw", "green"), Entropy("ans")), "palette[channel] | predict | entropy"),
        ((Palette(), Zstd()), "palette | zstd"),
        ((Predict("delta"), Planes(), Lz4()), "predict[delta] | planes | lz4"),
    ],
)
def test_how_it_prints(stages: tuple[Stage, ...], shown: str) -> None:
    dtype = "int16" if isinstance(stages[0], Narrow) else "float32"
    assert str(Plan("small", dtype, stages)) == shown


@pytest.mark.parametrize(
    ("goal", "dtype", "stages", "message"),
    [
        ("tiny", "uint8", (Raw(),), "goal must be 'small', 'balanced', 'fast' or 'raw', got 'tiny'"),
        ("small", "uint9", (Raw(),), "dtype must be 'bool', 'uint8'"),
        ("small", "uint8", (), "does not go value | predict | planes | coder"),
        ("small", "uint8", (Narrow(),), "does not go value | predict | planes | coder"),
        ("small", "uint8", (Raw(), Narrow()), "the chain raw | narrow does not go"),
        ("small", "uint8", (Zstd(), Lz4()), "one of each at most"),
        ("small", "float32", (Narrow(), Palette(), Raw()), "one of each at most"),
    ],
)
def test_chains_that_cannot_be(goal: str, dtype: str, stages: tuple[Stage, ...], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Plan(goal, dtype, stages)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("dtype", "stages"),
    [
        ("float32", (Narrow(), Raw())),
        ("complex64", (Narrow(), Zstd())),
        ("float8_e5m2", (Narrow(), Raw())),
        ("uint8", (Palette(), Raw())),
        ("int32", (Palette(), Lz4())),
        ("float8_e4m3fn", (Palette(), Zstd())),
        ("complex64", (Palette(-1), Raw())),
        ("uint8", (Predict("delta"), Raw())),
        ("uint8", (Predict("med"), Raw())),
        ("float32", (Planes(), Raw())),
    ],
    ids=str,
)
def test_stages_that_do_not_go_together(dtype: str, stages: tuple[Stage, ...]) -> None:
    """Either the plan cannot be made, or it leaves out what cannot be: never a frame that no reader takes."""
    array = few_floats(dtype, (6, 50)) if dtype != "uint8" else smooth((6, 50))
    try:
        frame = codecs.encode(array, Plan("small", dtype, stages), dtype=dtype)
    except UsageError as error:
        assert any(word in str(error) for word in ("narrow", "palette", "predict", "planes"))
        return
    assert same_bits(codecs.decode(frame), array)


def test_the_same_plan_and_array_give_the_same_bytes() -> None:
    images = [smooth((3, 40, 40), seed=i) for i in range(6)]
    for goal in GOALS:
        for own in (False, True):
            once, again = (codecs.plan(images, goal, own=own) for _ in range(2))
            assert once == again
            assert once.to_json() == again.to_json()
            kept = Plan.from_json(once.to_json())
            assert [codecs.encode(i, once) for i in images] == [codecs.encode(i, kept) for i in images]


def test_one_plan_serves_one_dtype() -> None:
    with pytest.raises(UsageError, match=r"one plan serves one dtype, but these arrays have float32, uint8"):
        codecs.plan([np.zeros(3, np.uint8), np.zeros(3, np.float32)])
    with pytest.raises(UsageError, match="at least one array"):
        codecs.plan([])


def owning_plans() -> list[Plan]:
    rng = np.random.default_rng(0)
    lines = [np.minimum(rng.geometric(0.05, 300), 255).astype(np.uint8) for _ in range(40)]
    words = [np.frombuffer(b"%d words and the same words again, number %d" % (i, i) * 3, np.uint8) for i in range(200)]
    floats = [few_floats("float32", (3, 20, 20), 1) for _ in range(4)]
    return [codecs.plan(arrays, "small", own=True) for arrays in (lines, words, floats)]


OWNED = {
    "tables": np.minimum(np.random.default_rng(9).geometric(0.05, 300), 255).astype(np.uint8),
    "dictionary": np.frombuffer(b"77 words and the same words again, number 77" * 3, np.uint8),
    "palette": few_floats("float32", (3, 20, 20), 1),
}


@pytest.fixture(scope="module")
def owners() -> dict[str, Plan]:
    return dict(zip(OWNED, owning_plans(), strict=True))


@pytest.mark.parametrize("owned", OWNED)
def test_a_frame_that_uses_what_the_plan_owns_needs_the_plan(owned: str, owners: dict[str, Plan]) -> None:
    array, plan = OWNED[owned], owners[owned]
    frame = codecs.encode(array, plan)
    assert codecs.frame_info(frame).plan_hash == plan.hash
    assert same_bits(codecs.decode(frame, plans=plan), array)
    assert same_bits(codecs.decode(frame, plans=Plan.from_json(plan.to_json())), array)
    others = [other for name, other in owners.items() if name != owned]
    for plans_given in (None, [], others[0], others):
        with pytest.raises(FormatError, match=r"16, plan-missing.*Pass the plan") as caught:
            codecs.decode(frame, plans=plans_given)
        assert caught.value.reason == 16
        with pytest.raises(FormatError) as caught:
            codecs.decode_into([frame, frame], [array.copy(), array.copy()], plans=plans_given)
        assert caught.value.reason == 16


def test_a_plan_that_owns_nothing_is_never_named() -> None:
    for goal in GOALS:
        plan = codecs.plan(smooth((3, 30, 30)), goal)
        assert plan.assets == Assets()
        assert codecs.frame_info(codecs.encode(smooth((3, 30, 30)), plan)).plan_hash is None


def test_arrays_beside_the_plans_palette_stay_exact(owners: dict[str, Plan]) -> None:
    plan = owners["palette"]
    rng = np.random.default_rng(1)
    beside: list[Array] = [
        few_floats("float32", (3, 20, 20), 2),
        rng.standard_normal((3, 20, 20)).astype(np.float32),
        OWNED["palette"][:2],
        OWNED["palette"][0],
        np.zeros((3, 0, 20), np.float32),
        np.full((), 1.5, np.float32),
        np.full((3, 20, 20), np.nan, np.float32),
    ]
    for array in beside:
        frame = codecs.encode(array, plan)
        assert same_bits(codecs.decode(frame, plans=plan), array)


def test_a_palette_for_another_number_of_channels_or_axis() -> None:
    values = np.arange(4, dtype=np.float32).view(np.uint32)
    owned = Assets(assets(owned_palette("float32", [values] * 3, 8, 0)))
    plan = Plan("small", "float32", (Palette(-3, 8, "plan"), Lz4()), owned)
    for shape in [(3, 8, 8), (4, 8, 8), (2, 3, 8, 8), (8, 8)]:
        array = (np.indices(shape).sum(axis=0) % 4).astype(np.float32)
        frame = codecs.encode(array, plan)
        assert same_bits(codecs.decode(frame, plans=plan), array)
        assert (codecs.frame_info(frame).plan_hash == plan.hash) == (shape == (3, 8, 8))


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_way_out_takes_any_array(dtype: str, goal: str) -> None:
    plan = fallback(DTYPES[dtype], goal)
    for array in (random_bits(dtype, (9, 50)), np.zeros((3, 0), DTYPES[dtype].numpy)):
        assert same_bits(codecs.decode(codecs.encode(array, plan, dtype=dtype)), array)
