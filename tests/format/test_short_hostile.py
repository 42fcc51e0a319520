"""Short frames that nobody wrote: FormatError or an array, whatever the bytes and whatever the plan's templates."""

import random
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from cordwood import codecs
from cordwood.codecs.chain import Chain, Shape
from cordwood.codecs.dtypes import DTYPES
from cordwood.codecs.plan import Plan
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd
from cordwood.errors import FormatError, UsageError
from tests.codecs.support.short import array_of, is_short, short_frames
from tests.format.support.craft import varint

LIMIT = 1 << 22
KINDS = ("noise", "few", "constant", "near", "smooth")


def answer(frame: bytes, plan: Plan) -> codecs.FrameInfo | int:
    """What the frame is, or the reason for which it is refused; another exception fails the test."""
    try:
        array = codecs.decode(frame, plans=plan, limit=LIMIT)
    except FormatError as error:
        assert error.reason
        return error.reason
    info = codecs.frame_info(frame, plan)
    assert (array.shape, array.nbytes) == (info.shape, info.nbytes)
    return info


def good_frames(seed: int) -> Iterator[tuple[Plan, list[bytes]]]:
    """Plans of all goals for arrays of every dtype, of a fixed shape and of sizes that vary, and their short frames."""
    for number, dtype in enumerate(DTYPES):
        draw = random.Random(f"{seed} {dtype}")
        goal = codecs.GOALS[(number + seed) % 4]
        shapes = [(3, draw.choice((9, 16)), 12) if number % 2 else (3, 10, 12) for _ in range(20)]
        arrays = [array_of(draw.choice(KINDS), dtype, shape, draw.randrange(5)) for shape in shapes]
        plan = codecs.plan(arrays, goal, dtype=dtype, own=True)
        yield plan, [frame for frame in short_frames(arrays, plan) if is_short(frame)]


def mutated(frame: bytes, others: list[bytes], draw: random.Random) -> bytes:
    data = bytearray(frame)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at = draw.randrange(len(data) + 1) if draw.random() < 0.5 else min(draw.randrange(12), len(data))
        match draw.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << draw.randrange(8)
            case 1 if at < len(data):
                data[at] = draw.choice((0, 1, 2, 3, 4, 5, 6, 127, 128, 255, draw.randrange(256)))
            case 2:
                del data[at:]
            case 3:
                data[at:at] = draw.randbytes(draw.randrange(1, 9))
            case 4:
                del data[at : at + draw.randrange(1, 9)]
            case _:
                other = draw.choice(others)
                data[at:] = other[draw.randrange(len(other)) :]
    return bytes(data)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))])
def test_damaged_short_frames(seed: int) -> None:
    draw = random.Random(seed)
    refused = taken = 0
    for plan, frames in good_frames(seed):
        assert frames, plan.dtype
        for _ in range(150):
            found = answer(mutated(draw.choice(frames), frames, draw), plan)
            refused += isinstance(found, int)
            taken += not isinstance(found, int)
    assert min(refused, taken) > 300  # a short frame has no checksum of its own, so much of the damage is not seen here


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_bytes_of_no_frame(seed: int) -> None:
    draw = random.Random(seed)
    refused = 0
    for plan, _ in good_frames(seed):
        for _ in range(150):
            head = bytes([draw.randrange(len(plan.chains) + 1)])
            refused += isinstance(answer(head + draw.randbytes(draw.choice((0, 1, 5, 40, 400))), plan), int)
            assert isinstance(answer(bytes([draw.randrange(64, 256)]) + draw.randbytes(draw.randrange(60)), plan), int)
    assert refused > 1000


def test_every_truncation_of_a_short_frame() -> None:
    for plan, frames in good_frames(3):
        for frame in frames[:4]:
            for end in range(len(frame)):
                answer(frame[:end], plan)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 5))])
def test_short_frames_with_the_plan_of_others(seed: int) -> None:
    every = list(good_frames(seed))
    draw = random.Random(seed)
    for plan, _ in every:
        for _, frames in every:
            for frame in draw.sample(frames, 4):
                answer(frame, plan)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 9))])
def test_templates_that_nobody_wrote(seed: int) -> None:
    """A template that cannot be makes the plan unusable at once; any other decodes what there is, or refuses it."""
    draw = random.Random(seed)
    refused = made = 0
    for plan, frames in good_frames(seed):
        for _ in range(60):
            templates = [one.short for one in plan.chains if one.short is not None]
            short = mutated(draw.choice(templates), templates, draw) if draw.random() < 0.8 else draw.randbytes(9)
            chains = tuple(Chain(one.stages, one.assets, short) for one in plan.chains)
            strange = Plan(plan.goal, plan.dtype, chains, plan.shape)
            try:
                _ = strange.handle
            except FormatError as error:
                assert error.reason
                refused += 1
                continue
            made += 1
            for frame in draw.sample(frames, 3):
                answer(frame, strange)
                answer(mutated(frame, frames, draw), strange)
    assert min(refused, made) > 60


