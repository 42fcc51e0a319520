"""A pickle that is looked at: what it would do is told, and not done."""

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from cordwood.errors import FormatError
from cordwood.tensors.unpickle.describe import Call, Global, Persistent, describe, nodes, sight
from tests.tensors.support.craft import EMPTY_HOOKS, call, get, glob, pickled, put, storage, tensor, text, tup


class Writes:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.write_text, (self.path, "x")


class Plain:
    def __init__(self) -> None:
        self.number = 5


def test_a_call_is_told_and_not_made(tmp_path: Path) -> None:
    data = pickle.dumps([Writes(tmp_path / "made")], 2)
    description = describe(data, "x")
    (made,) = description.root
    assert isinstance(made, Call)
    assert made.arguments[1] == "x"
    assert Global("pathlib", "PosixPath") in description.hooks.globals
    assert not (tmp_path / "made").exists()
    pickle.loads(data)
    assert (tmp_path / "made").exists()  # so it would have


def test_an_object_is_its_class_and_its_state() -> None:
    for protocol in (2, 4):
        made = describe(pickle.dumps(Plain(), protocol), "x").root
        assert isinstance(made, Call)
        assert made.name.endswith("test_describe.Plain")
        assert made.states == [{"number": 5}]


def test_items_and_pairs_are_kept_in_order() -> None:
    made = describe(pickled(call("collections.deque"), b"(K\x01K\x02e", text("k"), b"Ns"), "x").root
    assert (made.items, made.pairs) == ([1, 2], [("k", None)])


def test_a_plain_value_with_a_state_is_a_call() -> None:
    made = describe(pickled(b"}", text("s"), b"b"), "x").root
    assert (made.name, made.arguments, made.states) == ("builtins.dict", ({},), ["s"])


@pytest.mark.parametrize("opcodes", [b"NQ", b"}]a", b"]NNs", b"NNa"])
def test_what_makes_no_sense_is_refused(opcodes: bytes) -> None:
    with pytest.raises(FormatError):
        describe(pickled(opcodes), "x")


def test_names_of_python_2_are_todays() -> None:
    hooks = describe(pickled(glob("__builtin__.set")), "x").hooks
    assert list(hooks.globals) == [Global("builtins", "set")]


def pickle_of(value: Any) -> bytes:
    file = io.BytesIO()
    torch.save(value, file)
    with zipfile.ZipFile(file) as archive:
        return archive.read("archive/data.pkl")


def test_a_view_is_seen_with_the_bytes_that_say_it() -> None:
    base = torch.arange(20.0).reshape(4, 5)
    data = pickle_of(base[1:3, 2:])
    found = sight(describe(data, "x").root)
    assert found is not None
    assert found.arguments[1:4] == (7, (2, 3), (5, 1))
    assert found.storage.identity[2] == "0"
    starts = found.arguments.starts
    assert pickle.loads(data[starts[2] : starts[3]] + b".") == (2, 3)


def test_a_view_inside_a_subclass_is_seen() -> None:
    value = torch.ones(3)
    value.note = "mine"  # type: ignore[attr-defined]
    root = describe(pickle_of(value), "x").root
    assert root.name == "torch._tensor._rebuild_from_type_v2"
    found = sight(root)
    assert found is not None
    assert found.function == "torch._utils._rebuild_tensor_v2"


NO_VIEWS = {
    "another function": call("a.b", storage(), 0, (4,), (1,)),
    "no storage": call("torch._utils._rebuild_tensor_v2", 5, 0, (4,), (1,)),
    "too few arguments": call("torch._utils._rebuild_tensor_v2", storage(), 0),
    "no offset": call("torch._utils._rebuild_tensor_v2", storage(), None, (4,), (1,)),
    "no numbers": tensor(size=(None,)),
    "a list": tensor(size=[4]),
    "two lengths": tensor(size=(2, 2)),
    "a function that is a value": call("torch._tensor._rebuild_from_type_v2", (1, 2), 3, tup(storage(), 0), None),
    "not even a call": b"N",
}


@pytest.mark.parametrize("kind", NO_VIEWS)
def test_what_is_no_view_is_not_seen_as_one(kind: str) -> None:
    assert sight(describe(pickled(NO_VIEWS[kind]), "x").root) is None


def test_the_function_of_a_type_is_not_printed() -> None:
    """A tuple of tuples that would take for ever to print stands where a function should."""
    laughs = b")" + b"".join(put(i) + b"0(" + get(i) * 10 + b"t" for i in range(60))
    opcodes = call("torch._tensor._rebuild_from_type_v2", laughs, None, (), None)
    assert sight(describe(pickled(opcodes), "x").root) is None


def test_nodes_are_told_once_each_also_in_a_cycle() -> None:
    root = describe(pickled(b"]", put(1), b"(", get(1), tensor(), put(2), get(2), b"e"), "x").root
    found = list(nodes(root))
    assert len({id(node) for node in found}) == len(found)
    assert sum(isinstance(node, Persistent) for node in found) == 1
    assert found[0] is root


def test_every_storage_is_told_with_its_place() -> None:
    data = pickled(tup(tensor("0"), EMPTY_HOOKS, tensor("1")))
    persistents = describe(data, "x").hooks.persistents
    assert [found.identity[2] for found in persistents] == ["0", "1"]
