"""predict: residuals of med and delta are those of the definition, in every geometry and block."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import COLORS, GEOMETRIES, Predict
from tests.codecs.support import definitions
from tests.codecs.support.definitions import Array
from tests.codecs.support.inside import encode_in_blocks, look_inside
from tests.format.support import craft
from tests.format.support.readers import same_bits
from tests.format.support.samples import array_type, random_bits

SMALL_CODES = ("uint8", "int8", "uint16", "int16", "float16", "bfloat16", "float8_e4m3fn")


@st.composite
def images(draw: st.DrawFn) -> tuple[str, Array, str, str]:
    """dtype, array, geometry, color: noise above, one value below, so that coding pays; any number of channels."""
    dtype = draw(st.sampled_from(SMALL_CODES))
    geometry = draw(st.sampled_from(list(GEOMETRIES)))
    color = draw(st.sampled_from(list(COLORS)))
    height, width, channels = draw(st.integers(1, 40)), draw(st.integers(1, 40)), draw(st.integers(1, 6))
    lead = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    image = {"hw": (height, width), "chw": (channels, height, width), "hwc": (height, width, channels)}[geometry]
    array = random_bits(dtype, (*lead, *image), draw(st.integers(0, 999))).copy()
    array.reshape(-1)[array.size // draw(st.integers(3, 9)) :] = 77
    return dtype, array, geometry, color


def residual_planes(codes: Array, shape: tuple[int, ...], geometry: str, color: str, block: int) -> list[list[bytes]]:
    channels = definitions.colored(definitions.channels_of(codes, shape, geometry), color)
    found = []
    for start in range(0, len(channels[0]), block):
        residuals = [definitions.med(channel[start : start + block]) for channel in channels]
        found.append([plane.tobytes() for residual in residuals for plane in definitions.byte_planes(residual)])
    return found


@settings(max_examples=150)
@given(images(), st.sampled_from([16, 32, 1 << 20]))
def test_med_is_the_definition(image: tuple[str, Array, str, str], block: int) -> None:
    dtype, array, geometry, color = image
    plan = codecs.Plan("small", dtype, (Predict("med", geometry, color), Lz4()))
    frame = encode_in_blocks(array, plan, block)
    assert same_bits(codecs.decode(frame), array)
    header, blocks = look_inside(frame)
    if header.coder == 0:  # tiny arrays are smaller as they are
        assert len(frame) - array.nbytes < 70
        return
    assert (header.predict, header.geometry) == (1, GEOMETRIES[geometry])
    channels = header.image[2]
    used = color if color != "green" or channels >= 3 else "none"
    assert header.color == COLORS[used]
    expected = residual_planes(definitions.bits_of(array), array.shape, geometry, used, header.block)
    assert [[plane.tobytes() for plane in planes] for planes in blocks] == expected


@settings(max_examples=150)
@given(images(), st.integers(1, 50))
def test_the_definition_of_med_is_decoded(image: tuple[str, Array, str, str], block: int) -> None:
    dtype, array, geometry, color = image
    channels = {"hw": 1, "chw": array.shape[-3] if array.ndim > 2 else 0, "hwc": array.shape[-1]}[geometry]
    color = color if color != "green" or channels >= 3 else "none"
    planes = residual_planes(definitions.bits_of(array), array.shape, geometry, color, block)
    bodies = [bytes(len(block_planes)) + b"".join(block_planes) for block_planes in planes]
    predict = craft.med(GEOMETRIES[geometry], COLORS[color])
    chain = craft.chain(predict=predict, planes=int(array.itemsize == 2), coder=craft.coded(), block=block)
    assert same_bits(codecs.decode(craft.frame(dtype, array.shape, chain, bodies)), array)


@settings(max_examples=150)
@given(
    st.sampled_from(["int8", "uint16", "float32", "int64", "complex64"]),
    st.integers(1, 300),
    st.integers(1, 40) | st.integers(1, 2**32 - 1),
    st.integers(16, 200),
    st.booleans(),
)
def test_delta_is_the_definition(dtype: str, size: int, lag: int, block: int, apart: bool) -> None:
    noise = random_bits(dtype, (size,), size)
    array = np.concatenate([noise, np.zeros(2 * size + 300, noise.dtype)])
    stages = (Predict("delta", lag=lag), *((Planes(),) if apart else ()), Lz4())
    frame = encode_in_blocks(array, codecs.Plan("small", dtype, stages), block)
    assert same_bits(codecs.decode(frame), array)
    header, blocks = look_inside(frame)
    assert (header.predict, header.lag) == (2, lag)
    codes = definitions.bits_of(array)
    for start, planes in zip(header.block_starts, blocks, strict=True):
        residuals = definitions.delta(codes[start : start + header.block], lag)
        expected = definitions.byte_planes(residuals) if apart else [residuals]
        assert [p.tobytes() for p in planes] == [p.tobytes() for p in expected]


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [("float32", (20, 20)), ("int64", (20, 20)), ("complex64", (20, 20)), ("uint8", (400,)), ("uint8", ())],
)
def test_med_is_left_out_where_it_cannot_be(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.zeros(shape, array_type(dtype))
    frame = codecs.encode(array, codecs.Plan("small", dtype, (Predict("med"), Lz4())))
    assert look_inside(frame)[0].predict == 0
    assert same_bits(codecs.decode(frame), array)


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1), (2, 2), (3, 1, 200), (40, 17, 1), (2, 3, 4, 5, 16)])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_odd_shapes(dtype: str, geometry: str, shape: tuple[int, ...]) -> None:
    array = (np.indices(shape).sum(axis=0) * 3 % 251).astype(dtype)
    for color in COLORS:
        frame = codecs.encode(array, codecs.Plan("small", dtype, (Predict("med", geometry, color), Lz4())))
        assert same_bits(codecs.decode(frame), array)


def test_blocks_of_an_image_beyond_256_kib() -> None:
    array = random_bits("uint8", (3, 700, 700)).copy()
    array[:, 100:] = np.arange(700, dtype=np.uint16).astype(np.uint8)
    plan = codecs.Plan("small", "uint8", (Predict("med", "chw", "green"), Lz4()))
    frame = codecs.encode(array, plan)
    header, blocks = look_inside(frame)
    assert len(blocks) > 3
    assert header.block % 16 == 0
    expected = residual_planes(definitions.bits_of(array), array.shape, "chw", "green", header.block)
    assert [[plane.tobytes() for plane in planes] for planes in blocks] == expected
    assert same_bits(codecs.decode(frame, threads=2), array)
