"""How the calls are used and misused: outs, limits, counts, plans; each error names the problem."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from cordwood import codecs
from cordwood.codecs import Goal
from cordwood.codecs.plan import GOALS
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.palette import Palette
from cordwood.errors import FormatError, UsageError
from tests.format.support import craft
from tests.format.support.craft import Array, chain, narrow
from tests.format.support.craft import frame as craft_frame
from tests.format.support.readers import same_bits
from tests.format.support.samples import random_bits, smooth

FLOATS = np.arange(1000, dtype=np.float32).reshape(10, 100)


@pytest.mark.parametrize("goal", GOALS)
def test_out_may_be_the_bits(goal: Goal) -> None:
    out = np.empty((10, 100), np.uint32)
    codecs.decode(codecs.encode(FLOATS, goal), out)
    assert same_bits(out.view(np.float32), FLOATS)


@pytest.mark.parametrize("goal", GOALS)
def test_out_may_be_a_row_of_a_batch(goal: Goal) -> None:
    batch = np.full((4, 10, 100), -1, np.float32)
    codecs.decode(codecs.encode(FLOATS, goal), batch[2])
    assert same_bits(batch[2], FLOATS)
    assert (batch[[0, 1, 3]] == -1).all()


def read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


OUTS_THAT_CANNOT_BE: dict[str, tuple[Array, str]] = {
    "a column too much": (np.zeros((10, 101), np.float32), r"shape \(10, 101\).*holds float32 of shape \(10, 100\)"),
    "empty": (np.zeros((0,), np.float32), r"shape \(0,\).*holds float32 of shape \(10, 100\)"),
    "another shape of this size": (np.zeros((100, 10), np.float32), r"shape \(100, 10\).*shape \(10, 100\)"),
    "twice as wide": (np.zeros((10, 100), np.float64), "float64.*holds float32"),
    "half as wide": (np.zeros((10, 100), np.float16), "float16.*holds float32"),
    "as many bytes": (np.zeros((10, 50), np.float64), "float64.*holds float32"),
    "integers for floats": (np.zeros((10, 100), np.int32), "int32.*holds float32"),
    "narrow unsigned integers": (np.zeros((10, 400), np.uint8), "uint8.*holds float32"),
    "complex for floats": (np.zeros((10, 50), np.complex64), "complex64.*holds float32"),
    "big-endian": (np.zeros((10, 100), ">f4"), ">f4|endian|byte order"),
    "read-only": (read_only(np.zeros((10, 100), np.float32)), "read-only"),
    "transposed": (np.zeros((100, 10), np.float32).T, "not C-contiguous"),
    "every other column": (np.zeros((10, 200), np.float32)[:, ::2], "not C-contiguous"),
    "backwards": (np.zeros((10, 100), np.float32)[::-1], "not C-contiguous"),
}


@pytest.mark.parametrize("name", OUTS_THAT_CANNOT_BE)
@pytest.mark.parametrize("goal", GOALS)
def test_outs_that_cannot_be(name: str, goal: Goal) -> None:
    out, message = OUTS_THAT_CANNOT_BE[name]
    frame = codecs.encode(FLOATS, goal)
    with pytest.raises(UsageError, match=message):
        codecs.decode(frame, out)
    fine = np.empty_like(FLOATS)
    with pytest.raises(UsageError, match=rf"1\b.*({message})"):
        codecs.decode_into([frame, frame], [fine, out])


@pytest.mark.parametrize("out", [bytearray(4000), [0.0] * 1000, None])
def test_outs_that_are_no_arrays(out: Any) -> None:
    frame = codecs.encode(FLOATS)
    with pytest.raises((UsageError, TypeError)):
        codecs.decode_into([frame], [out])


def test_as_many_outs_as_frames() -> None:
    frame = codecs.encode(FLOATS)
    with pytest.raises(UsageError, match="2 frames but 1 arrays"):
        codecs.decode_into([frame, frame], [np.empty_like(FLOATS)])
    codecs.decode_into([], [])


def test_the_bad_frame_of_a_batch_is_named() -> None:
    good = codecs.encode(FLOATS)
    bad = good[:-1] + bytes([good[-1] ^ 1])
    outs = [np.empty_like(FLOATS) for _ in range(3)]
    with pytest.raises(FormatError, match=r"^frame 1 refused") as caught:
        codecs.decode_into([good, bad, good], outs)
    assert caught.value.reason == 15
    with pytest.raises(FormatError, match=r"^frame refused"):
        codecs.decode(bad)


@pytest.mark.parametrize("goal", GOALS)
def test_the_limit_is_on_what_is_allocated(goal: Goal) -> None:
    array = random_bits("uint8", (50_000,)) // 8
    frame = codecs.encode(array, goal)
    with pytest.raises(FormatError, match=r"26, limit.*50000.*49999") as caught:
        codecs.decode(frame, limit=49_999)
    assert caught.value.reason == 26
    assert same_bits(codecs.decode(frame, limit=1_000_000), array)


def test_a_small_frame_of_a_huge_array_is_refused() -> None:
    """Forty bytes that ask for a petabyte."""
    bomb = craft_frame("uint8", (2**25, 2**25), chain(narrow(7, 0)))
    with pytest.raises(FormatError, match="26, limit"):
        codecs.decode(bomb)
    out = np.empty(4, np.uint8)
    with pytest.raises(UsageError, match=r"shape \(4,\).*33554432"):
        codecs.decode(bomb, out)


def test_a_limit_for_scratch_memory() -> None:
    array = smooth((1, 400, 400)).astype(np.float32) / np.float32(255)
    frame = codecs.encode(array, "small")
    with pytest.raises(FormatError, match="26, limit"):
        codecs.decode(frame, np.empty_like(array), limit=1000)


@pytest.mark.parametrize("frame", [b"", b"C", b"CWFR", b"not a frame at all", bytes(100)])
def test_what_is_no_frame(frame: bytes) -> None:
    for call in (codecs.decode, codecs.frame_info):
        with pytest.raises(FormatError):
            call(frame)


@pytest.mark.parametrize("frame", ["text", None, 3, [1, 2]])
def test_what_has_no_bytes(frame: Any) -> None:
    for call in (codecs.decode, codecs.frame_info):
        with pytest.raises(TypeError):
            call(frame)


def test_frames_with_gaps_in_memory() -> None:
    gaps = np.repeat(np.frombuffer(codecs.encode(FLOATS), np.uint8), 2)[::2]
    for call in (codecs.decode, codecs.frame_info):
        with pytest.raises((ValueError, BufferError), match="contiguous"):
            call(gaps)


@pytest.mark.parametrize("goal", ["tiny", "", "SMALL"])
def test_goals_that_are_none(goal: Goal) -> None:
    for call in (codecs.encode, codecs.plan):
        with pytest.raises(UsageError, match="goal must be 'small', 'balanced', 'fast' or 'raw', got "):
            call(FLOATS, goal)
    with pytest.raises(UsageError, match="goal must be"):
        codecs.encode_many([FLOATS], goal)


def test_a_plan_for_another_dtype() -> None:
    plan = codecs.plan(FLOATS)
    with pytest.raises(UsageError, match="this plan is for float32, but the array is int64"):
        codecs.encode(np.arange(3), plan)


def test_lists_and_scalars_are_arrays_too() -> None:
    assert codecs.decode(codecs.encode([[1, 2], [3, 4]])).tolist() == [[1, 2], [3, 4]]  # type: ignore[arg-type]
    assert codecs.decode(codecs.encode(np.float32(1.5))).item() == 1.5  # type: ignore[arg-type]


@pytest.mark.parametrize("threads", [None, 1, 2, 8])
@pytest.mark.parametrize("goal", GOALS)
def test_encode_many_is_encode_many_times(goal: Goal, threads: int | None) -> None:
    arrays = [smooth((3, 20 + i, 20), seed=i) for i in range(9)]
    plan = codecs.plan(arrays, goal)
    expected = [codecs.encode(array, plan) for array in arrays]
    assert codecs.encode_many(arrays, plan, threads=threads) == expected
    assert codecs.encode_many(iter(arrays), goal, threads=threads) == expected
    assert codecs.encode_many([], goal, threads=threads) == []


def test_encode_many_of_what_numpy_lacks() -> None:
    arrays = [random_bits("bfloat16", (30,), seed) for seed in range(3)]
    frames = codecs.encode_many(arrays, "small", dtype="bfloat16")
    assert {codecs.frame_info(frame).dtype for frame in frames} == {"bfloat16"}
    assert all(same_bits(codecs.decode(frame), array) for frame, array in zip(frames, arrays, strict=True))


def test_plans_are_taken_alone_and_together() -> None:
    arrays = [np.full((4, 4, 4), i, np.float32) * np.float32(0.1234567) for i in range(30)]
    plan = codecs.plan(arrays, "small", own=True)
    other = codecs.plan([smooth((20, 20))], "small", own=True)
    frame = codecs.encode(arrays[3], plan)
    for plans in (plan, [plan], (other, plan), iter([plan, other])):
        assert same_bits(codecs.decode(frame, plans=plans), arrays[3])


def test_empty_arrays_too_large_to_name_are_refused_when_encoding() -> None:
    """Every zero counts as one in the format's limit of 2^56 bytes; NumPy allows somewhat more."""
    array = np.empty((2**30, 0, 2**29), np.uint8)
    with pytest.raises(UsageError):
        codecs.encode(array, "raw")


