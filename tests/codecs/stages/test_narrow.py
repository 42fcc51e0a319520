"""narrow: the codes in a frame are the distances from the minimum, in the fewest bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from tests.codecs.support import definitions
from tests.codecs.support.definitions import Array
from tests.codecs.support.inside import look_inside
from tests.format.support import craft
from tests.format.support.readers import same_bits

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")


@st.composite
def integers(draw: st.DrawFn) -> Array:
    """Any minimum, any width of range; most elements are the minimum, so that coding always pays."""
    dtype = draw(st.sampled_from(INTEGERS))
    info = np.iinfo(dtype)
    lowest = draw(st.integers(info.min, info.max))
    span = min(draw(st.integers(0, 64).flatmap(lambda bits: st.integers(0, 2**bits - 1))), info.max - lowest)
    some = draw(st.lists(st.integers(lowest, lowest + span), max_size=30))
    numbers = [lowest, lowest + span, *some] + [lowest] * draw(st.integers(400, 900))
    return np.array(numbers, dtype)


@settings(max_examples=150)
@given(integers(), st.booleans(), st.booleans(), st.booleans())
def test_codes_are_the_definition(array: Array, pack_bits: bool, align_top: bool, apart: bool) -> None:
    stages = (Narrow(pack_bits, align_top), *((Planes(),) if apart else ()), Lz4())
    plan = codecs.Plan.single("small", array.dtype.name, stages)
    frame = codecs.encode(array, plan)
    header, blocks = look_inside(frame)
    expected = definitions.narrow(array, pack_bits=pack_bits, align_top=align_top)
    assert same_bits(codecs.decode(frame), array)
    if header.value == 0:  # nothing would have been gained
        assert (expected.bits, expected.shift) == (8 * array.itemsize, 0)
        codes = definitions.bits_of(array)
    else:
        assert (header.value, header.minimum, header.bits) == (1, expected.minimum, expected.bits)
        assert header.shift == expected.shift
        codes = expected.codes
    if codes.size == 0:
        assert blocks == []
        return
    if header.bits == 1:
        planes = [definitions.pack_eight(codes)]
    else:
        planes = definitions.byte_planes(codes) if apart else [np.frombuffer(codes.tobytes(), np.uint8)]
    assert [plane.tobytes() for plane in blocks[0]] == [plane.tobytes() for plane in planes]


@settings(max_examples=100)
@given(integers(), st.booleans(), st.booleans())
def test_the_definition_is_decoded(array: Array, pack_bits: bool, align_top: bool) -> None:
    narrowed = definitions.narrow(array, pack_bits=pack_bits, align_top=align_top)
    codes = definitions.pack_eight(narrowed.codes) if narrowed.bits == 1 else narrowed.codes
    chain = craft.chain(craft.narrow(narrowed.minimum, narrowed.bits, narrowed.shift))
    blocks = [codes.tobytes()] if narrowed.bits else []
    assert same_bits(codecs.decode(craft.frame(array.dtype.name, array.shape, chain, blocks)), array)


def test_one_value_is_nothing_but_a_header() -> None:
    frame = codecs.encode(np.full((1000, 1000), -7, np.int64), "balanced")
    header, blocks = look_inside(frame)
    assert (header.bits, header.minimum, blocks) == (0, -7, [])
    assert len(frame) < 40


def test_two_values_share_a_byte() -> None:
    array = np.random.default_rng(0).choice(np.array([2**62, 2**62 + 1]), 8000)
    frame = codecs.encode(array, codecs.Plan.single("fast", "int64", (Narrow(), Raw())))
    assert len(frame) < 1000 + 60
    assert same_bits(codecs.decode(frame), array)


def test_bool_with_other_bytes_than_0_and_1() -> None:
    array = np.tile(np.array([0, 1, 2, 255], np.uint8), 300).view(np.bool_)
    frame = codecs.encode(array, codecs.Plan.single("fast", "bool", (Narrow(), Raw())))
    assert same_bits(codecs.decode(frame), array)
    assert codecs.decode(frame).view(np.uint8)[:4].tolist() == [0, 1, 2, 255]


@pytest.mark.parametrize("values", [2, 3, 255, 256, 257, 65536, 65537])
def test_bits_step_up_where_the_range_does(values: int) -> None:
    array = np.linspace(0, values - 1, 70000).astype(np.int64) - 5
    header, _ = look_inside(codecs.encode(array, codecs.Plan.single("fast", "int64", (Narrow(), Raw()))))
    assert header.bits == (1 if values == 2 else 8 if values <= 256 else 16 if values <= 65536 else 32)


def test_align_top_puts_the_weightiest_bits_in_the_first_byte() -> None:
    array = np.arange(300, dtype=np.int32)
    plan = codecs.Plan.single("small", "int32", (Narrow(pack_bits=False, align_top=True), Planes(), Entropy()))
    header, blocks = look_inside(codecs.encode(array, plan))
    assert (header.bits, header.shift) == (16, 7)
    low, high = blocks[0]
    assert high[0].tolist() == (array >> 1).tolist()
    assert set(low[0].tolist()) == {0, 128}


@pytest.mark.parametrize("predict", [Predict("delta"), Predict("med")])
def test_bits_of_their_own_take_no_prediction(predict: Predict) -> None:
    array = np.random.default_rng(1).integers(0, 2, (64, 64)).astype(np.int16)
    header, _ = look_inside(codecs.encode(array, codecs.Plan.single("small", "int16", (Narrow(), predict, Lz4()))))
    assert (header.bits, header.predict, header.planes) == (1, 0, 0)
