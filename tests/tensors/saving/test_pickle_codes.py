"""Values in opcodes: Python's own pickle reads them, and would have written the same."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.tensors.saving.pickle_codes import integer, integers, text


def read(code: bytes) -> object:
    return pickle.loads(b"\x80\x02" + code + b".")


@pytest.mark.parametrize("around", [0, 1 << 8, 1 << 16, 1 << 31, 1 << 32, 1 << 63, 1 << 64, 1 << 200])
def test_integers_at_the_edges(around: int) -> None:
    for value in range(around - 2, around + 3):
        for signed in (value, -value):
            assert read(integer(signed)) == signed
            assert b"\x80\x02" + integer(signed) + b"." == pickle.dumps(signed, 2)


@given(st.integers())
def test_any_integer(value: int) -> None:
    assert read(integer(value)) == value


@given(st.lists(st.integers(), max_size=6))
def test_tuples(values: list[int]) -> None:
    assert read(integers(values)) == tuple(values)


@given(st.text(st.characters(codec=None)))
def test_text(value: str) -> None:
    assert read(text(value)) == value