def odd(value: object) -> Any:
    """A value that the types do not allow."""
    return value


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda a, f: codecs.decode_into([f], [np.empty_like(a)], 0), "threads must be .*, got 0"),
        (lambda a, f: codecs.encode(a, threads=-1), "threads must be .*, got -1"),
        (lambda a, f: codecs.decode(f, limit=-1), "limit must be a number of bytes, got -1"),
        (lambda a, f: codecs.decode(f, plans=odd("x")), "plans is a Plan"),
        (lambda a, f: codecs.encode(a, odd(7)), "takes a plan or a goal"),
        (lambda a, f: codecs.encode(np.ma.masked_array(a, a > 1)), "mask"),
        (lambda a, f: codecs.decode(memoryview(f)[::-1]), "not contiguous"),
        (lambda a, f: codecs.decode(f, np.empty(6, [("x", "f4")])), "plain numbers"),
        (lambda a, f: codecs.Normalize(odd(0.5), odd(0.5)), "lists"),
    ],
)  # fmt: skip
def test_arguments_that_cannot_be(call: Callable[[Array, bytes], object], message: str) -> None:
    array = np.arange(6, dtype=np.float32)
    with pytest.raises(UsageError, match=message):
        call(array, codecs.encode(array))


def test_torch_tensors_that_numpy_cannot_take() -> None:
    with pytest.raises(UsageError, match=r"\.detach\(\)"):
        codecs.encode(odd(torch.zeros(3, requires_grad=True)))
    with pytest.raises(UsageError, match="bfloat16"):
        codecs.encode(odd(torch.zeros(3, dtype=torch.bfloat16)))


