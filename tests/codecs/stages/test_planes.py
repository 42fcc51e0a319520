"""planes: byte b of every code in plane b; rotated, the sign leaves the exponent's byte."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.planes import Planes
from tests.codecs.support import definitions
from tests.codecs.support.definitions import Array
from tests.codecs.support.inside import encode_in_blocks, look_inside
from tests.format.support import craft
from tests.format.support.readers import same_bits
from tests.format.support.samples import random_bits


@st.composite
def arrays(draw: st.DrawFn) -> tuple[str, Array]:
    """Any bits of any dtype, then zeros, so that coding pays."""
    dtype = draw(st.sampled_from(list(DTYPES)))
    noise = random_bits(dtype, (draw(st.integers(1, 60)),), draw(st.integers(0, 999)))
    return dtype, np.concatenate([noise, np.zeros(draw(st.integers(400, 500)), noise.dtype)])


@settings(max_examples=150)
@given(arrays(), st.booleans(), st.integers(16, 700))
def test_planes_are_the_definition(given_array: tuple[str, Array], rotated: bool, block: int) -> None:
    dtype, array = given_array
    plan = codecs.Plan.single("small", dtype, (Planes(rotated), Lz4()))
    frame = encode_in_blocks(array, plan, block)
    assert same_bits(codecs.decode(frame), array)
    header, blocks = look_inside(frame)
    codes = definitions.bits_of(array, dtype)
    rotates = header.planes == 2
    assert rotates <= rotated
    assert rotates == rotated or codes.itemsize == 1  # one byte has no sign to put elsewhere
    for start, planes in zip(header.block_starts, blocks, strict=True):
        part = codes[start : start + header.block]
        expected = definitions.byte_planes(definitions.rotate_left(part) if rotates else part)
        assert [p.tobytes() for p in planes] == [p.tobytes() for p in expected]


@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_definition_is_decoded(dtype: str, kind: int) -> None:
    array = random_bits(dtype, (7, 13))
    codes = definitions.bits_of(array, dtype)
    planes = definitions.byte_planes(definitions.rotate_left(codes) if kind == 2 else codes)
    block = bytes(len(planes)) + b"".join(plane.tobytes() for plane in planes)
    chain = craft.chain(planes=kind, coder=craft.coded())
    assert same_bits(codecs.decode(craft.frame(dtype, array.shape, chain, [block])), array)


def test_rotation_makes_the_exponent_one_byte() -> None:
    weights = (np.random.default_rng(0).standard_normal(4000) * 0.02).astype(np.float32)
    plan = codecs.Plan.single("small", "float32", (Planes(rotated=True), Lz4()))
    # repeated, so that the frame is smaller than the array
    header, blocks = look_inside(codecs.encode(np.tile(weights, 4), plan))
    assert header.planes == 2
    exponents = (weights.view(np.uint32) >> 23) & 255
    assert blocks[0][3][0][:4000].tolist() == exponents.tolist()
