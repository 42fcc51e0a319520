"""The names of tensors: keys joined by dots, as a program would write them."""

import io
import zipfile
from collections import OrderedDict
from typing import Any

import pytest
import torch

from cordwood.errors import FormatError
from cordwood.tensors.unpickle.describe import describe
from cordwood.tensors.unpickle.tensor_names import is_tensor, named_tensors
from tests.tensors.support.craft import EMPTY_HOOKS, call, get, integer, pickled, put, tensor, text, tup


def names_in(data: bytes) -> list[str]:
    return [named.name for named in named_tensors(describe(data, "x").root, "x", len(data))]


def names_of(value: Any) -> list[str]:
    file = io.BytesIO()
    torch.save(value, file)
    with zipfile.ZipFile(file) as archive:
        return names_in(archive.read("archive/data.pkl"))


T = torch.ones(2)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (T, [""]),
        ({"a": T, "b": 5}, ["a"]),
        ({"a": {"b": [T.clone(), (T.clone(),)]}}, ["a.b.0", "a.b.1.0"]),
        ({7: T, 2.5: T.clone(), None: T.clone(), True: T.clone()}, ["7", "2.5", "None", "True"]),
        ({"a.b": T, "a": {"b": T.clone()}}, ["a.b", "a.b#2"]),
        ([T, T], ["0", "1"]),
        (OrderedDict(w=T), ["w"]),
        ({"p": torch.nn.Parameter(T)}, ["p"]),
        ({(1, 2): T}, ["?"]),
        ({"s": torch.eye(2).to_sparse()}, ["s"]),
        ({"m": torch.empty(2, device="meta")}, ["m"]),
        ([], []),
        ("text", []),
    ],
)
def test_keys_are_joined(value: Any, expected: list[str]) -> None:
    assert names_of(value) == expected


def test_a_module_is_known_as_its_state_dict_is() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    assert set(names_of(module)) == set(module.state_dict())
    assert names_of(module.state_dict()) == list(module.state_dict())


def test_an_optimizer_has_names() -> None:
    module = torch.nn.Linear(2, 3)
    optimizer = torch.optim.Adam(module.parameters())
    module(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    found = names_of({"optimizer": optimizer.state_dict()})
    assert "optimizer.state.0.exp_avg" in found
    assert "optimizer.state.1.step" in found


def test_old_files_have_pairs_in_a_list() -> None:
    pairs = call("collections.OrderedDict", [tup("a", tensor()), tup("b", tensor())])
    assert names_in(pickled(pairs)) == ["a", "b"]
    assert names_in(pickled(call("collections.OrderedDict", [tup("a"), 5, tup("b", tensor())]))) == ["b"]


def test_attributes_of_a_tensor_are_below_it() -> None:
    opcodes = call(
        "torch._utils._rebuild_parameter_with_state", tensor(), True, EMPTY_HOOKS, b"}" + text("mask") + tensor() + b"s"
    )
    assert names_in(pickled(b"}" + text("w") + opcodes + b"s")) == ["w", "w.mask"]


def test_a_cycle_is_walked_once() -> None:
    assert names_in(pickled(b"]", put(1), b"(", tensor(), get(1), b"e")) == ["0"]


@pytest.mark.parametrize(
    "function", ["torch._utils._rebuild_parameter_with_state", "torch._tensor._rebuild_from_type_v2"]
)
def test_a_call_without_arguments_is_a_tensor_without_more(function: str) -> None:
    root = describe(pickled(call(function)), "x").root
    assert is_tensor(root)
    assert [named.name for named in named_tensors(root, "x", 100)] == [""]


def test_a_key_that_cannot_be_printed_is_a_question_mark() -> None:
    assert names_in(pickled(b"}" + integer(1 << 100_000) + tensor() + b"s")) == ["?"]


def test_depth_is_bounded() -> None:
    assert names_in(pickled(b"]" * 900 + tensor() + b"a" * 900)) == [".".join("0" * 900)]
    with pytest.raises(FormatError, match="nested in each other"):
        names_in(pickled(b"]" * 1100 + tensor() + b"a" * 1100))


def test_a_list_of_many_numbers_is_no_trouble() -> None:
    assert names_of({"vocabulary": list(range(100_000)), "w": T}) == ["w"]
