"""dtypes: the format's table, what NumPy lacks, and arrays made plain."""

import ml_dtypes
import numpy as np
import pytest

from cordwood import codecs
from cordwood.codecs import Goal
from cordwood.codecs.dtypes import BY_CODE, DTYPES, dtype_of, plain
from cordwood.errors import UsageError
from tests.format.support.craft import DTYPES as PAGE_DTYPES
from tests.format.support.readers import same_bits
from tests.format.support.samples import array_type, random_bits

ML_DTYPES = [name for name in DTYPES if hasattr(ml_dtypes, name) and not hasattr(np, name)]


def test_numbers_and_carriers_are_those_of_the_page() -> None:
    assert tuple(DTYPES) == PAGE_DTYPES
    assert [dtype.code for dtype in BY_CODE] == list(range(len(PAGE_DTYPES)))
    assert {name: dtype.numpy for name, dtype in DTYPES.items()} == {name: array_type(name) for name in PAGE_DTYPES}


@pytest.mark.parametrize("name", DTYPES)
def test_carriers_with_a_name(name: str) -> None:
    array = random_bits(name, (5,))
    assert dtype_of(array, name).name == name
    assert plain(array, DTYPES[name]) is array


@pytest.mark.parametrize("name", ML_DTYPES)
@pytest.mark.parametrize("goal", ["small", "fast"])
def test_arrays_of_ml_dtypes(name: str, goal: Goal) -> None:
    array = random_bits(name, (40, 30)).view(getattr(ml_dtypes, name))
    for frame in (codecs.encode(array, goal), codecs.encode(array, goal, dtype=name)):
        assert codecs.frame_info(frame).dtype == name
        decoded = codecs.decode(frame)
        assert decoded.dtype == DTYPES[name].numpy
        assert same_bits(decoded.view(array.dtype), array)
        out = np.empty_like(array)
        assert codecs.decode(frame, out=out) is out
        assert same_bits(out, array)


def test_there_are_ml_dtypes_to_try() -> None:
    assert {"bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu"} <= set(ML_DTYPES)


@pytest.mark.parametrize(
    ("array", "name", "message"),
    [
        (np.zeros(3, np.uint8), "bfloat16", "dtype='bfloat16' needs an array of uint16 (its bits), not of uint8"),
        (np.zeros(3, np.float32), "uint32", "dtype='uint32' needs an array of uint32 (its bits), not of float32"),
        (np.zeros(3, np.int8), "float8_e5m2", "needs an array of uint8 (its bits), not of int8"),
        (np.zeros(3, np.uint8), "float8", "dtype must be 'bool', 'uint8'"),
        (np.array(["a"]), None, "an array of dtype <U1 cannot be encoded: plain numbers can"),
        (np.array([None]), None, "an array of dtype object cannot be encoded"),
        (np.zeros(3, "M8[s]"), None, "an array of dtype datetime64[s] cannot be encoded"),
        (np.zeros(3, [("x", "f4")]), None, "cannot be encoded"),
        (np.zeros(3, "S4"), None, "an array of dtype |S4 cannot be encoded"),
    ],
)
@pytest.mark.parametrize("goal", ["balanced", "raw"])
def test_what_cannot_be_is_told(
    array: np.ndarray[tuple[int], np.dtype[np.generic]], name: str, message: str, goal: Goal
) -> None:
    with pytest.raises(UsageError) as caught:
        codecs.encode(array, goal, dtype=name)
    assert message in str(caught.value)
    with pytest.raises(UsageError):
        codecs.plan([array], goal, dtype=name)
    with pytest.raises(UsageError):
        codecs.encode_many([array], goal, dtype=name)


@pytest.mark.parametrize("dtype", [">u2", ">i4", ">f2", ">f4", ">f8", ">c8", ">i8"])
def test_big_endian_arrays_are_made_little(dtype: str) -> None:
    array = random_bits("uint8", (8, 16)).view(dtype)
    expected = array.astype(np.dtype(dtype).newbyteorder("<"))
    made = plain(array, dtype_of(array))
    assert made.dtype == np.dtype(dtype).newbyteorder("<")
    assert same_bits(made, expected)


def test_plain_keeps_shapes() -> None:
    for shape in [(), (0,), (3, 0, 2), (1,), (4, 5)]:
        array = np.zeros(shape, np.float32)
        assert plain(array, DTYPES["float32"]).shape == shape
        assert plain(np.asfortranarray(array), DTYPES["float32"]).flags.c_contiguous
