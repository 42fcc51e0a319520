"""Headers of `.safetensors` files, odd and hostile: what `cw.load` makes of them, beside the format's own library."""

import io
import json
import struct
from typing import Any

import pytest
import safetensors.torch
import torch
from safetensors import SafetensorError

import cordwood as cw
from tests.tensors.support.craft import safetensors as crafted

FOUR = struct.pack("<f", 1.5)
MANY = 1 << 63


def row(start: int, end: int, shape: Any = (1,), dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [start, end]}


def text(header: Any) -> bytes:
    return json.dumps(header).encode()


ONE = text({"a": row(0, 4)})

TAKEN = {
    "no tensor": crafted({}),
    "metadata alone": crafted({"__metadata__": {"k": "v"}}),
    "no metadata in the metadata": crafted({"__metadata__": {}, "a": row(0, 4)}, FOUR),
    "null for the metadata": crafted({"__metadata__": None, "a": row(0, 4)}, FOUR),
    "a key of nobody": crafted({"a": row(0, 4) | {"note": 1}}, FOUR),
    "a scalar": crafted({"a": row(0, 4, ())}, FOUR),
    "no element": crafted({"a": row(0, 0, (2, 0))}),
    "no element, of a huge shape": crafted({"a": row(0, 0, (1 << 40, 0))}),
    "no element, at the end": crafted({"a": row(0, 4), "b": row(4, 4, (0,))}, FOUR),
    "no element, before the first": crafted({"a": row(0, 4), "b": row(0, 0, (0,))}, FOUR),
    "in another order than their bytes": crafted({"b": row(4, 8), "a": row(0, 4)}, FOUR + FOUR),
    "spaces behind the header": crafted(ONE + b"     ", FOUR),
    "a name that is no word": crafted({"": row(0, 4), "\n. \u20ac\U0001f600": row(4, 8)}, FOUR + FOUR),
    "a start that is no multiple of its items": crafted({"a": row(1, 5), "b": row(0, 1, (1,), "U8")}, b"x" + FOUR),
}
REFUSED = {
    "an empty file": b"",
    "a length alone": struct.pack("<Q", 0),
    "a length that is cut off": b"\x02\x00\x00",
    "no header": crafted(b""),
    "a length beyond the end": crafted(ONE, FOUR, length=10_000),
    "a length of more than 100 MB": crafted(ONE, FOUR, length=100_000_001),
    "a length of all ones": crafted(ONE, FOUR, length=(1 << 64) - 1),
    "a header that is not UTF-8": crafted(b'{"\xff": 1}'),
    "a name that is half a character": crafted(b'{"\\ud800"' + ONE[4:], FOUR),
    "metadata that are half a character": crafted(b'{"__metadata__":{"k":"\\udc00"},' + ONE[1:], FOUR),
    "a half of a character in bytes": crafted(b'{"\xed\xa0\x80"' + ONE[4:], FOUR),
    "NaN": crafted(ONE.replace(b'"shape"', b'"note": NaN, "shape"'), FOUR),
    "a header that is not JSON": crafted(b"{invalid"),
    "a list for a header": crafted(b"[]"),
    "two headers": crafted(ONE + ONE, FOUR),
    "lists in lists": crafted(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a number for a tensor": crafted({"a": 1}),
    "no offsets": crafted({"a": {"dtype": "F32", "shape": [1]}}, FOUR),
    "three offsets": crafted({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4, 4]}}, FOUR),
    "offsets that run backwards": crafted({"a": row(4, 0)}, FOUR),
    "an offset below zero": crafted({"a": row(-4, 0)}, FOUR),
    "an offset that is a fraction": crafted({"a": row(0, 4.0)}, FOUR),  # type: ignore[arg-type]
    "an offset as text": crafted({"a": row("0", "4")}, FOUR),  # type: ignore[arg-type]
    "a shape below zero": crafted({"a": row(0, 4, (-1, -1))}, FOUR),
    "a shape of other bytes": crafted({"a": row(0, 4, (2,))}, FOUR),
    "a shape whose product overflows to its bytes": crafted({"a": row(0, 4, (MANY, 2, 1))}, FOUR),
    "bytes that overflow": crafted({"a": row(0, 4, (MANY // 2 + 1, 1), "F32")}, FOUR),
    "a dtype of nobody": crafted({"a": row(0, 4, (1,), "F33")}, FOUR),
    "no dtype": crafted({"a": {"shape": [1], "data_offsets": [0, 4]}}, FOUR),
    "a number in the metadata": crafted({"__metadata__": {"k": 1}, "a": row(0, 4)}, FOUR),
    "a list for the metadata": crafted({"__metadata__": [], "a": row(0, 4)}, FOUR),
    "a key twice": crafted(ONE.replace(b'"shape"', b'"dtype":"F32","shape"'), FOUR),
    "two tensors over the same bytes": crafted({"a": row(0, 4), "b": row(0, 4)}, FOUR),
    "tensors that overlap": crafted({"a": row(0, 8, (2,)), "b": row(4, 12, (2,))}, FOUR * 3),
    "a hole before the first tensor": crafted({"a": row(4, 8)}, FOUR + FOUR),
    "a hole between tensors": crafted({"a": row(0, 4), "b": row(8, 12)}, FOUR * 3),
    "a tensor of nothing inside of another": crafted({"a": row(0, 4), "b": row(2, 2, (0,))}, FOUR),
    "bytes behind the last tensor": crafted(ONE, FOUR + b"#!/bin/sh"),
    "bytes and no tensor": crafted({}, FOUR),
    "an end that is missing": crafted(ONE, FOUR[:3]),
}
OURS_ALONE = {  # the library loads them
    "a name twice": crafted(ONE[:-1] + b"," + ONE[1:], FOUR),
    "a space before the header": crafted(b" " + ONE, FOUR),
    "65 dimensions": crafted({"a": row(0, 4, (1,) * 65)}, FOUR),
}


def by_the_library(data: bytes) -> dict[str, torch.Tensor] | None:
    try:
        return safetensors.torch.load(data)
    except (SafetensorError, OverflowError):
        return None


@pytest.mark.parametrize("kind", TAKEN)
def test_an_odd_header_is_read_as_the_library_does(kind: str) -> None:
    expected = by_the_library(TAKEN[kind])
    assert expected is not None
    found = cw.load(io.BytesIO(TAKEN[kind]))
    assert found.keys() == expected.keys()
    assert all(
        found[name].dtype == tensor.dtype and torch.equal(found[name], tensor) for name, tensor in expected.items()
    )


@pytest.mark.parametrize("kind", REFUSED)
def test_a_hostile_header_is_refused_as_by_the_library(kind: str) -> None:
    assert by_the_library(REFUSED[kind]) is None
    with pytest.raises(cw.FormatError):
        cw.load(io.BytesIO(REFUSED[kind]))


@pytest.mark.parametrize("kind", OURS_ALONE)
def test_what_is_refused_although_the_library_loads_it(kind: str) -> None:
    assert by_the_library(OURS_ALONE[kind]) is not None
    with pytest.raises(cw.FormatError):
        cw.load(io.BytesIO(OURS_ALONE[kind]))


@pytest.mark.parametrize("kind", ["a hole between tensors", "bytes behind the last tensor"])
def test_tensors_beside_bytes_of_nobody_can_be_read_by_name(kind: str) -> None:
    assert cw.load(io.BytesIO(REFUSED[kind]), only="a")["a"].tolist() == [1.5]
    with cw.peek(io.BytesIO(REFUSED[kind])) as file:
        assert file["a"].tolist() == [1.5]
    assert "the format allows no" in " ".join(cw.inspect(io.BytesIO(REFUSED[kind])).damaged)
