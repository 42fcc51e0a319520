"""Normalize: uint8 frames arrive as the floats that torch's own operations give, bit for bit."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cordwood import codecs
from cordwood.codecs import Goal
from cordwood.codecs.stages.entropy import Entropy
from cordwood.codecs.stages.lz4 import Lz4
from cordwood.codecs.stages.narrow import Narrow
from cordwood.codecs.stages.planes import Planes
from cordwood.codecs.stages.predict import Predict
from cordwood.codecs.stages.raw import Raw
from cordwood.codecs.stages.zstd import Zstd
from cordwood.errors import UsageError
from tests.codecs.support import definitions
from tests.codecs.support.definitions import Array
from tests.format.support.readers import same_bits
from tests.format.support.samples import smooth

IMAGENET = ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
OUTPUTS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
PLANS = {
    "raw": codecs.Plan.single("raw", "uint8", (Raw(),)),
    "narrow": codecs.Plan.single("fast", "uint8", (Narrow(), Raw())),
    "narrow, shifted": codecs.Plan.single("small", "uint8", (Narrow(align_top=True), Entropy())),
    "lz4": codecs.Plan.single("fast", "uint8", (Lz4(),)),
    "zstd": codecs.Plan.single("small", "uint8", (Zstd(),)),
    "ans": codecs.Plan.single("small", "uint8", (Narrow(pack_bits=False), Entropy("ans"))),
    "delta": codecs.Plan.single("small", "uint8", (Predict("delta"), Planes(), Entropy())),
    "chw": codecs.Plan.single("small", "uint8", (Predict("med", "chw", "green"), Entropy("ans"))),
    "hwc": codecs.Plan.single("small", "uint8", (Predict("med", "hwc", "previous"), Entropy())),
}


def by_torch(image: Array, mean: Sequence[float], std: Sequence[float], axis: int, output: str) -> Array:
    shape = [1] * image.ndim
    shape[axis] = -1
    x = torch.from_numpy(image.copy()).float().div(255)
    x = x.sub(torch.tensor(mean).view(shape)).div(torch.tensor(std).view(shape)).to(OUTPUTS[output])
    result: Array = x.view(torch.int16).numpy().view(np.uint16) if output == "bfloat16" else x.numpy()
    return result


def every_value(shape: tuple[int, ...], axis: int) -> Array:
    """All 256 values in every channel."""
    plane = np.arange(256, dtype=np.uint8).reshape([s for i, s in enumerate(shape) if i != axis])
    return np.ascontiguousarray(np.broadcast_to(np.expand_dims(plane, axis), shape))


singles = st.floats(-1e4, 1e4, width=32) | st.floats(-2, 2, width=32)
awkward = st.sampled_from(
    [1e-30, 1e-45, -1e-40, 1e30, -1e38, 3.4e38, 1.0, -1.0, 2.0**-126, 0.1, -0.225, 255.0, 1 / 255]
)
scales = (st.floats(2.0**-20, 8, width=32) | awkward).flatmap(lambda x: st.sampled_from([x, -x]))


@settings(max_examples=200)
@given(
    st.lists(st.tuples(singles, scales), min_size=1, max_size=5),
    st.sampled_from([0, 2]),
    st.sampled_from(list(OUTPUTS)),
)
@example([(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)], 0, "float32")
@example([(0.0, 1.0)], 0, "bfloat16")
@example([(0.5, 1e-38), (1e38, 1e-38)], 2, "float16")
def test_equal_to_torch_for_any_mean_and_std(terms: list[tuple[float, float]], axis: int, output: str) -> None:
    mean, std = [m for m, _ in terms], [s for _, s in terms]
    image = every_value((len(terms), 16, 16) if axis == 0 else (16, 16, len(terms)), axis)
    normalize = codecs.Normalize(mean, std, axis=axis, dtype=output)
    expected = by_torch(image, mean, std, axis, output)
    for goal in ("raw", "balanced"):
        assert same_bits(codecs.decode(codecs.encode(image, goal), normalize=normalize), expected)
    if output == "float32":
        assert same_bits(definitions.normalize(image, mean, std, axis), expected)


def images(axis: int) -> dict[str, Array]:
    shape = (3, 37, 29) if axis == 0 else (37, 29, 3)
    noise = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    return {
        "smooth": smooth(shape),
        "noise": noise,
        "few values": noise // 16 + 100,
        "two values": noise // 128 + 254,
        "one value": np.full(shape, 77, np.uint8),
        "repeats": np.resize(noise[0], shape),
    }


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("axis", [0, 2])
@pytest.mark.parametrize("chain", PLANS)
def test_every_chain(chain: str, axis: int, output: str) -> None:
    mean, std = IMAGENET
    normalize = codecs.Normalize(mean, std, axis=axis, dtype=output)
    for image in images(axis).values():
        frame = codecs.encode(image, PLANS[chain])
        assert same_bits(codecs.decode(frame, normalize=normalize), by_torch(image, mean, std, axis, output))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("output", OUTPUTS)
def test_a_batch_into_memory_used_before(output: str, threads: int) -> None:
    mean, std = IMAGENET
    made = [smooth((3, 60, 70), seed=i) for i in range(8)]
    made[3] = np.full_like(made[3], 9)
    goals: list[Goal] = ["raw", "fast", "balanced", "small"]
    frames = [codecs.encode(image, goals[i % 4]) for i, image in enumerate(made)]
    batch = np.full((8, 3, 60, 70), 1, "uint16" if output == "bfloat16" else output)
    normalize = codecs.Normalize(mean, std, dtype="bfloat16" if output == "bfloat16" else None)
    codecs.decode_into(frames, list(batch), threads, normalize=normalize)
    assert same_bits(batch, np.stack([by_torch(image, mean, std, 0, output) for image in made]))


def test_a_frame_that_is_a_batch() -> None:
    mean, std = IMAGENET
    batch = smooth((4, 3, 30, 20))
    for goal in ("raw", "small"):
        decoded = codecs.decode(codecs.encode(batch, goal), normalize=codecs.Normalize(mean, std, axis=1))
        assert same_bits(decoded, by_torch(batch, mean, std, 1, "float32"))


def test_one_mean_for_every_channel() -> None:
    image = smooth((28, 28))
    decoded = codecs.decode(codecs.encode(image), normalize=codecs.Normalize([0.1307], [0.3081]))
    assert same_bits(decoded, by_torch(image, [0.1307], [0.3081], 0, "float32"))


def test_nothing_to_normalise() -> None:
    empty = np.zeros((3, 0, 5), np.uint8)
    decoded = codecs.decode(codecs.encode(empty), normalize=codecs.Normalize(*IMAGENET))
    assert (decoded.shape, decoded.dtype) == ((3, 0, 5), np.dtype("float32"))


def test_a_std_of_zero_is_infinite_where_torchs_is() -> None:
    image = every_value((1, 16, 16), 0)
    decoded = codecs.decode(codecs.encode(image), normalize=codecs.Normalize([0.0], [0.0]))
    expected = by_torch(image, [0.0], [0.0], 0, "float32")
    assert np.array_equal(decoded.astype(np.float32), expected, equal_nan=True)


@pytest.mark.parametrize("output", OUTPUTS)
def test_means_may_be_arrays(output: str) -> None:
    image = smooth((3, 8, 8))
    mean, std = (np.array(terms, np.float32) for terms in IMAGENET)
    normalize = codecs.Normalize(mean, std, dtype=output)  # type: ignore[arg-type]
    expected = by_torch(image, *IMAGENET, 0, output)
    assert same_bits(codecs.decode(codecs.encode(image), normalize=normalize), expected)


@pytest.mark.parametrize(
    ("mean", "std", "axis", "message"),
    [
        ([0.5], [0.5, 0.5], 0, "1 means and 2 standard deviations"),
        ([], [], 0, "0 means and 0 standard deviations"),
        ([0.5], [0.5], -3, "axis is -3, but counts from the front"),
    ],
)
def test_terms_that_cannot_be(mean: list[float], std: list[float], axis: int, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        codecs.Normalize(mean, std, axis)


@pytest.mark.parametrize(
    ("array", "axis", "message"),
    [
        (np.zeros((4, 8, 8), np.uint8), 0, r"4.*3|3.*4"),
        (np.zeros((3, 8, 8), np.uint8), 2, r"8.*3|3.*8"),
        (np.zeros((3,), np.uint8), 2, "axis"),
        (np.zeros((3, 8, 8), np.float32), 0, "float32.*uint8|uint8.*float32"),
        (np.zeros((3, 8, 8), np.int8), 0, r"\bint8.*uint8|uint8.*\bint8"),
    ],
    ids=["four channels", "eight channels", "axis beyond", "float32", "int8"],
)
def test_frames_that_do_not_fit_are_told_why(array: Array, axis: int, message: str) -> None:
    normalize = codecs.Normalize(*IMAGENET, axis=axis)
    with pytest.raises(UsageError, match=message):
        codecs.decode(codecs.encode(array), normalize=normalize)


def test_outs_that_do_not_fit_are_told_why() -> None:
    frame = codecs.encode(smooth((3, 8, 8)))
    with pytest.raises(UsageError, match="can be float32, float16 or bfloat16, not float64"):
        codecs.decode(frame, np.zeros((3, 8, 8)), normalize=codecs.Normalize(*IMAGENET))
    with pytest.raises(UsageError, match="bfloat16 goes into an array of uint16, but out is of float32"):
        codecs.decode(frame, np.zeros((3, 8, 8), np.float32), normalize=codecs.Normalize(*IMAGENET, dtype="bfloat16"))
    outs = [np.zeros((3, 8, 8), kind) for kind in (np.float32, np.float16)]
    with pytest.raises(UsageError, match="one dtype"):
        codecs.decode_into([frame, frame], outs, normalize=codecs.Normalize(*IMAGENET))
    with pytest.raises(UsageError, match="float32 goes into an array of float32, but out is of float16"):
        codecs.decode(frame, outs[1], normalize=codecs.Normalize(*IMAGENET, dtype="float32"))
    with pytest.raises(UsageError, match=r"shape \(3, 8, 9\).*shape \(3, 8, 8\).*float32"):
        codecs.decode(frame, np.zeros((3, 8, 9), np.float32), normalize=codecs.Normalize(*IMAGENET))
