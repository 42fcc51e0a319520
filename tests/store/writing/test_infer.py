"""From samples to their schema."""

import enum
from collections import Counter, OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch

from cordwood.errors import UsageError
from cordwood.store.schema.field import Field
from cordwood.store.schema.node import Node, scalar
from cordwood.store.writing.infer import infer
from tests.store.support.samples import Box, Point

ANY = Node("any")
BYTES = Node("tensor", dtype="uint8")
Other = namedtuple("Other", ["x", "y"])
IMAGE = torch.zeros(3, 4, 4, dtype=torch.uint8)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([IMAGE], BYTES),
        ([IMAGE, IMAGE[0]], BYTES),
        ([IMAGE[0, 0, 0]], scalar("tensor", "uint8")),
        ([IMAGE[0, 0, 0], IMAGE], BYTES),
        ([IMAGE, IMAGE.float()], ANY),
        ([IMAGE, IMAGE.numpy()], ANY),
        ([torch.nn.Parameter(torch.ones(2)), torch.ones(3)], Node("tensor", dtype="float32")),
        ([np.ones(2, ">f4"), np.ones(2, "<f4")], Node("ndarray", dtype="float32")),
        ([np.array(1.5), np.ones(2)], Node("ndarray", dtype="float64")),
        ([np.float64(1)], scalar("numpy", "float64")),
        ([np.float64(1), np.array(1.0)], ANY),
        ([3], scalar("int")),
        ([3, 2.5], ANY),
        ([3, True], ANY),
        ([3, 1 << 63], ANY),
        ([3, np.int64(3)], ANY),
        ([True], scalar("bool")),
        ([2j], scalar("complex")),
        (["a", ""], Node("str")),
        ([b"a"], Node("bytes")),
        (["a", b"a"], ANY),
        ([[1, 2]], ANY),
        ([[]], ANY),
        ([["a", {"b": (1,)}]], ANY),
        ([[IMAGE, 1]], Node("list", (BYTES, scalar("int")))),
        ([[IMAGE, 1], [IMAGE, 1.5]], Node("list", (BYTES, ANY))),
        ([[IMAGE, 1], [IMAGE]], ANY),
        ([[IMAGE], []], ANY),
        ([[{"x": (IMAGE,)}]], Node("list", (Node("dict", (Node("tuple", (BYTES,)),), ("x",)),))),
        ([(1, "a")], Node("tuple", (scalar("int"), Node("str")))),
        ([(1, "a"), (1,)], ANY),
        ([()], Node("tuple")),
        ([{}], Node("dict")),
        ([(1, None), (None, None)], Node("tuple", (scalar("int"), Node("none")))),
        ([Point(1, 2)], Node("namedtuple", (scalar("int"), scalar("int")), ("x", "y"), "Point")),
        ([Point(1, 2), (1, 2)], ANY),
        ([Point(1, 2), Other(1, 2)], ANY),
        ([{"a": 1}, OrderedDict(a=1)], ANY),
        ([{"a": 1}, [1]], ANY),
        ([{1.5: 1}], ANY),
        ([{True: 1}], ANY),
        ([{"\ud800": 1}], ANY),
        ([{1 << 63: 1}], ANY),
        ([{"a": {None: 1}}], Node("dict", (ANY,), ("a",))),
        ([{"a": 1}, {"b": "x"}], Node("dict", (Node("str"), scalar("int")), ("b", "a"))),
        ([{"a": 1}, {"a": None, 7: None}], Node("dict", (scalar("int"), Node("none")), ("a", 7))),
        ([{"a": 1, "z": 1}, {"a": 1, "b": 1, "z": 1}], Node("dict", (scalar("int"),) * 3, ("a", "b", "z"))),
    ],
)
def test_what_samples_have_in_common(samples: list[Any], expected: Node) -> None:
    assert infer(samples).root == expected


def test_a_new_key_stands_behind_the_one_it_follows() -> None:
    samples = [{"a": 1, "z": 1}, {"a": 1, "b": 1, "z": 1}, {"z": 1, "end": 1}, {"start": 1}]
    assert infer(samples).names == ("start", "a", "b", "z", "end")


class Colour(enum.IntEnum):
    RED = 1


class Name(str):
    pass


class Mine(torch.Tensor):
    pass


