"""predict: residuals of med and delta are those of the definition, in every geometry and block."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import COLORS, GEOMETRIES, Predict
from cordwood.errors import FormatError
from tests.codecs.support import definitions
from tests.codecs.support.definitions import Array
from tests.codecs.support.inside import encode_in_blocks, look_inside
from tests.format.support import craft
from tests.format.support.readers import reader, same_bits
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
    plan = codecs.Plan.single("small", dtype, (Predict("med", geometry, color), Lz4()))
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


@st.composite
def groups(draw: st.DrawFn) -> tuple[Array, str, str, int, int]:
    """An image of bytes, geometry, color, rows of a block, and a seed for kinds and factors."""
    _, array, geometry, color = draw(images().filter(lambda image: image[1].itemsize == 1))
    return array.view(np.uint8), geometry, color, draw(st.integers(1, 50)), draw(st.integers(0, 999))


def channels_in(array: Array, geometry: str) -> int:
    return int({"hw": 1, "chw": array.shape[-3] if array.ndim > 2 else 0, "hwc": array.shape[-1]}[geometry])


@settings(max_examples=150)
@given(groups())
def test_the_definition_of_mixed_is_decoded(image: tuple[Array, str, str, int, int]) -> None:
    array, geometry, color, block, seed = image
    count = channels_in(array, geometry)
    color = color if color != "green" or count >= 3 else "none"
    channels = definitions.colored(definitions.channels_of(array, array.shape, geometry), color)
    chance, base = np.random.default_rng(seed), int(color == "green")
    bodies = []
    for start in range(0, len(channels[0]), block):
        rows = [channel[start : start + block] for channel in channels]
        shape = (count, (len(rows[0]) + 15) // 16, (rows[0].shape[1] + 30) // 16)
        kinds, factors = (chance.integers(0, 8, shape).astype(np.uint8) for _ in range(2))
        factors[base] = 0
        planes = [*definitions.mixed(rows, kinds, factors, base), kinds, factors]
        bodies.append(bytes(len(planes)) + b"".join(plane.tobytes() for plane in planes))
    chain = craft.chain(predict=craft.mixed(GEOMETRIES[geometry], COLORS[color]), coder=craft.coded(), block=block)
    frame = craft.frame("uint8", array.shape, chain, bodies)
    assert same_bits(codecs.decode(frame), array)
    assert same_bits(reader.read(frame)[0], array)


@settings(max_examples=100)
@given(images(), st.sampled_from([16, 32, 1 << 20]))
def test_mixed_is_the_definition(image: tuple[str, Array, str, str], block: int) -> None:
    dtype, array, geometry, color = image
    frame = encode_in_blocks(
        array, codecs.Plan.single("small", dtype, (Predict("mixed", geometry, color), Lz4())), block
    )
    assert same_bits(codecs.decode(frame), array)
    header, blocks = look_inside(frame)
    if header.coder == 0:
        return
    assert header.predict == (3 if array.itemsize == 1 else 1)
    if header.predict != 3:
        return
    channels = definitions.channels_of(definitions.bits_of(array), array.shape, geometry)
    names = list(COLORS)
    channels = definitions.colored(channels, names[header.color])
    for start, planes in zip(header.block_starts, blocks, strict=True):
        *residuals, kinds, factors = planes
        rows = [channel[start : start + header.block] for channel in channels]
        by_channel = [one.reshape(len(rows), -1, one.shape[1]) for one in (kinds, factors)]
        expected = definitions.mixed(rows, by_channel[0], by_channel[1], int(names[header.color] == "green"))
        assert [plane.tobytes() for plane in residuals] == [plane.tobytes() for plane in expected]


@pytest.mark.parametrize(
    ("plane", "at", "value"), [(3, 0, 8), (3, 17, 255), (4, 0, 8), (4, 6, 1), (4, 11, 7), (4, 17, 8)]
)
def test_a_kind_or_a_factor_that_is_not_defined_is_rejected(plane: int, at: int, value: int) -> None:
    planes = [bytearray(20 * 20), bytearray(20 * 20), bytearray(20 * 20), bytearray(18), bytearray(18)]
    chain = craft.chain(predict=craft.mixed(1, 1), coder=craft.coded())
    codecs.decode(craft.frame("uint8", (3, 20, 20), chain, [bytes(5) + b"".join(planes)]))
    planes[plane][at] = value  # six groups a channel: 6 to 11 are the base's
    frame = craft.frame("uint8", (3, 20, 20), chain, [bytes(5) + b"".join(planes)])
    with pytest.raises(FormatError) as caught:
        codecs.decode(frame)
    assert caught.value.reason == 25
    with pytest.raises(reader.Reject) as rejected:
        reader.read(frame)
    assert rejected.value.reason == 25


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
    frame = encode_in_blocks(array, codecs.Plan.single("small", dtype, stages), block)
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
    frame = codecs.encode(array, codecs.Plan.single("small", dtype, (Predict("med"), Lz4())))
    assert look_inside(frame)[0].predict == 0
    assert same_bits(codecs.decode(frame), array)


@pytest.mark.parametrize("shape", [(1, 1), (1, 500), (500, 1), (2, 2), (3, 1, 200), (40, 17, 1), (2, 3, 4, 5, 16)])
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("dtype", ["uint8", "uint16"])
def test_odd_shapes(dtype: str, geometry: str, shape: tuple[int, ...]) -> None:
    array = (np.indices(shape).sum(axis=0) * 3 % 251).astype(dtype)
    for kind, color in product(("med", "mixed"), COLORS):
        frame = codecs.encode(array, codecs.Plan.single("small", dtype, (Predict(kind, geometry, color), Lz4())))
        assert same_bits(codecs.decode(frame), array)


def test_blocks_of_an_image_beyond_256_kib() -> None:
    array = random_bits("uint8", (3, 700, 700)).copy()
    array[:, 100:] = np.arange(700, dtype=np.uint16).astype(np.uint8)
    plan = codecs.Plan.single("small", "uint8", (Predict("med", "chw", "green"), Lz4()))
    frame = codecs.encode(array, plan)
    header, blocks = look_inside(frame)
    assert len(blocks) > 3
    assert header.block % 16 == 0
    expected = residual_planes(definitions.bits_of(array), array.shape, "chw", "green", header.block)
    assert [[plane.tobytes() for plane in planes] for planes in blocks] == expected
    assert same_bits(codecs.decode(frame, threads=2), array)
