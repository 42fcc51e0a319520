"""A loader's images are augmented as in memory: by seed, epoch and sample, whatever else is asked for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import UsageError
from tests.feed.support.plain_order import sample_seeds

COUNT = 30
STEPS: list[Any] = [
    cw.augment.RandomCrop((36, 40), padding=4, fill=7),
    cw.augment.RandomResizedCrop(24),
    cw.augment.RandomFlip(),
]


def images(dtype: torch.dtype = torch.uint8, last: bool = False) -> torch.Tensor:
    shape = (COUNT, 40, 50, 3) if last else (COUNT, 3, 40, 50)
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)).to(dtype)


def store(folder: Path, pictures: Any) -> cw.Dataset:
    with cw.Writer(folder / "pictures.cordwood") as writer:
        for number, picture in enumerate(pictures):
            writer.append({"image": picture, "number": number})
    return cw.open(folder / "pictures.cordwood")


def by_number(batches: Any) -> dict[int, torch.Tensor]:
    return {
        int(number): image for batch in batches for image, number in zip(batch["image"], batch["number"], strict=True)
    }


def in_memory(pictures: torch.Tensor, seed: int, epoch: int, last: bool = False) -> torch.Tensor:
    return cw.augment.apply(pictures, STEPS, sample_seeds(COUNT, seed, epoch), channels_last=last)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("last", [False, True])
def test_batches_hold_what_is_drawn_for_each_sample(tmp_path: Path, dtype: torch.dtype, last: bool) -> None:
    pictures = images(dtype, last)
    ds = store(tmp_path, pictures)
    for batch_size, threads, shuffle in [(7, 1, True), (10, 2, True), (4, 2, False)]:
        loader = cw.Loader(
            ds, batch_size=batch_size, threads=threads, shuffle=shuffle, seed=3, augment={"image": STEPS}
        )
        for epoch in range(2):
            found = by_number(loader)
            expected = in_memory(pictures, 3, epoch, last)
            shown = expected.permute(0, 2, 3, 1) if last else expected
            assert len(found) == COUNT
            assert all(torch.equal(found[number].reshape(-1), shown[number].reshape(-1)) for number in range(COUNT))


def test_epochs_and_seeds_draw_differently(tmp_path: Path) -> None:
    pictures = images()
    ds = store(tmp_path, pictures)
    loader = cw.Loader(ds, batch_size=10, augment={"image": STEPS})
    first, second = by_number(loader), by_number(loader)
    other = by_number(cw.Loader(ds, batch_size=10, seed=1, augment={"image": STEPS}))
    assert sum(torch.equal(first[number], second[number]) for number in range(COUNT)) == 0
    assert sum(torch.equal(first[number], other[number]) for number in range(COUNT)) == 0


def test_resuming_draws_the_same(tmp_path: Path) -> None:
    pictures = images()
    ds = store(tmp_path, pictures)

    def new(batch_size: int) -> cw.Loader:
        return cw.Loader(ds, batch_size=batch_size, shuffle=True, augment={"image": STEPS})

    loader = new(6)
    iterator = iter(loader)
    before = [next(iterator) for _ in range(2)]
    state = loader.state_dict()
    del iterator
    resumed = new(5)
    resumed.load_state_dict(state)
    found = by_number(before) | by_number(resumed)
    expected = in_memory(pictures, 0, 0)
    assert len(found) == COUNT
    assert all(torch.equal(found[number], expected[number]) for number in range(COUNT))


def test_normalised_after_it_is_resized(tmp_path: Path) -> None:
    pictures = images()
    mean, std = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.3, 0.25])
    loader = cw.Loader(
        store(tmp_path, pictures),
        batch_size=COUNT,
        augment={"image": STEPS},
        normalize={"image": (mean, std)},
        channels_last=True,
    )
    found = next(iter(loader))["image"]
    expected = in_memory(pictures, 0, 0).float().div(255).sub(mean.view(3, 1, 1)).div(std.view(3, 1, 1))
    assert torch.equal(found, expected)
    assert found.is_contiguous(memory_format=torch.channels_last)


def test_images_of_different_sizes_become_one_batch(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    pictures = [torch.from_numpy(rng.integers(0, 256, (3, 32 + n, 60 - n), dtype=np.uint8)) for n in range(COUNT)]
    loader = cw.Loader(store(tmp_path, pictures), batch_size=8, shuffle=True, augment={"image": STEPS[1:]})
    found = by_number(loader)
    for number, seed in enumerate(sample_seeds(COUNT, 0, 0)):
        alone = cw.augment.apply(pictures[number][None], STEPS[1:], np.array([seed], np.uint64))
        assert torch.equal(found[number], alone[0])


def test_images_that_are_too_small_are_told(tmp_path: Path) -> None:
    loader = cw.Loader(store(tmp_path, images()), batch_size=8, augment={"image": cw.augment.CenterCrop(64)})
    with pytest.raises(UsageError, match=r"augment of field 'image': CenterCrop.* of 40 by 50 pixels"):
        next(iter(loader))


def test_other_things_than_steps_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    ds = store(tmp_path, images())
    with pytest.raises(UsageError, match=r"augment of field 'image'.*sample_transform="):
        cw.Loader(ds, augment={"image": [torch.nn.Identity()]})
    with pytest.raises(UsageError, match=r"augment names 'picture'"):
        cw.Loader(ds, augment={"picture": STEPS})