@dataclass
class Data:
    x: int


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({1, 2}, r"a builtins.set; store a sorted list"),
        (object(), r"a builtins.object; samples hold tensors"),
        (Data(1), r"Data; store dataclasses.asdict"),
        (Colour.RED, r"Colour; store int\(x\)"),
        (Name("x"), r"Name; store str\(x\)"),
        (bytearray(b"x"), r"store bytes\(x\)"),
        (defaultdict(int), r"collections.defaultdict; store dict\(x\)"),
        (Counter("a"), r"Counter; store dict\(x\)"),
        (torch.Size([1]), r"torch.Size; store tuple\(x\)"),
        (torch.float32, r"torch.dtype"),
        (np.array([object()]), "ndarray of object; objects have no fixed bytes"),
        (np.array(["a"]), "ndarray of <U1; store str"),
        (np.array([b"a"]), r"ndarray of \|S1; store bytes"),
        (np.str_("a"), "NumPy scalar of <U1"),
        (np.datetime64("2020-01-01"), "NumPy scalar of datetime64"),
        (np.zeros(2, [("a", "f4")]), "each of its fields"),
        (np.zeros(2, np.longdouble), "convert it to one of bool, uint8"),
        (np.zeros(2, ml_dtypes.bfloat16), "of bfloat16, which NumPy itself lacks"),
        (np.ma.masked_array([1], [True]), r"masked array; store .data and .mask"),
        (np.zeros((2, 2)).view(np.matrix), r"matrix, a subclass of ndarray"),
        (torch.zeros(2).to_sparse(), "layout torch.sparse_coo"),
        (torch.zeros(2, device="meta"), "meta device"),
        (torch.zeros(2).as_subclass(Mine), "Mine, a subclass of Tensor"),
        (torch.zeros(2, dtype=torch.bits8), "torch.bits8; convert it"),
        (torch.empty((0, 1 << 50), dtype=torch.uint8), "out of bounds"),
        (np.empty((0, 1 << 50), np.uint8), "out of bounds"),
        ({frozenset(): 1}, "a key of type frozenset"),
        ({np.str_("a"): 1}, "a key of type str_"),
        (Other(1, {1}), "'deep.0.y' cannot be stored: it is a builtins.set"),
        (type("<locals>", (Point,), {})(1, 2), "nobody could make again"),
    ],
)
def test_what_cannot_be_stored_is_named(value: Any, message: str) -> None:
    for wrapped in ({"deep": (value,)}, {"deep": [value]}):
        with pytest.raises(UsageError, match=message) as caught:
            infer([wrapped])
        assert "field 'deep.0" in str(caught.value)
    with pytest.raises(UsageError, match=r"the sample|'y'"):
        infer([value])


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_quantised_and_nested_tensors_are_named() -> None:
    with pytest.raises(UsageError, match=r"'q' cannot be stored: it is a quantised tensor; store x.int_repr\(\)"):
        infer([{"q": torch.quantize_per_tensor(torch.zeros(2), 0.1, 0, torch.qint8)}])
    with pytest.raises(UsageError, match=r"'n' cannot be stored: it is a nested tensor; .*unbind"):
        infer([{"n": torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])}])


def test_a_sample_that_holds_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UsageError, match="nested deeper than 64 levels; does it hold itself"):
        infer([{"x": loop}])


def test_no_samples_and_none() -> None:
    with pytest.raises(UsageError, match="there are none"):
        infer([])
    with pytest.raises(UsageError, match="a sample is None"):
        infer([None])
    with pytest.raises(UsageError, match="a sample is None"):
        infer([{"a": 1}, None])


def test_fields_that_vary() -> None:
    samples = [{"a": 1, "b": {"c": IMAGE, "d": 1}, "n": None, "t": (1, 2)}]
    varying = {name: Field(varies=True) for name in ("a", "b", "n", "t.1", "rare")}
    root = infer(samples, varying).root
    assert dict(zip(root.keys, root.items, strict=True)) == {
        "a": ANY,
        "b": ANY,
        "n": ANY,
        "t": Node("tuple", (scalar("int"), ANY)),
        "rare": ANY,
    }
    assert infer(samples, {"b.e": Field(varies=True)}).names == ("a", "b.c", "b.d", "b.e", "t.0", "t.1")
    assert infer([3, 4], {"value": Field(varies=True)}).root == ANY
    assert infer([{"a.b": 1}], {"a.b": Field(varies=True)}).root.items == (ANY,)


@pytest.mark.parametrize("name", ["a.x", "t.2", "missing.x", "n.x"])
def test_a_varying_field_must_have_a_dict_to_be_in(name: str) -> None:
    with pytest.raises(UsageError, match=f"fields names '{name}'"):
        infer([{"a": 1, "n": None, "t": (1, 2)}], {name: Field(varies=True)})


@pytest.mark.parametrize(
    ("name", "field", "message"),
    [
        ("label", Field(goal="raw"), "no field of the samples: samples have 'x', 'n', 'box.low'"),
        ("box", Field(goal="raw"), "no field of the samples: it is made of 'box.low', 'box.high', 'box.label'"),
        ("n", Field(store_as="float16"), "'n' is a single number"),
        ("i", Field(store_as="float16"), "cannot be stored as float16"),
        ("s", Field(store_as="float16"), "cannot be stored as float16"),
        ("h", Field(store_as="bfloat16"), "cannot be stored as bfloat16"),
        ("n", Field(classes=["a"]), "no integers"),
        ("s", Field(classes=["a"]), "no integers"),
        ("x", "raw", r"takes cw.Field"),
    ],
)
def test_fields_that_do_not_fit_the_samples(name: str, field: Any, message: str) -> None:
    sample = {
        "x": torch.ones(2),
        "n": 1.5,
        "box": Box(1, 2, "a"),
        "i": torch.ones(2, dtype=torch.int32),
        "s": "text",
        "h": torch.ones(2, dtype=torch.float16),
    }
    with pytest.raises(UsageError, match=message):
        infer([sample], {name: field})


def test_fields_that_fit() -> None:
    sample = {"x": torch.ones(2), "label": 1, "many": torch.ones(3, dtype=torch.int64)}
    classes = Field(classes=["a", "b"])
    schema = infer([sample], {"x": Field(goal="raw", store_as="bfloat16"), "label": classes, "many": classes})
    assert schema.leaf("x").stored == "bfloat16"
    assert schema.leaf("label").stored is None
