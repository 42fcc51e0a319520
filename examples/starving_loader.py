"""The starving loader: a step that takes milliseconds, and waits longer than that for its pictures.

"The data loader takes most of the time, what does everybody do about it?" is asked again and again, and the answers
are a long list: decode faster, put small files together into a few large ones, preprocess once and keep it, read ahead,
keep it in memory, buy another disk. Which of them helps is left to the reader to try.

This script trains a small network from a folder of JPEGs, as most scripts do, with the doctor beside it. He says how
much of a step is waiting, what to change, and what that is worth. The change is made: the folder is packed once, with
the preprocessing that is the same in every epoch, and ``cw.Loader`` takes the place of ``DataLoader``. Then the two
runs are compared, as ``cordwood doctor compare before.json after.json`` does.

    pip install 'cordwood[images]'
    python examples/starving_loader.py
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from textwrap import indent

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset

import cordwood as cw

CLASSES, PICTURES, SIDE, BATCH, EPOCHS = 4, 48, 64, 8, 15


def write_pictures(folder: Path) -> None:
    """A folder a class, of pictures that are larger than what the network wants to see."""
    chance = np.random.default_rng(0)
    for number in range(PICTURES):
        coarse = Image.fromarray(chance.integers(0, 256, (24, 24, 3), dtype=np.uint8))
        path = folder / f"class{number % CLASSES}" / f"{number:03}.jpg"
        path.parent.mkdir(exist_ok=True, parents=True)
        coarse.resize((384, 384), Image.Resampling.BICUBIC).save(path, quality=90)


def prepared(picture: Image.Image) -> torch.Tensor:
    """What is the same in every epoch: scaled down, channels first."""
    small = picture.convert("RGB").resize((SIDE, SIDE), Image.Resampling.LANCZOS)
    return torch.from_numpy(np.ascontiguousarray(np.asarray(small).transpose(2, 0, 1)))


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """The usual data set: decode and scale down, for every picture in every epoch."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.glob("*/*.jpg"))

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        path = self.files[index]
        with Image.open(path) as picture:
            return prepared(picture), int(path.parent.name[-1])


def train(loader: Iterable[tuple[torch.Tensor, torch.Tensor]]) -> None:
    """The same loop for both loaders."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, CLASSES)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(EPOCHS):
        for images, labels in loader:
            loss = F.cross_entropy(model(images.float() / 255), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main() -> None:
    """Train as it is, ask the doctor, pack, train again, compare."""
    torch.set_num_threads(1)  # so small a network gains nothing from more, and they would be in the loader's way
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_pictures(folder / "pictures")

        # With seconds=0 the doctor only watches; else he also tries other settings of the loader, which takes a while.
        with cw.diagnose(seconds=0) as before:
            train(DataLoader(Pictures(folder / "pictures"), batch_size=BATCH, shuffle=True))
        print(f"Before: {before.report.verdict}\n")
        for finding in before.report.findings:
            print(f"  {finding['level']} {finding['rule']}: {finding['message']}\n{indent(finding['fix'], '    ')}")

        # So few pictures are packed sooner than worker processes start; without `workers` there is one a core.
        cw.pack(
            folder / "pictures",
            folder / "train.cordwood",
            {"image": prepared},
            decode="pil",
            workers=0,
            progress=False,
        )
        dataset = cw.open(folder / "train.cordwood").select("image", "label")
        print(f"\nPacked once: {len(dataset)} samples\n")

        with cw.diagnose(seconds=0) as after:
            train(cw.Loader(dataset, batch_size=BATCH, shuffle=True))
        print(f"After: {after.report.verdict}\n")
        print(before.report.compare(after.report))


if __name__ == "__main__":
    main()
