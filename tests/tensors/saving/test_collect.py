"""Pickling with tokens in place of what is not known yet."""

import pickle
import pickletools
from typing import Any

import pytest
import torch

from cordwood.tensors.saving.collect import Tokens, collect
from cordwood.tensors.saving.pickle_codes import integer, integers
from tests.tensors.support.objects import CATALOGUE, QUIET, floats

pytestmark = QUIET


def test_tokens_are_replaced_wherever_they_stand() -> None:
    tokens = Tokens()
    numbers = [tokens.new(index) for index in range(1000)]
    assert len(set(numbers)) == 1000
    pickled = pickle.dumps({"a": numbers, "b": numbers[7], 5: b"bytes"}, 2)
    values = [(-1) ** index * index**7 for index in range(1000)]
    done = tokens.replace(pickled, [integer(value) for value in values])
    assert pickle.loads(done) == {"a": values, "b": values[7], 5: b"bytes"}


def test_other_numbers_are_left_alone() -> None:
    tokens = Tokens()
    alike = int.from_bytes(bytes(4) + b"other bytes" + b"\x55", "little")
    obj = [alike, tokens.new(0), 2**127 - 1, 2**120]
    assert pickle.loads(tokens.replace(pickle.dumps(obj, 2), [integer(3)])) == [obj[0], 3, *obj[2:]]


@pytest.mark.parametrize("number", [0, 1, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**32, 2**63, 2**100, -1, -(2**31)])
def test_integers_as_opcodes(number: int) -> None:
    assert pickle.loads(b"\x80\x02" + integer(number) + b".") == number
    assert pickle.loads(b"\x80\x02" + integers((number, 3, number)) + b".") == (number, 3, number)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 10, 70])
def test_tuples_as_opcodes(count: int) -> None:
    assert pickle.loads(b"\x80\x02" + integers(tuple(range(count))) + b".") == tuple(range(count))


@pytest.mark.parametrize("tripwire", [False, True])
@pytest.mark.parametrize("name", CATALOGUE)
def test_no_token_stays_in_the_pickle(name: str, tripwire: bool) -> None:
    content = collect(CATALOGUE[name].make(), tripwire=tripwire)
    data = content.parcel(5).pickle
    for opcode, argument, _ in pickletools.genops(data):
        assert opcode.proto <= 2
        if opcode.name == "LONG1" and name != "plain_values":
            assert isinstance(argument, int)
            assert argument.bit_length() < 64


def test_what_is_pickled_twice_is_pickled_the_same() -> None:
    """Memory under two dtypes is known only after a first look."""
    base = floats(8)
    times = []

    class Counts:
        def __getstate__(self) -> dict[str, Any]:
            times.append(1)
            return {}

    Counts.__qualname__ = "Counts"
    globals()["Counts"] = Counts
    try:
        collect([base, Counts()])
        assert len(times) == 1
        collect([base, base.view(torch.int32), Counts()])
        assert len(times) == 3
    finally:
        del globals()["Counts"]


def test_the_order_of_storages_is_that_of_their_first_tensors() -> None:
    a, b = floats(3), floats(5)
    content = collect({"b": b, "a": a, "again": b[1:]})
    assert [(storage.key, storage.nbytes) for storage in content.storages] == [("0", 20), ("1", 12)]