def test_tables_of_a_batch_share_one_limit() -> None:
    """A short frame may ask for large look-up tables; many of them must not add up beyond the limit."""
    asking = craft.chain(
        value=craft.palette_formula(256, [(1, 0, [255.0])], axis=0, work=1), coder=bytes([1, 0, 0, 12]), block=2**20
    )
    frame = craft.frame("float64", (4096,), asking, [b"\1\7"])  # tables of 8 MiB
    outs = [np.empty(4096) for _ in range(3)]
    codecs.decode_into(2 * [frame], outs[:2], 1, limit=20 << 20)
    with pytest.raises(FormatError) as caught:
        codecs.decode_into(3 * [frame], outs, 1, limit=20 << 20)
    assert caught.value.reason_name == "limit"


def test_a_limit_that_holds_the_array_is_enough() -> None:
    array = np.arange(1000, dtype=np.int32)
    assert np.array_equal(codecs.decode(codecs.encode(array), limit=array.nbytes), array)


def test_plans_of_many_palettes_do_not_cost_memory() -> None:
    """A palette for each of many channels: the array takes another way instead of gigabytes."""
    stages = (Palette(-1, 16), Entropy())
    array = np.random.default_rng(0).normal(size=35791).astype(np.float32)
    frame = codecs.encode(array, codecs.Plan.single("balanced", "float32", stages))
    assert np.array_equal(codecs.decode(frame), array)
    assert len(frame) < 0.9 * array.nbytes
