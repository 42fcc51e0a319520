"""Frames of a chunk: those that encoding each array by itself gives, for any number of threads."""

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs import Goal, Plan
from cordwood.codecs.assets import Assets
from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.palette import Palette
from cordwood.native import _native
from cordwood.store.writing.encode import CHUNK_BYTES, CHUNK_SAMPLES, Chunk, encode, tags
from tests.format.support.craft import assets, owned_palette
from tests.store.support.photos import photo


def chunk_of(*samples: list[Any]) -> Chunk:
    chunk = Chunk(len(samples[0]))
    for number, arrays in enumerate(samples):
        chunk.add(arrays, bytes([number % 256]), b"", ())
    return chunk


PALETTE = np.array([0.25, 0.5, 7, 1e30, np.nan], np.float32)
IMAGES = [photo(k, 24)["image"].numpy() for k in range(5)]
FLOATS = [((image.astype(np.float32) / np.float32(255)) - np.float32(0.5)) / np.float32(0.25) for image in IMAGES]


def alone(array: Any, plan: codecs.Plan) -> bytes:
    """The frame of one array as a store has it: a short one where the plan allows it."""
    made = _native.encode(array, array.shape, plan.encoder(array.ndim, short=True), 1)
    assert isinstance(made, bytes)
    assert (made[0] < 64) == (plan.shape == array.shape and array.nbytes <= 16384)
    return made


@pytest.mark.parametrize("goal", ["small", "balanced", "fast", "raw"])
@pytest.mark.parametrize("own", [False, True])
def test_frames_are_those_of_single_arrays(goal: Goal, own: bool) -> None:
    plans = [codecs.plan(IMAGES, goal, own=own), codecs.plan(FLOATS, goal, own=own)]
    chunk = chunk_of(*([image, values] for image, values in zip(IMAGES, FLOATS, strict=True)))
    expected = [
        alone(array, plan) for pair in zip(IMAGES, FLOATS, strict=True) for array, plan in zip(pair, plans, strict=True)
    ]
    for threads in (1, 2, 3, 7):
        encoded = encode(chunk, plans, threads)
        assert encoded.frames == expected
        assert encoded.sizes.tolist() == [[len(frame) for frame in expected[i : i + 2]] for i in range(0, 10, 2)]


def test_arrays_that_miss_the_palette_have_one_of_their_own_or_none() -> None:
    draw = np.random.default_rng(0)
    values = np.array([0.25, 0.5, 1e30, np.nan] * 25 + [7], np.float32)
    few = draw.permutation(values)
    plan = Plan.single(
        "balanced", "float32", (Palette(source="plan"), Entropy()), Assets(assets(owned_palette("float32", [PALETTE])))
    )
    arrays = [few, few * 3, draw.random(70000, np.float32), few[:10]]
    encoded = encode(chunk_of(*([array] for array in arrays)), [plan], 2)
    chains = [codecs.frame_info(frame).chain.split(" | ")[0] for frame in encoded.frames]
    assert chains == ["palette", "palette", "planes", "palette"]
    named = [codecs.frame_info(frame).plan_hash for frame in encoded.frames]
    assert named == [plan.chains[0].assets.hash, None, None, plan.chains[0].assets.hash]
    assert encoded.frames == [codecs.encode(array, plan) for array in arrays]
    for frame, array in zip(encoded.frames, arrays, strict=True):
        assert codecs.decode(frame, plans=plan).tobytes() == array.tobytes()


def test_what_is_not_there_has_no_frame() -> None:
    array = np.arange(6, dtype=np.int16)
    coders = [codecs.plan([array], "balanced")] * 2
    encoded = encode(chunk_of([None, array], [array, None], [None, None]), coders, 2)
    frame = codecs.encode(array, coders[0])
    assert encoded.frames == [b"", frame, frame, b"", b"", b""]
    assert tags(encoded)[0].tolist() == [[0, tag_of(frame)], [tag_of(frame), 0], [0, 0]]
    part = encoded.part(1, 3)
    assert (len(part), part.frames, part.columns.tolist()) == (2, [frame, b"", b"", b""], [[1], [2]])
    assert part.shapes == [(6,), None, None, None]


def tag_of(frame: bytes) -> int:
    size = struct.unpack_from("<I", frame, 6)[0]
    assert codecs.frame_info(frame).payload_offset == size
    return int.from_bytes(frame[size - 4 : size], "little")


def test_samples_without_frames() -> None:
    chunk = Chunk(0)
    for _ in range(3):
        chunk.add([], b"ab", b"", ())
    encoded = encode(chunk, [], 2)
    assert (len(encoded), encoded.frames, encoded.sizes.shape) == (3, [], (3, 0))
    assert tags(encoded)[0].shape == (3, 0)


@pytest.mark.parametrize("dtype", list(DTYPES))
def test_every_dtype_and_empty_and_large_arrays(dtype: str) -> None:
    carrier = DTYPES[dtype].numpy
    bits = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 256, 50000 * carrier.itemsize, np.uint8)
    large = bits.view(carrier)
    plan = codecs.plan([large[:64]], "balanced", dtype=dtype)
    arrays = [large, large[:0], large[:1].reshape(()), large[:60].reshape(3, 4, 5)]
    encoded = encode(chunk_of(*([array] for array in arrays)), [plan], 2)
    for frame, array in zip(encoded.frames, arrays, strict=True):
        again = codecs.decode(frame)
        assert again.shape == array.shape
        assert again.tobytes() == array.tobytes()


