"""Whatever is drawn, what comes back has the same values, shares memory alike, and takes no more room than torch's."""

import collections
import io
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

import cordwood as cw
from tests.tensors.behaviour.test_roundtrip import ALLOWANCE, assert_strides_make_sense
from tests.tensors.support.objects import QUIET
from tests.tensors.support.same import assert_same, assert_shares_alike, bits, strided_parts
from tests.tensors.support.storages import storages

pytestmark = QUIET

DTYPES = {
    1: (torch.uint8, torch.int8, torch.bool, torch.float8_e4m3fn, torch.float8_e5m2),
    2: (torch.float16, torch.bfloat16, torch.int16, torch.uint16),
    4: (torch.float32, torch.int32, torch.uint32, torch.complex32),
    8: (torch.float64, torch.int64, torch.uint64, torch.complex64),
    16: (torch.complex128,),
}
FORMATS: list[dict[str, Any]] = [
    {"format": "pt"},
    {"format": "pt", "compress": True},
    {"format": "pt-legacy"},
    *({"format": "cord", "goal": goal} for goal in ("small", "balanced", "fast", "raw")),
]


@st.composite
def memories(draw: st.DrawFn) -> list[torch.Tensor]:
    """Tensors over one storage; mostly of one dtype, as torch.save would have it."""
    nbytes, views = draw(storages())
    mixed = draw(st.integers(0, 3)) == 0
    if not mixed and views:
        views = [view for view in views if view.itemsize == views[0].itemsize]
    noise = np.random.default_rng(draw(st.integers(0, 9))).integers(0, 256, nbytes, np.uint8)
    memory = torch.from_numpy(noise).clone().untyped_storage()
    dtype = draw(st.sampled_from(DTYPES[views[0].itemsize])) if views else torch.uint8
    tensors = []
    for view in views:
        if mixed:
            dtype = draw(st.sampled_from(DTYPES[view.itemsize]))
        strides = tuple(stride // view.itemsize for stride in view.strides)
        tensor = torch.empty(0, dtype=dtype).set_(memory, view.offset // view.itemsize, view.shape, strides)
        if dtype.is_floating_point and dtype.itemsize > 1 and draw(st.integers(0, 5)) == 0:
            tensor = nn.Parameter(tensor)
        tensors.append(tensor)
    return tensors


def nest(draw: st.DrawFn, tensors: list[torch.Tensor]) -> Any:
    """The tensors in containers in containers."""
    if len(tensors) == 1 and draw(st.booleans()):
        return tensors[0]
    cut = draw(st.integers(0, len(tensors)))
    parts = [tensors[:cut], tensors[cut:]] if 0 < cut < len(tensors) and draw(st.booleans()) else []
    items = [nest(draw, part) for part in parts] or list(tensors)
    kind = draw(st.sampled_from(["list", "tuple", "dict", "ordered"]))
    if kind == "list":
        return items
    if kind == "tuple":
        return tuple(items)
    named = {f"k{number}": item for number, item in enumerate(items)}
    return named if kind == "dict" else collections.OrderedDict(named, size=len(items))


@dataclass(frozen=True)
class Drawn:
    """An object, and another over a copy of its memory, in which other things may be written."""

    obj: Any
    writes: list[tuple[int, int, int]]  # which tensor, which element, what


@st.composite
def objects(draw: st.DrawFn) -> Drawn:
    tensors = [tensor for _ in range(draw(st.integers(1, 3))) for tensor in draw(memories())]
    tensors = draw(st.permutations(tensors))
    tensors += [draw(st.sampled_from(tensors)) for _ in range(draw(st.integers(0, 2))) if tensors]
    write = st.tuples(st.integers(0, 1000), st.integers(0, 100_000), st.integers(0, 255))
    return Drawn(nest(draw, tensors), draw(st.lists(write, min_size=1, max_size=8)))


def write_through(tree: Any, writes: list[tuple[int, int, int]]) -> None:
    """One byte of one element at a time: where a tensor overlaps itself, the order of many would matter."""
    parts = list(strided_parts(tree).values())
    for which, element, value in writes if parts else ():
        patterns = bits(parts[which % len(parts)])
        place = np.unravel_index(element % prod(patterns.shape), patterns.shape)
        patterns[place] = (int(patterns[place]) & ~0xFF) | value


def saved_by_torch(obj: Any, *, legacy: bool) -> int | None:
    """The size of torch's file; None where torch refuses."""
    file = io.BytesIO()
    try:
        torch.save(obj, file, _use_new_zipfile_serialization=not legacy)
    except RuntimeError:
        return None
    return file.tell()


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(objects(), st.sampled_from(FORMATS))
def test_what_comes_back_is_the_same_and_shares_alike(drawn: Drawn, options: dict[str, Any]) -> None:
    file = io.BytesIO()
    cw.save(drawn.obj, file, **options)
    loaders: list[Callable[[io.BytesIO], Any]] = [cw.load]
    if options["format"] != "cord":
        loaders.append(torch.load)
    loaded = [load(io.BytesIO(file.getvalue())) for load in loaders]
    for one in loaded:
        assert_same(drawn.obj, one, strides=False)
        assert_shares_alike(drawn.obj, one)
        assert_strides_make_sense(drawn.obj, one)
    theirs = saved_by_torch(drawn.obj, legacy=options["format"] == "pt-legacy")
    assert theirs is None or file.tell() <= theirs + ALLOWANCE
    for number in range(len(drawn.writes)):
        for tree in (drawn.obj, *loaded):
            write_through(tree, drawn.writes[number : number + 1])
        for one in loaded:
            assert_same(drawn.obj, one, strides=False)


@pytest.mark.parametrize("options", FORMATS, ids=str)
def test_a_write_shows_where_it_did_before(options: dict[str, Any]) -> None:
    base = torch.arange(40.0).reshape(4, 10)
    obj = {"a": base[:, :4], "b": base[:, 3:6], "c": base[:, 8:]}
    file = io.BytesIO()
    cw.save(obj, file, **options)
    loaded = cw.load(io.BytesIO(file.getvalue()))
    loaded["a"][2, 3] = -1.0
    assert loaded["b"][2, 0] == -1.0
    loaded["b"].zero_()
    assert torch.equal(loaded["a"][:, 3], torch.zeros(4))
    assert torch.equal(loaded["c"], obj["c"])
