"""What goes into a store comes out: samples taken apart and put together again."""

import copy
import pickle
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from cordwood.errors import FormatError, UsageError
from cordwood.store.reading.rebuild import Rebuilder, restore
from cordwood.store.schema.field import Field
from cordwood.store.schema.node import Node, scalar
from cordwood.store.schema.schema import Schema
from cordwood.store.values.namedtuples import NamedTuples, fresh_class
from cordwood.store.writing.flatten import flatten
from cordwood.store.writing.infer import infer
from tests.store.support.apart import put_together
from tests.store.support.samples import NUMPY_DTYPES, TENSOR_DTYPES, Box, Point, assert_same_sample, datasets, values

SAMPLE = {"image": torch.arange(6, dtype=torch.uint8).view(2, 3), "label": 3, "meta": {"path": "a.jpg", "at": None}}


@given(datasets())
def test_samples_of_one_structure_come_back(samples: list[Any]) -> None:
    _, again = put_together(samples)
    for sample, other in zip(samples, again, strict=True):
        assert_same_sample(sample, other)


@given(st.lists(values().filter(lambda value: value is not None), min_size=1, max_size=3))
def test_samples_that_have_nothing_in_common_come_back(samples: list[Any]) -> None:
    try:
        _, again = put_together(samples)
    except UsageError as error:  # keys 1 and "1"
        assert "both called" in str(error)
        return
    for sample, other in zip(samples, again, strict=True):
        assert_same_sample(sample, other)


@given(datasets(), st.data())
def test_what_is_selected_is_what_the_sample_has_there(samples: list[Any], data: st.DataObject) -> None:
    schema = infer(samples)
    assume(schema.names)
    known = [place.name for place in schema.places] or ["value"]
    names = tuple(data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3)))
    _, again = put_together(samples, names=names)
    for sample, chosen in zip(samples, again, strict=True):
        assert type(chosen) is tuple
        for name, found in zip(names, chosen, strict=True):
            if name == "value" and not schema.places:
                assert_same_sample(sample, found)
            else:
                assert_same_sample(_part(sample, schema, schema.find(name).number), found)


def _part(sample: Any, schema: Schema, number: int) -> Any:
    """The part of a sample at a place, None where there is none."""
    place = schema.places[number]
    above = sample if place.parent < 0 else _part(sample, schema, place.parent)
    if above is None:
        return None
    parent = schema.place if place.parent < 0 else schema.places[place.parent]
    position = schema.children(parent).index(number)
    return above.get(parent.node.keys[position]) if isinstance(above, dict) else above[position]


@pytest.mark.parametrize("dtype", TENSOR_DTYPES)
def test_every_dtype_of_tensors_as_frame_and_as_column(dtype: str) -> None:
    itemsize = getattr(torch, dtype).itemsize
    bits = (torch.arange(6 * itemsize, dtype=torch.uint8) % (2 if dtype == "bool" else 255)).view(6, itemsize)
    made = bits.view(getattr(torch, dtype)).view(2, 3)
    schema, (again,) = put_together([{"frame": made, "turned": made.t(), "column": made[1, 2], "empty": made[:0]}])
    assert [leaf.node.kind for leaf in schema.leaves] == ["tensor", "tensor", "scalar", "tensor"]
    assert_same_sample({"frame": made, "turned": made.t(), "column": made[1, 2], "empty": made[:0]}, again)


@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_every_dtype_of_numpy(dtype: str) -> None:
    made = np.arange(6).reshape(2, 3).astype(dtype)
    sample = {"frame": made, "turned": made.T, "zero-d": made[1:, 2].reshape(()), "scalar": made[1, 2]}
    schema, (again,) = put_together([sample])
    assert [leaf.node.type for leaf in schema.leaves] == ["", "", "ndarray", "numpy"]
    assert_same_sample(sample, again)


def test_numbers_at_their_ends() -> None:
    numbers = [-(1 << 63), (1 << 63) - 1, 0, -1, 1 << 63, -(1 << 63) - 1, 1 << 1000]
    _, again = put_together([{"n": n} for n in numbers])
    assert [sample["n"] for sample in again] == numbers
    floats = [float("nan"), -0.0, 5e-324, float("-inf")]
    _, back = put_together(floats)
    assert_same_sample(floats, back)


def test_a_batch_is_built_of_collated_values_without_looking_into_them() -> None:
    schema = infer([SAMPLE])
    rebuilder = Rebuilder(schema)
    images, labels, paths = torch.zeros(4, 2, 3), torch.arange(4), ["a", "b", "c", "d"]
    batch = rebuilder.build((images, labels, paths))
    assert batch["image"] is images
    assert batch["label"] is labels
    assert batch["meta"] == {"path": paths, "at": None}
    chosen = Rebuilder(schema, ("meta", "image"))
    assert chosen.leaves == (0, 2)
    assert chosen.build([images, paths])[1] is images