def test_the_callers_memory_is_copied() -> None:
    small, large = np.zeros(10, np.uint8), np.zeros(1 << 20, np.uint8)
    chunk = chunk_of([small, large])
    small += 1
    large += 1
    assert chunk.data[0] == bytes(10)
    assert not np.asarray(chunk.data[1]).any()


def test_a_chunk_is_full_by_bytes_or_by_samples_and_can_be_used_again() -> None:
    chunk = Chunk(1)
    large = np.arange(5 << 20, dtype=np.uint8)
    filled = []
    for number in range(4):
        filled.append(chunk.is_full)
        chunk.add([large + np.uint8(number)], b"", b"", ())
    filled.append(chunk.is_full)
    assert filled == [
        False,
        False,
        False,
        False,
        True,
    ]  # the last array did not fit its memory, and is there nevertheless
    assert 3 * large.nbytes < CHUNK_BYTES < 4 * large.nbytes
    for number, data in enumerate(chunk.data):
        assert np.array_equal(data, large + np.uint8(number))  # type: ignore[arg-type]
    chunk.clear()
    filled = []
    for _ in range(CHUNK_SAMPLES):
        filled.append(chunk.is_full)
        chunk.add([None], b"", b"", ())
    assert not any(filled)
    assert chunk.is_full


class Interrupt(BaseException):
    pass


class Odd:
    """Stands for an array; an interrupt comes while it is copied."""

    shape, nbytes = (3,), 3

    def tobytes(self) -> bytes:
        raise Interrupt


def test_an_interrupt_half_way_leaves_no_half_of_a_sample() -> None:
    array = np.arange(3, dtype=np.uint8)
    chunk = chunk_of([array, array])
    with pytest.raises(Interrupt):
        chunk.add([array, Odd()], b"\0", b"", ())  # type: ignore[list-item]
    coders = [codecs.plan([array], "raw")] * 2
    assert len(encode(chunk, coders, 1)) == 1
    chunk.add([array, None], b"\0", b"", ())
    encoded = encode(chunk, coders, 1)
    assert [codecs.decode(frame).tolist() if frame else None for frame in encoded.frames] == [[0, 1, 2]] * 3 + [None]


@given(st.integers(0, 5), st.integers(1, 40), st.data())
def test_checksums_of_rows(count: int, size: int, data: st.DataObject) -> None:
    rows = data.draw(st.binary(min_size=count * size, max_size=count * size))
    covered, first = data.draw(st.integers(0, size)), data.draw(st.integers(0, 1 << 63))
    expected = [
        _native.crc32c(struct.pack("<Q", first + i) + rows[i * size : i * size + covered]) for i in range(count)
    ]
    assert struct.unpack(f"<{count}I", _native.crc32c_rows(rows, size, covered, first)) == tuple(expected)


@pytest.mark.parametrize(("size", "covered"), [(0, 0), (3, 3), (2, 3), (2, -1)])
def test_rows_that_are_none(size: int, covered: int) -> None:
    with pytest.raises(ValueError, match="not whole rows"):
        _native.crc32c_rows(b"1234", size, covered, 0)


def test_calls_of_the_native_batch_that_cannot_be_meant() -> None:
    plan = codecs.plan([np.zeros(4, np.uint8)], "raw")
    encoder = plan.encoder(1, short=True)
    good = (bytes(4), (4,), encoder)
    assert _native.encode_batch((), 2) == []
    for bad in (
        (bytes(3), (4,), encoder),  # another size than the shape's
        (bytes(4), (1,) * 65, encoder),  # too many dimensions
        (bytes(4), (-4,), encoder),
        (bytes(4), [4], encoder),
        (bytes(4), (4,)),
        (bytes(4), (4,), plan.handle),
        (4, (4,), encoder),
        5,
    ):
        with pytest.raises((ValueError, TypeError, OverflowError)):
            _native.encode_batch((good, bad), 2)  # type: ignore[arg-type]


def test_encoders_that_cannot_be_meant() -> None:
    (chain,) = codecs.plan([np.zeros(4, np.uint8)], "raw").chains
    settings = tuple(chain.settings("uint8", 1).values())
    good = (settings, b"", 0, b"", False, 0, 0)
    for shape, alternatives, menu in (
        (None, (), 0),
        (None, (good,), 0),
        (None, (good,), 2),
        (None, (((1, 2, 3), *good[1:]),), 1),
        (None, (((99, *settings[1:]), *good[1:]),), 1),  # no such dtype
        (None, (good, ((2, *settings[1:]), *good[1:])), 2),  # another dtype
        ((1,) * 65, (good,), 1),
        (None, (good[:-1],), 1),
    ):
        with pytest.raises((ValueError, TypeError)):
            _native.encoder(shape, alternatives, menu)  # type: ignore[arg-type]
    answer = _native.encoder(None, ((settings, b"", 7, b"no assets", False, 0, 0),), 1)
    assert isinstance(answer, tuple)
    assert answer[1] == 2  # magic
