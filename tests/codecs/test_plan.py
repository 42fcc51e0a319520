"""plan: a readable chain that serves any array of its dtype, what it owns, and who needs it."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.assets import Assets
from cordwood.codecs.dtypes import DTYPES, Array
from cordwood.codecs.formula import Formula
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
from cordwood.errors import CordwoodError, FormatError, UsageError
from tests.codecs.support.plans import plans
from tests.codecs.support.short import short_frame
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
    assert str(Plan.single("small", dtype, stages)) == shown


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
        Plan.single(goal, dtype, stages)
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
        frame = codecs.encode(array, Plan.single("small", dtype, stages), dtype=dtype)
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
    used = {"tables": "entropy", "dictionary": "zstd", "palette": "palette"}[owned]
    assert used in codecs.frame_info(frame).chain
    assert codecs.frame_info(frame).plan_hash in {one.assets.hash for one in plan.chains if one.assets.encoded}
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
        assert plan.chains[0].assets == Assets()
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
    plan = Plan.single("small", "float32", (Palette(-3, 8, "plan"), Lz4()), owned)
    for shape in [(3, 8, 8), (4, 8, 8), (2, 3, 8, 8), (8, 8)]:
        array = (np.indices(shape).sum(axis=0) % 4).astype(np.float32)
        frame = codecs.encode(array, plan)
        assert same_bits(codecs.decode(frame, plans=plan), array)
        assert (codecs.frame_info(frame).plan_hash == plan.chains[0].assets.hash) == (shape == (3, 8, 8))


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_way_out_takes_any_array(dtype: str, goal: str) -> None:
    plan = fallback(DTYPES[dtype], goal)
    for array in (random_bits(dtype, (9, 50)), np.zeros((3, 0), DTYPES[dtype].numpy)):
        assert same_bits(codecs.decode(codecs.encode(array, plan, dtype=dtype)), array)


VALID = Plan.single(
    "small", "float32", (Palette(-3, 8, "formula", Formula((("/", (255.0,)), ("-", (0.5, 0.25))))), Entropy("ans"))
)


@settings(max_examples=200)
@given(plans())
def test_json_round_trip(plan: Plan) -> None:
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert (str(again), again.to_json()) == (str(plan), plan.to_json())
    assert again.chains[0].assets.hash == plan.chains[0].assets.hash
    assert Plan.from_json(plan.to_json().encode()) == plan
    assert Plan.from_json(of_version_1(plan)) == plan


def of_version_1(plan: Plan, **changes: Any) -> str:
    """The text of a plan of one chain, as it was before there were menus."""
    body = json.loads(plan.to_json())
    (chain,) = body.pop("chains")
    del chain["short"], body["shape"]
    return json.dumps(body | chain | {"cordwood_plan": 1} | changes)


def test_json_round_trip_of_menus() -> None:
    for dtype in ("uint8", "int64", "float32", "bool"):
        for shapes in ([(9, 12)] * 9, [(9, 12 + k) for k in range(9)], [(3,) * (1 + k % 2) for k in range(9)]):
            arrays = [random_bits(dtype, shape, k) for k, shape in enumerate(shapes)]
            for goal in GOALS:
                plan = codecs.plan(arrays, goal, own=True)
                assert Plan.from_json(plan.to_json()) == plan
                told = json.loads(plan.to_json())
                assert (told["cordwood_plan"], told["dtype"], told["goal"]) == (2, dtype, goal)
                assert told["shape"] == (None if plan.shape is None else list(plan.shape))
                assert [chain["short"] is None for chain in told["chains"]] == [
                    plan.shape is None or chain.short is None for chain in plan.chains
                ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a plan is JSON, but this is not"),
        ("{", "a plan is JSON, but this is not"),
        (b"\xff\xfe\xfd", "a plan is JSON, but this is not"),
        ("[" * 100_000, "a plan is JSON, but this is not"),
        ("[]", "a member 'cordwood_plan', which is missing"),
        ("{}", "a member 'cordwood_plan', which is missing"),
        ("null", "a member 'cordwood_plan', which is missing"),
        ('{"cordwood_plan": 3}', "a plan of version 3, but this Cordwood reads versions 1 and 2"),
        ('{"cordwood_plan": 0}', "a plan of version 0"),
        ('{"cordwood_plan": true}', "a plan of version True"),
        ('{"cordwood_plan": "1"}', "a plan of version '1'"),
        ('{"cordwood_plan": 1}', "a plan without 'goal'"),
        ('{"cordwood_plan": 2}', "a plan without 'chains'"),
    ],
    ids=[
        "nothing",
        "cut",
        "bytes",
        "deep",
        "list",
        "empty",
        "null",
        "newer",
        "older",
        "bool",
        "text",
        "bare 1",
        "bare 2",
    ],
)
def test_json_that_is_no_plan(text: str | bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        Plan.from_json(text)
    assert message in str(caught.value)


def changed(**changes: Any) -> str:
    return json.dumps(json.loads(VALID.to_json()) | changes)


def chain_with(**changes: Any) -> str:
    """With another chain in the place of the only one."""
    (chain,) = json.loads(VALID.to_json())["chains"]
    return changed(chains=[chain | changes])


def with_formula(**changes: Any) -> str:
    body = json.loads(VALID.to_json())
    body["chains"][0]["stages"][0]["formula"] |= changes
    return json.dumps(body)


def short_with(template: Any, shape: Any = (3, None)) -> str:
    """A plan of one chain that stores its elements, of arrays of this shape, with this template."""
    chain = {"assets": "", "short": template, "stages": [{"stage": "raw"}]}
    return changed(shape=shape, chains=[chain])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(goal="tiny"), "goal must be 'small', 'balanced', 'fast' or 'raw', got 'tiny'"),
        (changed(goal=["small"]), "got ['small']"),
        (changed(dtype="float33"), "got 'float33'"),
        (changed(dtype=None), "or 'float4_e2m1fn_x2', got None"),
        (chain_with(stages=[]), "does not go value"),
        (chain_with(stages=[{"stage": "magic"}]), "stage 'magic' is not known; known are narrow, palette"),
        (chain_with(stages=[{"stage": ["raw"]}]), "a plan that cannot be"),
        (chain_with(stages=[{"stage": "raw", "level": 3}]), "level"),
        (chain_with(stages=[{}]), "stage"),
        (chain_with(stages=[3]), "a plan that cannot be"),
        (chain_with(stages="raw"), "a plan that cannot be"),
        (chain_with(stages=None), "a plan that cannot be"),
        (chain_with(stages=[{"stage": "zstd", "level": 99}]), "zstd: level is 99, but can be 1 to 22"),
        (chain_with(stages=[{"stage": "zstd", "level": 3.0}]), "zstd: level is 3.0"),
        (chain_with(stages=[{"stage": "entropy", "tile": 16.0}]), "entropy: tile is 16.0"),
        (chain_with(stages=[{"stage": "entropy", "saving": float("nan")}]), "entropy: saving is nan"),
        (chain_with(assets="!"), "a plan that cannot be"),
        (chain_with(assets=7), "a plan that cannot be"),
        (chain_with(assets=base64.b64encode(b"CWPL").decode()), "plan refused (1, truncated)"),
        (chain_with(assets=base64.b64encode(b"nonsense").decode()), "plan refused (2, magic)"),
        (with_formula(count=0), "cannot be computed"),
        (with_formula(count=10**9), "cannot be computed"),
        (with_formula(count=float("inf")), "a plan that cannot be"),
        (with_formula(count=float("nan")), "a plan that cannot be"),
        (with_formula(work="float8"), "cannot be computed"),
        (with_formula(steps=[]), "cannot be computed"),
        (with_formula(steps=[["%", [1.0]]]), "cannot be computed"),
        (with_formula(steps=[["*", []]]), "cannot be computed"),
        (with_formula(steps=[["*", [10**400]]]), "a plan that cannot be"),
        (with_formula(steps=[["*", [1e300]]]), "a plan that cannot be"),
        (with_formula(steps=[["*", ["x"]]]), "a plan that cannot be"),
        (with_formula(steps=[["*"]]), "a plan that cannot be"),
        (with_formula(steps=7), "a plan that cannot be"),
        (changed(chains=[]), "a plan has 1 to 64 chains, but this one has 0"),
        (changed(chains=[{"assets": "", "short": None, "stages": [{"stage": "raw"}]}] * 65), "but this one has 65"),
        (changed(chains={}), "a plan has 1 to 64 chains"),
        (changed(chains=None), "a plan that cannot be"),
        (changed(chains=7), "a plan that cannot be"),
        (changed(chains=[7]), "a plan that cannot be"),
        (changed(chains=[{}]), "a plan without 'stages'"),
        (changed(chains=[{"stages": [{"stage": "raw"}], "assets": ""}]), "a plan without 'short'"),
        (changed(shape=3), "arrays of shape 3, which cannot be"),
        (changed(shape="3"), "which cannot be"),
        (changed(shape=[3, "4"]), "which cannot be"),
        (changed(shape=[3, 4.0]), "which cannot be"),
        (changed(shape=[True]), "which cannot be"),
        (changed(shape=[-1]), "which cannot be"),
        (changed(shape=[1 << 48]), "which cannot be"),
        (changed(shape=[1] * 65), "of 65 dimensions"),
        (short_with("0"), "a plan that cannot be"),
        (short_with("gg"), "a plan that cannot be"),
        (short_with(7), "a plan that cannot be"),
        (short_with(""), "plan refused (1, truncated)"),
        (short_with("000000"), "plan refused (1, truncated)"),
        (short_with("0000000000"), "plan refused (10, chain)"),  # something behind it
        (short_with("03000000"), "plan refused (11, narrow)"),  # no such value kind
        (short_with("01000000"), "plan refused (11, narrow)"),  # narrow of floats
        (short_with("0208ff00000000"), "plan refused (12, palette)"),  # a palette in the frame
        (short_with("02080102000000"), "plan refused (12, palette)"),  # a palette for each of who knows how many
        (short_with("02080202000000"), "plan refused (12, palette)"),  # an axis that the shape lacks
        (short_with("0207ff02000000"), "plan refused (12, palette)"),
        (short_with("00040000"), "plan refused (10, chain)"),  # no such prediction
        (short_with("000200000000"), "plan refused (10, chain)"),  # a lag of 0
        (short_with("000103000100000c"), "plan refused (10, chain)"),  # no such geometry
        (short_with("000101030100000c"), "plan refused (10, chain)"),  # no such color
        (short_with("00000300"), "plan refused (10, chain)"),  # no such planes
        (short_with("00000002"), "plan refused (10, chain)"),  # no such coder
        (short_with("00000100"), "plan refused (10, chain)"),  # planes without a coder
        (short_with("0002010000"), "plan refused (10, chain)"),  # a prediction without a coder
        (short_with("0000000102000c"), "plan refused (10, chain)"),  # no such entropy coder
        (short_with("00000001000101"), "plan refused (10, chain)"),  # a tile that is too small
    ],
)  # fmt: skip
def test_members_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        Plan.from_json(text)
    assert message in str(caught.value)


def test_members_that_cannot_be_in_version_1() -> None:
    for changes, message in (
        ({"stages": []}, "does not go value"),
        ({"stages": [{"stage": "magic"}]}, "stage 'magic' is not known"),
        ({"stages": None}, "a plan that cannot be"),
        ({"assets": "!"}, "a plan that cannot be"),
        ({"assets": base64.b64encode(b"nonsense").decode()}, "plan refused (2, magic)"),
        ({"dtype": "int9"}, "got 'int9'"),
    ):
        with pytest.raises(FormatError) as caught:
            Plan.from_json(of_version_1(VALID, **changes))
        assert message in str(caught.value)


def test_templates_count_only_where_there_is_a_shape() -> None:
    plan = Plan.from_json(short_with("03000000", shape=None))  # nobody looks at it
    assert same_bits(codecs.decode(codecs.encode(np.zeros((3, 2), np.float32), plan)), np.zeros((3, 2), np.float32))
    good = Plan.from_json(short_with("00000000"))
    assert codecs.decode(b"\0\1" + bytes(12), plans=good).shape == (3, 1)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(
        ["raw", "zstd", "entropy", "narrow", "palette", "float32", "small", "med", "chw", 8, 16, 3.0, -1, 2**40, 1e300]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


def places_in(node: Any) -> list[tuple[Any, Any]]:
    """Every container in a JSON value, with a key or an index of it."""
    keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
    return [(node, key) for key in keys] + [place for key in keys for place in places_in(node[key])]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A plan's JSON with members changed, dropped, doubled or characters damaged."""
    plan = draw(plans())
    if draw(st.booleans()):
        shape = tuple(draw(st.lists(st.none() | st.integers(0, 5), max_size=3)))
        plan = Plan(plan.goal, plan.dtype, (plan.chains[0].with_short(plan.dtype, shape), *plan.chains), shape)
    body = json.loads(plan.to_json())
    for _ in range(draw(st.integers(0, 3))):
        where, key = draw(st.sampled_from(places_in(body)))
        action = draw(st.sampled_from(["change", "drop", "add"]))
        if action == "change":
            where[key] = draw(anything)
        elif action == "drop":
            del where[key]
        elif isinstance(where, dict):
            where[draw(st.sampled_from(["level", "formula", "bits", "x", "stage"]))] = draw(anything)
        else:
            where.insert(key, where[key])
        if not places_in(body):
            break
    text = json.dumps(body)
    for _ in range(draw(st.integers(0, 1))):
        at = draw(st.integers(0, len(text) - 1))
        text = text[:at] + draw(st.sampled_from('0123456789[]{}",:.-eE\\u')) + text[at + draw(st.integers(0, 2)) :]
    return text


@settings(max_examples=350)
@given(mutated())
def test_damaged_json_is_refused_or_is_a_plan_that_works(text: str) -> None:
    """FormatError and nothing else; and what is taken for a plan encodes, exactly or not at all."""
    try:
        plan = Plan.from_json(text)
    except FormatError as error:
        assert len(str(error)) > 10
        return
    assert Plan.from_json(plan.to_json()) == plan
    array = np.zeros((3, 4, 5), DTYPES[plan.dtype].numpy)
    array[0] = 1
    try:
        frame = codecs.encode(array, plan, dtype=plan.dtype)
    except CordwoodError:
        return
    assert same_bits(codecs.decode(frame, plans=plan), array)
    assert same_bits(codecs.decode(short_frame(array, plan), plans=plan), array)
