"""A Loader of images that are kept encoded gives what it gives of the same images stored as pixels."""

from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.errors import FormatError, UsageError
from tests.images.pictures import decode, picture, written

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TRAIN = [cw.augment.RandomResizedCrop(24), cw.augment.RandomFlip()]
CROPS = [cw.augment.RandomCrop(28, padding=2), cw.augment.CenterCrop(24)]


def stores(path: Path, sizes: list[tuple[int, int]], count: int = 23) -> tuple[cw.Dataset, cw.Dataset]:
    """The same images twice: encoded, and as pixels."""
    with (
        cw.Writer(path / "encoded", fields={"image": cw.Field(keep_encoded=True)}) as encoded,
        cw.Writer(path / "pixels") as plain,
    ):
        for number in range(count):
            width, height = sizes[number % len(sizes)]
            data = written(picture("RGB", width, height, number), "JPEG" if number % 2 else "PNG")
            encoded.append({"image": data, "label": number})
            plain.append({"image": decode(data), "label": number})
    return cw.open(path / "encoded"), cw.open(path / "pixels")


def assert_same_batches(a: Any, b: Any) -> None:
    batches, others = list(a), list(b)
    assert len(batches) == len(others) > 0
    for one, other in zip(batches, others, strict=True):
        assert one["label"].tolist() == other["label"].tolist()
        if isinstance(other["image"], list):
            assert all(torch.equal(x, y) for x, y in zip(one["image"], other["image"], strict=True))
            continue
        assert one["image"].dtype == other["image"].dtype
        assert one["image"].stride() == other["image"].stride()
        assert torch.equal(one["image"], other["image"])


OPTIONS: list[dict[str, Any]] = [
    {},
    {"shuffle": True},
    {"channels_last": True},
    {"normalize": {"image": (MEAN, STD)}},
    {"normalize": {"image": (0.5, 0.25)}},
    {"normalize": {"image": (MEAN, STD)}, "channels_last": True},
    {"normalize": {"image": cw.codecs.Normalize(MEAN, STD, dtype="bfloat16")}},
    {"augment": {"image": TRAIN}, "shuffle": True},
    {"augment": {"image": CROPS}, "normalize": {"image": (MEAN, STD)}},
    {"augment": {"image": TRAIN}, "normalize": {"image": (MEAN, STD)}, "channels_last": True, "shuffle": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "+".join(options) or "plain")
def test_batches_of_one_size(tmp_path: Path, options: dict[str, Any]) -> None:
    encoded, plain = stores(tmp_path, [(48, 36)])
    a, b = (cw.Loader(ds, batch_size=5, seed=3, **options) for ds in (encoded, plain))
    for _ in range(2):
        assert_same_batches(a, b)


@pytest.mark.parametrize(
    "options", [options for options in OPTIONS if "augment" in options], ids=lambda options: "+".join(options)
)
def test_batches_of_many_sizes_that_become_one(tmp_path: Path, options: dict[str, Any]) -> None:
    encoded, plain = stores(tmp_path, [(48, 36), (33, 70), (31, 31)])
    assert_same_batches(*(cw.Loader(ds, batch_size=4, seed=1, **options) for ds in (encoded, plain)))


def test_images_of_many_sizes_are_padded_or_listed(tmp_path: Path) -> None:
    encoded, plain = stores(tmp_path, [(20, 10), (10, 20)])
    asked: dict[str, Any] = {"image": "list"}
    assert_same_batches(*(cw.Loader(ds, batch_size=4, collate=asked) for ds in (encoded, plain)))
    a, b = (next(iter(cw.Loader(ds, batch_size=4, collate={"image": "pad"})))["image"] for ds in (encoded, plain))
    assert torch.equal(a.values, b.values)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sample_transform_sees_the_image(tmp_path: Path, workers: int) -> None:
    encoded, plain = stores(tmp_path, [(20, 10)])
    asked: dict[str, Any] = {"batch_size": 6, "shuffle": True, "sample_transform": halved}
    if workers:
        asked["sample_workers"] = workers
    assert_same_batches(cw.Loader(encoded, **asked), cw.Loader(plain, **asked))


def halved(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "image": sample["image"].float() / 2}


def test_a_selection(tmp_path: Path) -> None:
    encoded, plain = stores(tmp_path, [(20, 10)])
    for (image, label), (other, same) in zip(
        cw.Loader(encoded.select("image", "label"), batch_size=8),
        cw.Loader(plain.select("image", "label"), batch_size=8),
        strict=True,
    ):
        assert torch.equal(image, other)
        assert torch.equal(label, same)


def test_what_cannot_be_asked_is_refused_at_once(tmp_path: Path) -> None:
    encoded, _ = stores(tmp_path, [(20, 10)], 2)
    with pytest.raises(UsageError, match="2 means for field 'image'"):
        cw.Loader(encoded, batch_size=2, normalize={"image": ((0.1, 0.2), (0.1, 0.2))})
    with pytest.raises(UsageError, match="fields that hold arrays are 'image'"):
        cw.Loader(encoded, batch_size=2, normalize={"label": (0.5, 0.5)})


def test_broken_images_stop_an_epoch_or_are_left_out(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s", fields={"image": cw.Field(keep_encoded=True)}) as writer:
        for number in range(6):
            data = written(picture("RGB", 20, 10, number), "PNG")
            writer.append({"image": data[: len(data) // 2] if number == 3 else data, "label": number})
    ds = cw.open(tmp_path / "s")
    with pytest.raises(FormatError, match="sample 3 "):
        list(cw.Loader(ds, batch_size=2))
    labels = [batch["label"].tolist() for batch in cw.Loader(ds, batch_size=2, on_damage="skip")]
    assert labels == [[0, 1], [2], [4, 5]]
