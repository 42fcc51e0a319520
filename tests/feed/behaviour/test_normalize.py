"""Normalised while decoding: the very bits of ``x.float().div(255).sub(mean).div(std)``."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cordwood as cw
from cordwood import Loader
from cordwood.errors import UsageError
from tests.store.support.packed import pack

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
COUNT = 12


def pictures(shape: Sequence[int], count: int = COUNT) -> list[torch.Tensor]:
    """Smooth ones, as filters like them, and noise; the first has every value in every channel."""
    height, width = (shape[1], shape[2]) if shape[0] <= 4 else (shape[0], shape[1])
    channels = min(shape[0], shape[2])
    noise = torch.Generator().manual_seed(1)
    made = []
    for number in range(count):
        ramp = (torch.arange(height)[:, None] * 3 + torch.arange(width) * 2 + 37 * number) % 256
        picture = torch.stack([(ramp + 60 * channel) % 256 for channel in range(channels)]).to(torch.uint8)
        if number % 3 == 1:
            picture = torch.randint(0, 256, picture.shape, generator=noise, dtype=torch.uint8)
        if number == 0:
            picture = torch.arange(height * width).remainder(256).to(torch.uint8).reshape(1, height, width)
            picture = picture.expand(channels, -1, -1).clone()
        made.append(picture if shape[0] <= 4 else picture.movedim(0, 2).contiguous())
    return made


def reference(images: torch.Tensor, mean: Any, std: Any, last: bool = False) -> torch.Tensor:
    """What the documentation promises, by torch."""
    shape = (-1,) if last else (-1, 1, 1)
    means, stds = (torch.as_tensor(numbers, dtype=torch.float32).reshape(shape) for numbers in (mean, std))
    return images.float().div(255).sub(means).div(stds)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.int32)


@pytest.fixture(scope="module", params=["raw", "fast", "balanced", "small"])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, cw.Dataset]:
    folder = tmp_path_factory.mktemp(request.param)
    shapes = {"chw": (3, 20, 24), "hwc": (20, 24, 3), "one": (1, 20, 24), "four": (4, 17, 31)}
    return {
        name: pack(folder / name, ({"image": x, "n": i} for i, x in enumerate(pictures(shape))), request.param)
        for name, shape in shapes.items()
    }


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
def test_channels_first(stores: dict[str, cw.Dataset], channels_last: bool, threads: int) -> None:
    expected = reference(torch.stack(pictures((3, 20, 24))), MEAN, STD)
    loader = Loader(
        stores["chw"], 5, normalize={"image": (MEAN, STD)}, channels_last=channels_last, threads=threads
    )  # fmt: skip
    start = 0
    for batch in loader:
        image = batch["image"]
        assert image.dtype == torch.float32
        assert image.shape == (len(batch["n"]), 3, 20, 24)
        assert torch.equal(bits(image), bits(expected[start : start + len(image)]))
        form = torch.channels_last if channels_last else torch.contiguous_format
        assert image.is_contiguous(memory_format=form)
        start += len(image)
    assert start == COUNT


def test_channels_stored_last(stores: dict[str, cw.Dataset]) -> None:
    expected = reference(torch.stack(pictures((20, 24, 3))), MEAN, STD, last=True)
    (batch,) = Loader(stores["hwc"], COUNT, normalize={"image": (MEAN, STD)})
    assert batch["image"].shape == (COUNT, 20, 24, 3)
    assert batch["image"].is_contiguous()
    assert torch.equal(bits(batch["image"]), bits(expected))
    # Asked for channels_last, it is an image as torch's convolutions take it, and the same memory.
    (batch,) = Loader(stores["hwc"], COUNT, normalize={"image": (MEAN, STD)}, channels_last=True)
    assert batch["image"].shape == (COUNT, 3, 20, 24)
    assert batch["image"].is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(bits(batch["image"]), bits(expected.movedim(3, 1)))


@pytest.mark.parametrize(("name", "shape"), [("one", (1, 20, 24)), ("four", (4, 17, 31))])
def test_other_numbers_of_channels(stores: dict[str, cw.Dataset], name: str, shape: tuple[int, ...]) -> None:
    mean, std = [0.1, 0.2, 0.3, 0.4][: shape[0]], [0.5, 0.6, 0.7, 0.8][: shape[0]]
    (batch,) = Loader(stores[name], COUNT, normalize={"image": (mean, std)})
    assert torch.equal(bits(batch["image"]), bits(reference(torch.stack(pictures(shape)), mean, std)))
    (batch,) = Loader(stores[name], COUNT, normalize={"image": (0.3, 0.7)})  # one for all channels
    assert torch.equal(bits(batch["image"]), bits(reference(torch.stack(pictures(shape)), 0.3, 0.7)))


def test_without_it_bytes_arrive_as_bytes(stores: dict[str, cw.Dataset]) -> None:
    expected = torch.stack(pictures((3, 20, 24)))
    for channels_last in (False, True):
        (batch,) = Loader(stores["chw"], COUNT, channels_last=channels_last)
        assert batch["image"].dtype == torch.uint8
        assert torch.equal(batch["image"], expected)
        form = torch.channels_last if channels_last else torch.contiguous_format
        assert batch["image"].is_contiguous(memory_format=form)


def test_it_does_not_change_what_the_dataset_gives(stores: dict[str, cw.Dataset]) -> None:
    ds = stores["chw"]
    list(Loader(ds, 4, normalize={"image": (MEAN, STD)}))
    assert torch.equal(ds[3]["image"], pictures((3, 20, 24))[3])


NUMBERS = st.floats(-4, 4, width=32)
SCALES = st.one_of(st.floats(0.0009765625, 8, width=32), st.floats(-8, -0.0009765625, width=32))


@pytest.fixture(scope="module")
def every_value(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    """One image with all 256 values in each of its channels."""
    plane = torch.arange(256, dtype=torch.uint8).reshape(16, 16)
    return pack(tmp_path_factory.mktemp("values") / "s", [{"image": torch.stack([plane, plane.T, plane.flip(0)])}])


@given(mean=st.tuples(NUMBERS, NUMBERS, NUMBERS), std=st.tuples(SCALES, SCALES, SCALES))
@settings(max_examples=60)
def test_every_value_by_any_mean_and_deviation(every_value: cw.Dataset, mean: Any, std: Any) -> None:
    image = every_value[0]["image"][None]
    for channels_last in (False, True):
        loader = Loader(every_value, 1, normalize={"image": (mean, std)}, channels_last=channels_last, threads=1)
        (batch,) = loader
        assert torch.equal(bits(batch["image"]), bits(reference(image, mean, std)))


@pytest.mark.parametrize("given_as", [list, tuple, np.array, torch.tensor, lambda x: torch.tensor(x).view(3, 1, 1)])
def test_mean_and_deviation_may_be_anything_of_numbers(every_value: cw.Dataset, given_as: Any) -> None:
    (batch,) = Loader(every_value, 1, normalize={"image": (given_as(MEAN), given_as(STD))})
    assert torch.equal(bits(batch["image"]), bits(reference(every_value[0]["image"][None], MEAN, STD)))


def test_samples_for_a_transform_are_normalised_too(stores: dict[str, cw.Dataset]) -> None:
    expected = reference(torch.stack(pictures((3, 20, 24))), MEAN, STD)
    seen = []

    def look(sample: dict[str, Any]) -> dict[str, Any]:
        seen.append(sample["image"].dtype)
        return sample

    loader = Loader(stores["chw"], COUNT, normalize={"image": (MEAN, STD)}, sample_transform=look)
    (batch,) = loader
    assert seen == [torch.float32] * COUNT
    assert torch.equal(bits(batch["image"]), bits(expected))


def test_images_of_different_sizes(tmp_path: Path) -> None:
    images = [torch.randint(0, 256, (3, 8 + i % 3, 9), dtype=torch.uint8) for i in range(9)]
    ds = pack(tmp_path / "s", [{"image": image} for image in images])
    options: dict[str, Any] = {"normalize": {"image": (MEAN, STD)}, "collate": {"image": "list"}}
    for channels_last in (False, True):
        (batch,) = Loader(ds, 9, channels_last=channels_last, **options)
        for found, image in zip(batch["image"], images, strict=True):
            assert found.shape == image.shape
            assert torch.equal(bits(found), bits(reference(image, MEAN, STD)))


def test_samples_without_an_image(tmp_path: Path) -> None:
    image = pictures((3, 8, 9), 2)[1]
    ds = pack(tmp_path / "s", [{"image": image}, {"image": None}, {"image": image}])
    (batch,) = Loader(ds, 3, normalize={"image": (MEAN, STD)})
    assert batch["image"][1] is None
    for found in (batch["image"][0], batch["image"][2]):
        assert torch.equal(bits(found), bits(reference(image, MEAN, STD)))


@pytest.mark.parametrize(
    ("normalize", "told"),
    [
        ({"image": ((0.5, 0.5), (0.5, 0.5))}, "2 means"),
        ({"image": (MEAN, (0.2, 0.2))}, "2 standard deviations"),
        ({"image": (MEAN, (0.2, 0.0, 0.2))}, "channel 1 has"),
        ({"image": ((0.5, 0.5, float("nan")), STD)}, "channel 2 has mean nan"),
        ({"image": (("a", "b", "c"), STD)}, "no number"),
        ({"n": (0.5, 0.5)}, "arrays"),
        ({"floats": (0.5, 0.5)}, "float32"),
        ([("image", MEAN, STD)], "dict"),
    ],
)
def test_what_cannot_be_normalised_is_refused(tmp_path: Path, normalize: Any, told: str) -> None:
    sample = {"image": torch.zeros(3, 8, 9, dtype=torch.uint8), "n": 1, "floats": torch.zeros(3, 2, 2)}
    ds = pack(tmp_path / "s", [sample])
    with pytest.raises(UsageError, match=told):
        list(Loader(ds, 1, normalize=normalize))
