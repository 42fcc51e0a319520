"""A plan as JSON: there and back, and whatever else the text may be is refused in plain words."""

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.formula import Formula
from cordwood.codecs.plan import Plan
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.palette import Palette
from cordwood.errors import CordwoodError, FormatError
from tests.codecs.support.plans import plans
from tests.format.support.readers import same_bits

VALID = Plan(
    "small", "float32", (Palette(-3, 8, "formula", Formula((("/", (255.0,)), ("-", (0.5, 0.25))))), Entropy("ans"))
)


@settings(max_examples=200)
@given(plans())
def test_json_round_trip(plan: Plan) -> None:
    again = Plan.from_json(plan.to_json())
    assert again == plan
    assert (str(again), again.hash, again.to_json()) == (str(plan), plan.hash, plan.to_json())
    assert Plan.from_json(plan.to_json().encode()) == plan


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
        ('{"cordwood_plan": 2}', "a plan of version 2, but this Cordwood reads version 1"),
        ('{"cordwood_plan": "1"}', "a plan of version '1'"),
        ('{"cordwood_plan": 1}', "a plan without 'stages'"),
    ],
    ids=["nothing", "cut", "bytes", "deep", "list", "empty", "null", "newer", "text", "bare"],
)
def test_json_that_is_no_plan(text: str | bytes, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        Plan.from_json(text)
    assert message in str(caught.value)


def changed(**changes: Any) -> str:
    return json.dumps(json.loads(VALID.to_json()) | changes)


def with_formula(**changes: Any) -> str:
    body = json.loads(VALID.to_json())
    body["stages"][0]["formula"] |= changes
    return json.dumps(body)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(goal="tiny"), "goal is 'tiny'"),
        (changed(goal=["small"]), "goal is ['small']"),
        (changed(dtype="float33"), "dtype is 'float33'"),
        (changed(dtype=None), "dtype is None"),
        (changed(stages=[]), "does not go value"),
        (changed(stages=[{"stage": "magic"}]), "stage 'magic' is not known; known are narrow, palette"),
        (changed(stages=[{"stage": ["raw"]}]), "a plan that cannot be"),
        (changed(stages=[{"stage": "raw", "level": 3}]), "level"),
        (changed(stages=[{}]), "stage"),
        (changed(stages=[3]), "a plan that cannot be"),
        (changed(stages="raw"), "a plan that cannot be"),
        (changed(stages=None), "a plan that cannot be"),
        (changed(stages=[{"stage": "zstd", "level": 99}]), "zstd: level is 99, but can be 1 to 22"),
        (changed(stages=[{"stage": "zstd", "level": 3.0}]), "zstd: level is 3.0"),
        (changed(stages=[{"stage": "entropy", "tile": 16.0}]), "entropy: tile is 16.0"),
        (changed(stages=[{"stage": "entropy", "saving": float("nan")}]), "entropy: saving is nan"),
        (changed(assets="!"), "a plan that cannot be"),
        (changed(assets=7), "a plan that cannot be"),
        (changed(assets=base64.b64encode(b"CWPL").decode()), "plan refused (1, truncated)"),
        (changed(assets=base64.b64encode(b"nonsense").decode()), "plan refused (2, magic)"),
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
    ],
)  # fmt: skip
def test_members_that_cannot_be(text: str, message: str) -> None:
    with pytest.raises(FormatError) as caught:
        Plan.from_json(text)
    assert message in str(caught.value)


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
    body = json.loads(draw(plans()).to_json())
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