# ---- reasons ---------------------------------------------------------------------------------------------------------


def plan_of(dtype: str, shape: Shape, *chains: Chain) -> Plan:
    return Plan("small", dtype, tuple(chain.with_short(dtype, shape) for chain in chains), shape)


NARROWED = plan_of("int16", (None,), Chain((Narrow(), Raw())), Chain((Narrow(), Entropy())))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", 1),
        (b"\x02", 10),  # a chain that the plan has not
        (b"\x3f\x02\x06abcd", 10),
        (b"\x40\x02\x06abcd", 2),  # neither a short frame nor a full one
        (b"\x00", 1),
        (b"\x00\x02", 1),
        (b"\x00\x80\x00", 9),  # a varint that could be shorter
        (b"\x00" + b"\xff" * 9 + b"\x01", 8),
        (b"\x00\x02\x07", 11),  # of the range: what it may not be
        (b"\x00\x02\x0e", 11),  # left out, with a shift
        (b"\x00\x02\x04\x00", 11),  # codes of 32 bits for elements of 16
        (b"\x00\x02\x42\x00ab", 11),  # codes of 8 bits, moved by 8
        (b"\x00\x02\x02", 1),
        (b"\x00\x02\x02\x00a", 19),
        (b"\x00\x02\x02\x00abc", 19),
        (b"\x00\x02\x06abc", 19),
        (b"\x00\x02\x00\x00a", 14),  # a constant has no block
        (b"\x00\x00a", 14),  # nor has an empty array
    ],
)
def test_what_a_short_frame_may_not_be(frame: bytes, reason: int) -> None:
    with pytest.raises(FormatError) as caught:
        codecs.decode(frame, plans=NARROWED)
    assert caught.value.reason == reason
    with pytest.raises(FormatError):
        codecs.decode_into([frame], [np.zeros(2, np.int16)], plans=NARROWED)


@pytest.mark.parametrize("plans", [None, (), (NARROWED, plan_of("int16", (7,), Chain((Raw(),))))])
def test_a_short_frame_is_read_with_one_plan_alone(plans: tuple[Plan, ...] | None) -> None:
    with pytest.raises(FormatError) as caught:
        codecs.decode(b"\x00\x02\x06abcd", plans=plans)
    assert caught.value.reason == 16
    assert codecs.decode(b"\x00\x02\x06abcd", plans=NARROWED).tobytes() == b"abcd"


def test_a_chain_without_a_template_has_no_short_frames() -> None:
    plan = Plan("small", "int16", (Chain((Raw(),)), Chain((Raw(),)).with_short("int16", (2,))), (2,))
    assert codecs.decode(b"\x01abcd", plans=plan).tobytes() == b"abcd"
    with pytest.raises(FormatError) as caught:
        codecs.decode(b"\x00abcd", plans=plan)
    assert caught.value.reason == 10


@pytest.mark.parametrize("stages", [(Narrow(), Raw()), (Narrow(), Entropy()), (Zstd(),)])
def test_huge_dimensions_reserve_nothing(stages: tuple[Narrow | Raw | Entropy | Zstd, ...]) -> None:
    """A constant of any size takes a few bytes: the limit alone stands between them and the memory."""
    plan = plan_of("uint8", (None, None), Chain(stages))
    for rows, columns in ((1 << 40, 2), (1 << 20, 1 << 20), (LIMIT, 2)):
        tail = b"\x00\x06" if len(stages) == 2 else b"\x01\x07"
        frame = b"\x00" + varint(rows) + varint(columns) + tail
        tracemalloc.start()
        with pytest.raises(FormatError) as caught:
            codecs.decode(frame, plans=plan, limit=LIMIT)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
        tracemalloc.stop()
        assert caught.value.reason == 26
    small = b"\x00" + varint(100) + varint(50) + (b"\x00\x06" if len(stages) == 2 else b"\x01\x07")
    assert codecs.decode(small, plans=plan, limit=LIMIT).shape == (100, 50)


def test_a_batch_names_the_short_frame_that_is_damaged() -> None:
    frames = [b"\x00\x02\x06abcd", b"\x00\x02\x07abc", b"\x00\x02\x06abcd"]
    with pytest.raises(FormatError, match="frame 1") as caught:
        codecs.decode_into(frames, [np.zeros(2, np.int16) for _ in frames], plans=NARROWED)
    assert caught.value.reason == 11


def test_an_array_to_decode_into_has_the_shape_of_the_short_frame() -> None:
    with pytest.raises(UsageError, match="of shape"):
        codecs.decode_into([b"\x00\x02\x06abcd"], [np.zeros(3, np.int16)], plans=NARROWED)
    with pytest.raises(UsageError, match="a uint8 array is needed"):
        codecs.decode(b"\x00\x02\x06abcd", plans=NARROWED, normalize=codecs.Normalize([0.5], [0.5]))