def test_what_is_absent_is_left_out_and_none_where_it_is_asked_for() -> None:
    schema = infer([SAMPLE, {"meta": None}, {}])
    states = [0, 1, 2, 1, 1]  # of image, label, meta, meta.path, meta.at
    assert Rebuilder(schema).build(["I", 0, None], states) == {"image": "I", "meta": None}
    assert Rebuilder(schema, ("label", "meta.path", "image")).build(["I", 0, None], states) == (None, None, "I")


def test_named_tuples_are_fresh_or_the_callers() -> None:
    samples = [{"at": Point(1, 2.5), "boxes": [Box(1, 2, "x")], "deep": (Box(torch.ones(1), None, 3),)}]
    _, (again,) = put_together(samples)
    assert type(again["at"]) is fresh_class("Point", ("x", "y"))
    assert type(again["at"]) is not Point
    assert again["at"].x == 1
    assert again["boxes"][0].label == "x"
    _, (mine,) = put_together(samples, types=[Point, Box])
    assert type(mine["at"]) is Point
    assert type(mine["boxes"][0]) is Box
    assert type(mine["deep"][0]) is Box
    _, (others,) = put_together(samples, types=[Point])
    assert type(others["boxes"][0]) is not Box


def test_fresh_named_tuples_travel_between_processes() -> None:
    _, (again,) = put_together([Point(torch.ones(2), {"k": Box(1, 2, 3)})])
    for other in (pickle.loads(pickle.dumps(again)), copy.deepcopy(again), copy.copy(again)):
        assert type(other) is type(again)
        assert_same_sample(again, other)
    assert type(again)(1, 2) == (1, 2)  # as torch's collate makes one


def test_types_are_named_tuple_classes() -> None:
    for wrong in (int, "Point", tuple):
        with pytest.raises(UsageError, match="named tuple classes"):
            NamedTuples([wrong])  # type: ignore[list-item]


def test_nothing_selected_and_unknown_names_are_refused() -> None:
    schema = infer([SAMPLE])
    with pytest.raises(UsageError, match="at least one"):
        Rebuilder(schema, ())
    with pytest.raises(UsageError, match=r"'imag'.*'image', 'label', 'meta', 'meta\.path'"):
        Rebuilder(schema, ("imag",))


def test_ordered_dicts_keep_their_order() -> None:
    samples = [OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)]
    schema, again = put_together(samples)
    assert schema.root == Node("any")
    assert again == samples
    longer = [OrderedDict(b=1, d=2), OrderedDict(a=0, b=1, c=3, d=4), OrderedDict(c=1)]
    schema, again = put_together(longer)
    assert schema.root.keys == ("a", "b", "c", "d")
    assert again == longer


def test_restored_frames_that_are_not_what_they_must_be() -> None:
    leaf = Schema(Node("str")).leaves[0]
    with pytest.raises(FormatError, match=r"'value'.*UTF-8"):
        restore(leaf, np.array([255], np.uint8))
    with pytest.raises(FormatError, match="1-d uint8 array"):
        restore(leaf, np.zeros((2, 2), np.uint8))
    with pytest.raises(FormatError, match="1-d uint8 array"):
        restore(leaf, np.zeros(2, np.float32))
    with pytest.raises(FormatError, match=r"'value'.*not known"):
        restore(Schema(Node("any")).leaves[0], np.array([99], np.uint8))
    with pytest.raises(FormatError, match="takes 8 bytes of a row, not 3"):
        restore(Schema(scalar("int")).leaves[0], b"abc")


def test_bools_from_a_file_are_true_or_false() -> None:
    for kind, expected in {"bool": True, "numpy": np.True_, "tensor": torch.tensor(True)}.items():
        found = restore(Schema(scalar(kind, "bool")).leaves[0], b"\x02")
        assert_same_sample(expected, found)


@pytest.mark.parametrize("narrow", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("kind", ["tensor", "ndarray"])
def test_rounded_floats_come_back_in_the_dtype_they_had(narrow: Any, kind: str) -> None:
    given_values = torch.tensor([[1 / 3, -2.5, float("inf"), float("nan"), -0.0, 1e-5]], dtype=torch.float64)
    sample = {"x": given_values if kind == "tensor" else given_values.numpy()}
    schema, (again,) = put_together([sample], {"x": Field(store_as=narrow)})
    expected = given_values.to(getattr(torch, narrow)).to(torch.float64)
    assert_same_sample({"x": expected if kind == "tensor" else expected.numpy()}, again)
    assert schema.leaves[0].stored == narrow
    assert flatten(schema, sample).arrays[0].dtype == np.float64  # type: ignore[union-attr]
