"""Which arrays lie in columns: small ones of one shape, that frames would not make smaller."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.codecs import Goal
from cordwood.errors import UsageError
from cordwood.store.schema.field import Field
from cordwood.store.schema.node import Node, scalar
from cordwood.store.schema.schema import Schema
from cordwood.store.writing.first_samples import FirstSamples
from cordwood.store.writing.options import Options


def vector(number: int, *shape: int) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(number))


def chosen(made: Callable[[int], Any], count: int = 200, goal: Goal = "balanced", **fields: Field) -> Any:
    """The shape of field x by these first samples, None if it has frames."""
    first = FirstSamples(Options(goal, None, fields))
    for number in range(count):
        sample = {"x": made(number)} if made(number) is not None else {}
        first.take(sample, first.check(sample))
    preparer, prepared = first.prepare()
    assert all(len(one.columns) == len(prepared[0].columns) for one in prepared)
    return preparer.schema.leaf("x").node.shape


@pytest.mark.parametrize("goal", ["small", "balanced", "fast", "raw"])
def test_noise_lies_in_columns(goal: Goal) -> None:
    assert chosen(lambda number: vector(number, 8), goal=goal) == (8,)
    assert chosen(lambda number: vector(number, 4, 2).numpy(), goal=goal) == (4, 2)


CASES: dict[str, tuple[Any, Any]] = {
    "256 bytes": (lambda number: vector(number, 64), (64,)),
    "more bytes": (lambda number: vector(number, 65), None),
    "three dimensions, as images have": (lambda number: vector(number, 3, 2, 2), None),
    "no elements": (lambda number: torch.empty(0), None),
    "arrays that frames make much smaller": (lambda number: torch.full((30,), number), None),
    "one byte": (lambda number: vector(number, 1).to(torch.uint8), None),
    "5% of another shape": (lambda number: vector(number, 9 if number % 20 == 0 else 8), (8,)),
    "more than 5% of another shape": (lambda number: vector(number, 9 if number % 19 == 0 else 8), None),
    "large ones among them": (lambda number: vector(number, 4000 if number % 30 == 0 else 8), (8,)),
    "no dimension in some": (lambda number: vector(number, *[8] * (number % 30 > 0)), (8,)),
    "missing in some": (lambda number: vector(number, 8) if number % 10 else None, (8,)),
    "missing in most": (lambda number: None if number % 10 else vector(number, 8), None),
}


@pytest.mark.parametrize("what", CASES)
def test_what_lies_in_columns(what: str) -> None:
    made, shape = CASES[what]
    assert chosen(made) == shape


def test_few_arrays_show_nothing() -> None:
    assert chosen(lambda number: vector(number, 8), 15) is None
    assert chosen(lambda number: vector(number, 8), 16) == (8,)


def test_rounded_floats_have_frames() -> None:
    assert chosen(lambda number: vector(number, 8), x=Field(store_as="float16")) is None


def test_a_sample_that_is_an_array_has_a_frame() -> None:
    first = FirstSamples(Options("raw", None, {}))
    for number in range(40):
        first.take(vector(number, 8), 32)
    assert first.prepare()[0].schema.root == Node("tensor", dtype="float32")


def test_the_choice_is_the_same_each_time() -> None:
    rows = np.random.default_rng(3).integers(0, 40, (200, 12))
    shapes = {chosen(lambda number: torch.from_numpy(rows[number]), goal="small") for _ in range(3)}
    assert len(shapes) == 1


def test_schemas_with_shapes() -> None:
    node = Node("tensor", dtype="float32", shape=(2, 3))
    schema = Schema(Node("dict", (node, scalar("int")), ("x", "n")))
    assert Schema.from_json(schema.to_json()) == schema
    assert schema.hash != Schema(Node("dict", (Node("tensor", dtype="float32"), scalar("int")), ("x", "n"))).hash
    assert str(schema) == "x  tensor of float32, in columns of shape (2, 3)\nn  int"
    with pytest.raises(UsageError, match="a sample that is an array has a frame"):
        Schema(node)
    with pytest.raises(cw.FormatError, match="has shape"):
        Schema.from_json({"kind": "dict", "keys": ["x"], "items": [{"kind": "tensor", "dtype": "uint8", "shape": []}]})
