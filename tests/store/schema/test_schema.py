"""The schema: its numbering, its names, and its JSON, also when that is hostile."""

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import FormatError, UsageError
from cordwood.store.schema.node import Node, node_to_json, scalar
from cordwood.store.schema.schema import MOST_PLACES, Schema, described_node
from cordwood.store.writing.infer import infer
from tests.store.support.samples import datasets

TENSOR = Node("tensor", dtype="float32")
TREE = Node(
    "dict",
    keys=("image", "meta", 7),
    items=(
        TENSOR,
        Node(
            "namedtuple", (Node("str"), Node("none"), Node("tuple", (scalar("int"), Node("any")))), ("p", "q", "r"), "M"
        ),
        scalar("tensor", "bfloat16"),
    ),
)


def test_leaves_and_places_are_numbered_depth_first() -> None:
    schema = Schema(TREE, {"image": "float16"})
    assert schema.names == ("image", "meta.p", "meta.r.0", "meta.r.1", "7")
    assert [place.name for place in schema.places] == [
        "image",
        "meta",
        "meta.p",
        "meta.q",
        "meta.r",
        "meta.r.0",
        "meta.r.1",
        "7",
    ]
    assert [place.number for place in schema.places] == list(range(8))
    assert [place.parent for place in schema.places] == [-1, -1, 1, 1, 1, 4, 4, -1]
    assert [place.end for place in schema.places] == [1, 7, 3, 4, 7, 6, 7, 8]
    assert [leaf.state for leaf in schema.leaves] == [0, 2, 5, 6, 7]
    assert [leaf.number for leaf in schema.leaves] == list(range(5))
    assert [leaf.frame for leaf in schema.leaves] == [0, 1, -1, 2, -1]
    assert [leaf.column for leaf in schema.leaves] == [-1, -1, 0, -1, 1]
    assert [leaf.stored for leaf in schema.leaves] == ["float16", "uint8", None, "uint8", None]
    assert [leaf.store_as for leaf in schema.leaves] == ["float16", None, None, None, None]
    assert schema.children(schema.place) == [0, 1, 7]
    assert schema.nodes == tuple(place.node for place in schema.places)


def test_a_sample_that_is_a_leaf_has_one_field_and_no_places() -> None:
    schema = Schema(TENSOR)
    assert schema.names == ("value",)
    assert schema.places == ()
    assert schema.leaves[0].state == -1
    assert schema.find("value") is schema.place


def test_finding_by_name() -> None:
    schema = Schema(TREE)
    assert schema.find("meta").leaves == range(1, 4)
    assert schema.find("meta.q").node.kind == "none"
    assert schema.leaf("meta.r.0").node == scalar("int")
    with pytest.raises(UsageError, match=r"no field 'label'; there are 'image', 'meta', 'meta\.p'"):
        schema.find("label")
    for container in ("meta", "meta.q", ""):
        with pytest.raises(UsageError, match=r"no field .*; there are 'image', 'meta.p'"):
            schema.leaf(container)


@pytest.mark.parametrize(
    "tree",
    [
        Node("dict", (TENSOR, Node("dict", (TENSOR,), ("b",))), ("a.b", "a")),
        Node("dict", (TENSOR, TENSOR), (1, "1")),
        Node("dict", (TENSOR, Node("dict", (Node("dict", (TENSOR,), ("c",)),), ("b",))), ("a.b", "a")),
    ],
)
def test_two_parts_of_one_name_are_refused(tree: Node) -> None:
    with pytest.raises(UsageError, match="two parts of a sample are both called"):
        Schema(tree)
    with pytest.raises(FormatError, match="both called"):
        Schema.from_json(_json(tree))


def _json(tree: Node) -> Any:
    return json.loads(json.dumps(node_to_json(tree)))


@given(datasets())
def test_json_and_pickle_give_the_same_schema(samples: list[Any]) -> None:
    schema = infer(samples)
    text = json.dumps(schema.to_json(), ensure_ascii=True)
    for again in (Schema.from_json(json.loads(text)), pickle.loads(pickle.dumps(schema))):
        assert again == schema
        assert again.hash == schema.hash
        assert again.names == schema.names


def test_the_hash_is_that_of_the_format_page() -> None:
    # printf '{"schema":{"dtype":"float32","kind":"tensor"},"stored":["float32"]}' | b2sum -l 64
    assert Schema(TENSOR).hash == int.from_bytes(bytes.fromhex("5b2656f73faf1277"), "little")
    assert Schema(TENSOR, {"value": "float16"}).hash != Schema(TENSOR).hash
    assert Schema(TENSOR, {"value": "float16"}) != Schema(TENSOR)
    assert Schema(TENSOR) != "a schema"


def test_stored_dtypes_come_from_the_file_too() -> None:
    schema = Schema.from_json(_json(TREE), ["bfloat16", None, None, None, None])
    assert schema == Schema(TREE, {"image": "bfloat16"})
    for wrong in (
        ["float16"],
        ["float64", None, None, None, None],
        ["float32", None, None, None, None],
        ["no", None, None, None, None],
        [3, None, None, None, None],
        [None, "float16", None, None, None],
        [None, None, "float16", None, None],
    ):
        with pytest.raises(FormatError):
            Schema.from_json(_json(TREE), wrong)


def _nested(levels: int) -> Any:
    tree: Any = {"kind": "str"}
    for _ in range(levels - 1):
        tree = {"kind": "list", "items": [tree]}
    return tree


def test_how_deep_a_schema_may_be() -> None:
    assert Schema.from_json(_nested(64)).names == (".".join(["0"] * 63),)
    with pytest.raises(FormatError, match="deeper than 64"):
        Schema.from_json(_nested(65))


