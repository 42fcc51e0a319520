"""What a reader has before a page's first command: a folder of photographs, a training script, old checkpoints.

    lay_out(folder, ["photos/", "train.py"])

Small, always the same, and made when a page asks for it. What is there already is left alone.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from tests.doctor.support.evidences import make_report

TRAIN = '''\
"""A small net that learns from numbers in memory: nothing in it is slow."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=1)
options = parser.parse_args()

torch.manual_seed(0)
dataset = torch.utils.data.TensorDataset(torch.randn(640, 64), torch.randint(10, (640,)))
loader = torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=True)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(options.epochs):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
'''

PREPARE = '''\
"""Preprocessing as a project has it."""

import torch


def prepare(sample):
    image = torch.nn.functional.interpolate(sample["image"][None], size=(64, 64), mode="bilinear", antialias=True)[0]
    return {**sample, "image": image}


def crop(image):
    return torch.tensor(list(image.resize((32, 32)).tobytes()), dtype=torch.uint8).view(32, 32, 3).permute(2, 0, 1)
'''

DATA = '''\
"""A dataset as a project has it."""

import torch


def train_set():
    return torch.utils.data.TensorDataset(torch.arange(300).view(100, 3), torch.arange(100))
'''


def _photographs(folder: Path) -> None:
    """Twelve, in two classes, of two sizes."""
    for number in range(12):
        path = folder / ("cat", "dog")[number % 2] / f"{number:03d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows, columns = np.mgrid[0 : 300 + 20 * (number % 3), 0:400]
        planes = [rows + 2 * number, columns + number, (rows * columns) // 96]
        Image.fromarray(np.stack(planes, 2).astype(np.uint8)).save(path, quality=92)


def _checkpoints(folder: Path) -> None:
    """Two, each a slice that drags a whole batch along."""
    folder.mkdir()
    batch = torch.arange(64 * 1024, dtype=torch.float32).view(64, 1024)
    for number, name in enumerate(("first.pt", "last.pt")):
        torch.save({"weight": batch[number], "epoch": number}, folder / name)


def _list(file: Path) -> None:
    """A manifest of photographs, which lie beside it."""
    lay_out(file.parent, ["photos/"])
    file.write_text("path,label\nphotos/cat/000.jpg,cat\nphotos/dog/001.jpg,dog\n")


def _package(**modules: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        folder.mkdir()
        for name, code in {"__init__": "", **modules}.items():
            (folder / f"{name}.py").write_text(code)

    return make


THINGS: dict[str, Callable[[Path], object]] = {
    "photos/": _photographs,
    "checkpoints/": _checkpoints,
    "mypkg/": _package(prep=PREPARE, data=DATA),
    "pkg/": _package(train=TRAIN),
    "train.py": lambda file: file.write_text(TRAIN),
    "list.csv": _list,
    "before.json": lambda file: make_report().save(file),
    "after.json": lambda file: make_report().save(file),
}


def named_in(words: Iterable[str]) -> list[str]:
    """The things that a command's words speak of: `photos/cat` is of `photos/`, `mypkg.prep:prepare` of `mypkg/`."""
    words = list(words)
    return [
        thing
        for thing in THINGS
        for name in [thing.rstrip("/")]
        if any(word == name or word.startswith((f"{name}/", f"{name}.", f"{name}:")) for word in words)
    ]


def lay_out(folder: Path, things: Iterable[str]) -> None:
    """Make these in a folder, unless they are there."""
    for thing in things:
        if not (folder / thing).exists():
            THINGS[thing](folder / thing)
