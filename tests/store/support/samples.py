"""Samples for property tests: any nesting that a store takes, and whether two are the same.

@given(datasets())                      # some samples that share most of their structure
@given(st.lists(values(), min_size=1))  # samples that have nothing in common
assert_same_sample(sample, again)
"""

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from hypothesis import strategies as st
from numpy.typing import NDArray

from cordwood.codecs.dtypes import DTYPES
from tests.tensors.support.same import assert_same

Point = namedtuple("Point", ["x", "y"])
Renamed = namedtuple("Renamed", ["ok", "class"], rename=True)


class Box(NamedTuple):
    """One of the kind that type checkers like."""

    low: Any
    high: Any
    label: Any


NAMED_TUPLES: dict[Any, int] = {Point: 2, Renamed: 2, Box: 3}
TENSOR_DTYPES = [name for name in DTYPES if hasattr(torch, name)]
NUMPY_DTYPES = [name for name, dtype in DTYPES.items() if dtype.carrier == name]
KEYS = st.one_of(st.sampled_from(["image", "label", "ключ", "", "a b"]), st.integers(-3, 3), st.just(-(1 << 63)))
STRANGE_KEYS = st.one_of(
    st.none(), st.booleans(), st.floats(), st.binary(max_size=2), st.tuples(st.integers(), st.text(max_size=2)), KEYS
)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
TEXTS = st.text(st.characters(), max_size=6)  # with lone surrogates


@st.composite
def carriers(draw: st.DrawFn, dtype: str, min_dims: int = 0) -> NDArray[Any]:
    """An array of any bits, as NumPy sees that dtype."""
    shape = tuple(draw(st.lists(st.integers(0, 3), min_size=min_dims, max_size=3)))
    kind = DTYPES[dtype]
    data = draw(st.binary(min_size=1, max_size=8)) * (int(np.prod(shape)) * kind.itemsize + 1)
    flat = np.frombuffer(data[: int(np.prod(shape)) * kind.itemsize], np.uint8)
    return (flat % 2 == 1 if dtype == "bool" else flat.view(kind.numpy)).reshape(shape).copy()


def tensors(dtype: str, min_dims: int = 0) -> st.SearchStrategy[torch.Tensor]:
    made = getattr(torch, dtype)
    return carriers(dtype, min_dims).map(lambda array: torch.from_numpy(array).view(made))


def ndarrays(dtype: str, min_dims: int = 0) -> st.SearchStrategy[NDArray[Any]]:
    return carriers(dtype, min_dims)


def numpy_scalars(dtype: str) -> st.SearchStrategy[Any]:
    return carriers(dtype).filter(lambda array: array.size > 0).map(lambda array: array.reshape(-1)[0])


def leaf_strategy(draw: st.DrawFn) -> st.SearchStrategy[Any]:
    """A strategy for the values of one field."""
    torch_dtype, numpy_dtype = draw(st.sampled_from(TENSOR_DTYPES)), draw(st.sampled_from(NUMPY_DTYPES))
    least = draw(st.integers(0, 1))
    return draw(
        st.sampled_from(
            [
                tensors(torch_dtype, least),
                ndarrays(numpy_dtype, least),
                numpy_scalars(numpy_dtype),
                INT64,
                st.integers(),
                st.floats(),
                st.booleans(),
                st.complex_numbers(),
                TEXTS,
                st.binary(max_size=6),
                st.none(),
            ]
        )
    )


def structure(draw: st.DrawFn, depth: int = 3) -> st.SearchStrategy[Any]:
    """A strategy for samples that have one structure but for keys that are missing and parts that are None."""
    kind = draw(
        st.sampled_from(["leaf", "leaf", "dict", "ordereddict", "list", "tuple", "named"] if depth else ["leaf"])
    )
    if kind == "leaf":
        return leaf_strategy(draw)
    if kind == "named":
        cls, count = draw(st.sampled_from(list(NAMED_TUPLES.items())))
        return _tuples([structure(draw, depth - 1) for _ in range(count)]).map(cls._make)
    if kind in ("list", "tuple"):
        items = [structure(draw, depth - 1) for _ in range(draw(st.integers(0, 3)))]
        return _tuples(items).map(list if kind == "list" else tuple)
    keys = draw(st.lists(KEYS, unique_by=str, max_size=3))
    items = [st.one_of(st.just(MISSING), structure(draw, depth - 1)) for _ in keys]
    make: Callable[[Any], Any] = dict if kind == "dict" else OrderedDict
    return _tuples(items).map(
        lambda values: make((k, v) for k, v in zip(keys, values, strict=True) if v is not MISSING)
    )


MISSING = object()


def _tuples(items: list[st.SearchStrategy[Any]]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*(st.one_of(item, st.none()) for item in items))


@st.composite
def datasets(draw: st.DrawFn, max_size: int = 4) -> list[Any]:
    """Some samples that share most of their structure."""
    sample = structure(draw).filter(lambda value: value is not None and value is not MISSING)
    return draw(st.lists(sample, min_size=1, max_size=max_size))


def values() -> st.SearchStrategy[Any]:
    """Any value that a store takes, None included."""
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.complex_numbers(),
        TEXTS,
        st.binary(max_size=6),
        st.sampled_from(TENSOR_DTYPES).flatmap(tensors),
        st.sampled_from(NUMPY_DTYPES).flatmap(ndarrays),
        st.sampled_from(NUMPY_DTYPES).flatmap(numpy_scalars),
    )
    return st.recursive(leaves, _containers, max_leaves=8)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = [st.tuples(*[inner] * count).map(cls._make) for cls, count in NAMED_TUPLES.items()]
    return st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.dictionaries(STRANGE_KEYS, inner, max_size=2),
        st.dictionaries(KEYS, inner, max_size=3).map(OrderedDict),
        *named,
    )


def assert_same_sample(a: Any, b: Any) -> None:
    """Fail where two samples differ in structure, types, dtypes or bits.

    Named tuples are the same if name and fields are, and the order of a dict's keys does not count.
    """
    assert_same(_comparable(a), _comparable(b), strides=False, identity=False)


def _comparable(value: Any) -> Any:
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return ("named tuple", type(value).__name__, value._fields, tuple(map(_comparable, value)))
    if type(value) in (list, tuple):
        return type(value)(map(_comparable, value))
    if type(value) is OrderedDict:
        return ("ordered", [(_comparable(key), _comparable(item)) for key, item in value.items()])
    if type(value) is dict:
        return (
            "dict",
            sorted(((repr(key), key, _comparable(item)) for key, item in value.items()), key=lambda x: x[0]),
        )
    return value