@pytest.mark.slow
def test_how_large_a_schema_may_be() -> None:
    items = (Node("none"),) * MOST_PLACES
    assert len(Schema(Node("tuple", items)).places) == MOST_PLACES
    with pytest.raises(UsageError, match="more than 65536 parts"):
        Schema(Node("tuple", (*items, Node("none"))))


def test_a_long_key_does_not_multiply() -> None:
    below = {"kind": "tuple", "items": [{"kind": "str"}] * 1000}
    with pytest.raises(FormatError, match="letters"):
        Schema.from_json({"kind": "dict", "keys": ["k" * 20_000], "items": [below]})
    assert len(Schema.from_json({"kind": "dict", "keys": ["k" * 10_000], "items": [below]}).names) == 1000


STR = {"kind": "str"}


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (None, "where a node is expected"),
        ([STR], "where a node is expected"),
        ({}, "kind None"),
        ({"kind": 3}, "kind 3"),
        ({"kind": ["str"]}, "of kind"),
        ({"kind": "set"}, "kind 'set'; known are dict"),
        ({"kind": "none"}, "a sample is None"),
        ({"kind": "tensor"}, "no member 'dtype'"),
        ({"kind": "tensor", "dtype": "float33"}, "dtype 'float33'"),
        ({"kind": "tensor", "dtype": None}, "dtype None"),
        ({"kind": "ndarray", "dtype": "bfloat16"}, "NumPy array of bfloat16"),
        ({"kind": "scalar", "type": "numpy", "dtype": "complex32"}, "NumPy array of complex32"),
        ({"kind": "scalar", "type": "str", "dtype": "uint8"}, "type 'str'"),
        ({"kind": "scalar", "type": {}, "dtype": "uint8"}, "has type"),
        ({"kind": "scalar", "type": "int", "dtype": "int32"}, "int64, but says int32"),
        ({"kind": "list", "items": {"0": STR}}, "not a list"),
        ({"kind": "list", "items": [3]}, "where a node is expected"),
        ({"kind": "dict", "items": [STR], "keys": []}, "1 items, but its keys"),
        ({"kind": "dict", "items": [STR], "keys": "a"}, "1 items, but its keys"),
        ({"kind": "dict", "items": [STR], "keys": [1.5]}, "texts and integers"),
        ({"kind": "dict", "items": [STR], "keys": [True]}, "texts and integers"),
        ({"kind": "dict", "items": [STR], "keys": [None]}, "texts and integers"),
        ({"kind": "dict", "items": [STR], "keys": [[1]]}, "texts and integers"),
        ({"kind": "dict", "items": [STR], "keys": [1 << 63]}, "texts and integers"),
        ({"kind": "dict", "items": [STR], "keys": ["\ud800"]}, "texts and integers"),
        ({"kind": "dict", "items": [STR, STR], "keys": ["a", "a"]}, "each once"),
        ({"kind": "namedtuple", "name": "P", "items": [STR], "keys": [1]}, "cannot be made"),
        ({"kind": "namedtuple", "name": 3, "items": [], "keys": []}, "cannot be made"),
        ({"kind": "namedtuple", "name": "P q", "items": [], "keys": []}, "cannot be made"),
        ({"kind": "namedtuple", "name": "class", "items": [], "keys": []}, "cannot be made"),
        ({"kind": "namedtuple", "name": "P", "items": [STR], "keys": ["def"]}, "cannot be made"),
        ({"kind": "namedtuple", "name": "P", "items": [STR], "keys": ["_x"]}, "cannot be made"),
        ({"kind": "namedtuple", "name": "P", "items": [STR], "keys": ["__class__"]}, "cannot be made"),
        ({"kind": "namedtuple", "name": "P", "items": [STR], "keys": ["ﬁ"]}, "cannot be made"),
        ({"kind": "namedtuple", "name": "P", "items": [STR, STR], "keys": ["a", "a"]}, "cannot be made"),
        ({"kind": "namedtuple", "name": "P", "items": [STR], "keys": ["_1"]}, "cannot be made"),
    ],
)
def test_hostile_schemas_are_refused(tree: Any, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        Schema.from_json(tree)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.sampled_from(["dict", "list", "a"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["kind", "items", "keys", "name", "type", "dtype"]), inner, max_size=6),
    ),
)


@given(datasets(max_size=1), JSON, st.data())
def test_whatever_a_schema_is_replaced_with(samples: list[Any], other: Any, data: st.DataObject) -> None:
    tree = infer(samples).to_json()
    node = tree
    while node.get("items") and data.draw(st.booleans()):
        node = data.draw(st.sampled_from(node["items"]))
    node[data.draw(st.sampled_from(sorted(node)))] = other
    try:
        found = Schema.from_json(tree)
    except FormatError:
        return
    assert Schema.from_json(found.to_json()) == found


def test_what_a_schema_looks_like() -> None:
    assert str(Schema(TREE, {"image": "float16"})).splitlines() == [
        "image     tensor of float32, stored as float16",
        "meta.p    str",
        "meta.r.0  int",
        "meta.r.1  anything",
        "7         0-d tensor of bfloat16",
    ]
    assert described_node(TREE.items[1]) == "named tuple M(p, q, r)"
    assert described_node(Node("ordereddict")) == "OrderedDict"
    assert described_node(Node("tuple", (TENSOR,))) == "tuple of 1"
    assert str(Schema(Node("dict"))) == "no fields"


def test_store_as_of_what_is_no_array_of_wider_floats() -> None:
    for tree, name in ((Node("tensor", dtype="int8"), "value"), (Node("str"), "value"), (scalar("float"), "value")):
        with pytest.raises(UsageError, match="store_as"):
            Schema(tree, {name: "float16"})
    with pytest.raises(UsageError, match="'x' is none"):
        Schema(TENSOR, {"x": "float16"})
