"""Values of any structure as bytes, and bytes that are none."""

import struct
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cordwood.errors import FormatError, UsageError
from cordwood.store.values.any_value import decode, encode
from cordwood.store.values.namedtuples import NamedTuples
from tests.store.support.samples import Point, assert_same_sample, values


@given(values())
def test_every_value_comes_back(value: Any) -> None:
    assert_same_sample(value, decode(encode(value)))


@given(values(), st.data())
def test_changed_bytes_are_another_value_or_an_error(value: Any, data: st.DataObject) -> None:
    encoded = bytearray(encode(value))
    at = data.draw(st.integers(0, len(encoded) - 1))
    encoded[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = decode(encoded)
    except FormatError:
        return
    encode(found)  # whatever it is, it is something that a sample may hold


@given(values())
def test_cut_short_and_too_long(value: Any) -> None:
    encoded = encode(value)
    for size in range(len(encoded)):
        with pytest.raises(FormatError):
            decode(encoded[:size])
    with pytest.raises(FormatError, match="1 bytes too many"):
        decode(encoded + b"\0")


@given(st.binary(max_size=40))
def test_any_bytes(data: bytes) -> None:
    try:
        found = decode(data)
    except FormatError:
        return
    encode(found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, b"\x00"),
        (False, b"\x01"),
        (True, b"\x02"),
        (0, b"\x03\x01\x00"),
        (127, b"\x03\x01\x7f"),
        (128, b"\x03\x02\x80\x00"),
        (-128, b"\x03\x01\x80"),
        (-129, b"\x03\x02\x7f\xff"),
        (1.5, b"\x04" + struct.pack("<d", 1.5)),
        (1 - 2j, b"\x05" + struct.pack("<2d", 1, -2)),
        ("ä", b"\x06\x02\xc3\xa4"),
        ("\ud800", b"\x06\x03\xed\xa0\x80"),
        (b"ab", b"\x07\x02ab"),
        ([None, []], b"\x08\x02\x00\x08\x00"),
        ((True,), b"\x09\x01\x02"),
        ({"a": 1}, b"\x0a\x01\x06\x01a\x03\x01\x01"),
        (OrderedDict(), b"\x0b\x00"),
        (Point(None, None), b"\x0c\x05Point\x02\x01x\x01y\x00\x00"),
        (torch.tensor([[1], [2]], dtype=torch.int16), b"\x0d\x04\x02\x02\x01\x01\x00\x02\x00"),
        (torch.tensor(1.0, dtype=torch.bfloat16), b"\x0d\x0a\x00\x80\x3f"),
        (np.array([1], ">u2"), b"\x0e\x03\x01\x01\x01\x00"),
        (np.float32(1), b"\x0f\x0b\x00\x00\x80\x3f"),
        ([1, 2, 3], b"\x08\x03\x03\x01\x01\x03\x01\x02\x03\x01\x03"),
        ([1, -128, 127, 0], b"\x10\x01\x04\x01\x80\x7f\x00"),
        ([1, 2, 3, 128], b"\x10\x02\x04" + struct.pack("<4h", 1, 2, 3, 128)),
        ([1, 2, 3, -(2**31)], b"\x10\x04\x04" + struct.pack("<4i", 1, 2, 3, -(2**31))),
        ([1, 2, 3, 2**31], b"\x10\x08\x04" + struct.pack("<4q", 1, 2, 3, 2**31)),
        ([0, 0, 0, 2**63], b"\x08\x04" + b"\x03\x01\x00" * 3 + b"\x03\x09" + bytes(7) + b"\x80\x00"),
        ([0.5, -0.0, 1.0, 2.0], b"\x11\x04" + struct.pack("<4d", 0.5, -0.0, 1.0, 2.0)),
        ([True, False, True, 1], b"\x08\x04\x02\x01\x02\x03\x01\x01"),
        (b"x" * 200, b"\x07\xc8\x01" + b"x" * 200),
    ],
)
def test_the_bytes_of_the_format_page(value: Any, expected: bytes) -> None:
    assert encode(value) == expected


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "ends after 0 bytes"),
        (b"\x12", "type 18, which is not known"),
        (b"\x10\x03\x01abc", "integers of 3 bytes"),
        (b"\x10\x04\x02abcdabc", "ends after"),
        (b"\x11\x01abcdefg", "ends after"),
        (b"\x03\x81", "ends after"),
        (b"\x07\x80\x00", "not written as it must be"),
        (b"\x07" + b"\x80" * 10 + b"\x01", "not written as it must be"),
        (b"\x07" + b"\xff" * 9 + b"\x02", "not written as it must be"),
        (b"\x07" + b"\xff" * 9 + b"\x01", "bytes, .* are expected"),
        (b"\x06\x01\xff", "not UTF-8"),
        (b"\x08\xff\xff\xff\x7f\x00", "items, 1 bytes are left"),
        (b"\x0a\x02\x02\x00\x02\x00", "a key twice"),
        (b"\x0a\x02\x02\x00\x03\x01\x01\x00", "a key twice"),  # True and 1
        (b"\x0a\x01\x08\x00\x00", "a key of type list"),
        (b"\x0a\x01\x0d\x00\x00\x01\x00", "a key of type Tensor"),
        (b"\x0a\x01\x09\x01\x08\x00\x00", "a key of type tuple"),
        (b"\x0c\x05class\x00", "named tuple that cannot be made"),
        (b"\x0c\x01P\x02\x01x\x01x\x00\x00", "named tuple that cannot be made"),
        (b"\x0c\x01P\x01\x02_x\x00", "named tuple that cannot be made"),
        (b"\x0d\x16\x00\x00", "dtype 22, which is not known"),
        (b"\x0d\x01\x41" + b"\x00" * 65, "65 dimensions"),
        (b"\x0d\x01\x02\x00" + b"\x80" * 6 + b"\x40", "larger than any can be"),
        (b"\x0d\x01\x02" + b"\x80\x80\x80\x80\x80\x20" * 2, "larger than any can be"),
        (b"\x0d\x08\x01\x02" + b"\x00" * 15, "ends after"),
        (b"\x0e\x0a\x00\x00\x00", "bfloat16, which NumPy lacks"),
        (b"\x0f\x14\x00\x00\x00\x00", "complex32, which NumPy lacks"),
        (b"\x08\x01" * 65 + b"\x00", "deeper than 64"),
    ],
)
def test_bytes_that_are_no_value(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        decode(data)


def test_how_deep_a_value_may_be() -> None:
    value: Any = None
    for _ in range(64):
        value = [value]
    assert decode(encode(value)) == value
    with pytest.raises(UsageError, match="'field' is nested deeper than 64 levels"):
        encode([value], "field")


def test_a_key_that_is_nested_without_end() -> None:
    key: Any = ()
    for _ in range(70):
        key = (key,)
    with pytest.raises(UsageError, match="'field'"):
        encode({key: 1}, "field")


def test_bools_are_true_or_false() -> None:
    assert decode(b"\x0e\x00\x01\x02\x02\x00").view(np.uint8).tolist() == [1, 0]


def test_arrays_own_their_memory_and_may_be_written_to() -> None:
    data = encode([torch.arange(3), np.arange(3)])
    tensor, array = decode(data)
    tensor += 1
    array += 1
    assert decode(data)[0].tolist() == [0, 1, 2]


def test_the_callers_classes_are_taken() -> None:
    assert type(decode(encode([Point(1, 2)]), NamedTuples([Point]))[0]) is Point


@pytest.mark.parametrize("value", [{1}, object(), {frozenset(): 1}, torch.zeros(2).to_sparse(), np.array(["a"])])
def test_what_no_sample_can_hold(value: Any) -> None:
    with pytest.raises(UsageError, match="field 'x' cannot be stored"):
        encode([value], "x")
