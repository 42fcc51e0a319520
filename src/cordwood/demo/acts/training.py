"""The fourth act: a small net learns to tell the photographs apart, fed by files and by the Loader.

Every feed gives the same batches in the same order, the same bit for bit, so the nets end with the same weights: what
differs is how long a step waits for its batch. The files are fed as most people do it, by the DataLoader of torch with
as many workers as there are cores.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from cordwood.common.resources import default_threads
from cordwood.common.text import counted
from cordwood.demo.acts.kept import Progress, one_thread, same_bits
from cordwood.demo.acts.ways import read_tensor, reprepare
from cordwood.demo.report import Step, Training, TrainingRow
from cordwood.feed import Loader
from cordwood.store import Dataset as StoreDataset
from cordwood.store import open as open_store

BATCH = 64
EPOCHS = 10
SEED = 0
LEARNING_RATE = 3e-3

Images = tuple[torch.Tensor, torch.Tensor]  # and their labels


@dataclass(frozen=True)
class Feed:
    """A way to get the batches, and what it tells of itself afterwards."""

    title: str
    steps: int
    batches: Callable[[], Iterator[Images]]
    note: Callable[[], str] = lambda: ""
    is_ours: bool = False


@dataclass(frozen=True)
class Trained:
    """A net after its training: the images that it saw and the steps that it made, without the warm-up."""

    images: int
    steps: list[Step]
    weights: list[torch.Tensor]


class ImageFiles(Dataset[tuple[torch.Tensor, int]]):
    """A file an image, read whenever it is asked for: the data set that everybody writes first."""

    def __init__(self, paths: list[Path], labels: list[int], read: Callable[[Path], torch.Tensor]) -> None:
        self.paths, self.labels, self.read = paths, labels, read

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        return self.read(self.paths[number]), self.labels[number]


def train_in_every_way(images: list[Path], tensors: Path, store: Path, progress: Progress) -> Training:
    """Feed a net from the image files, from one .pt file a sample in a folder, and from the store."""
    dataset = open_store(store)
    labels = dataset.column("label").tolist()
    order = shuffled(len(dataset))
    feeds = [
        from_files("JPEG files", ImageFiles(images, labels, reprepare), order),
        from_files(".pt files", ImageFiles(sorted(tensors.glob("*.pt")), labels, read_tensor), order),
        from_store(dataset, order),
    ]
    rows = train_nets(feeds, len(dataset.classes), progress)
    return Training(rows, EPOCHS, BATCH, warm_up(feeds[0].steps))


def shuffled(images: int) -> list[int]:
    """Every image so many times, as one long epoch: in short ones, starting would count for more than it does."""
    rng = np.random.default_rng(SEED)
    return [number for _ in range(EPOCHS) for number in rng.permutation(images).tolist()]


def from_files(title: str, files: ImageFiles, order: list[int]) -> Feed:
    """The stock DataLoader, with as many workers as there are cores."""
    workers = default_threads()
    loader = DataLoader(files, BATCH, sampler=order, num_workers=workers)
    return Feed(f"{title}, DataLoader, {counted(workers, 'worker')}", len(loader), lambda: iter(loader))


def from_store(dataset: StoreDataset, order: list[int]) -> Feed:
    """The Loader as it comes."""
    loader = Loader(dataset.select("image", "label"), BATCH, sampler=order)

    def note() -> str:
        stats = loader.stats()
        later = stats.batches - 1  # the first is waited for in any case
        ahead = f"it ended with {counted(stats.threads, 'thread')}, and {stats.prefetch} batches ahead"
        return f"{ahead}; a batch was ready for {later - stats.waits} of the {later} steps after the first"

    return Feed("the store, cw.Loader", len(loader), lambda: iter(loader), note, is_ours=True)


def train_nets(feeds: list[Feed], classes: int, progress: Progress) -> list[TrainingRow]:
    """Train the same net by each of the feeds, and compare the weights that the first one ended with.

    Torch has one thread, so that whoever loads finds a core.
    """
    with one_thread():
        nets = [train(feed, classes, progress) for feed in feeds]
    return [
        TrainingRow(
            feed.title,
            net.images,
            net.steps,
            all(same_bits(one, other) for one, other in zip(net.weights, nets[0].weights, strict=True)),
            feed.note(),
            feed.is_ours,
        )
        for feed, net in zip(feeds, nets, strict=True)
    ]


def train(feed: Feed, classes: int, progress: Progress) -> Trained:
    """One pass over the batches.

    The first steps count for nothing: they wait until processes have started, files are opened and batches are ahead,
    which is soon forgotten in a training of hours.
    """
    net = small_net(classes)
    optimizer = torch.optim.Adam(net.parameters(), LEARNING_RATE)
    batches = feed.batches()
    steps: list[Step] = []
    images, warm = 0, warm_up(feed.steps)
    while True:
        asked = perf_counter()
        batch = next(batches, None)
        came = perf_counter()
        if batch is None:
            return Trained(images, steps[warm:], [weight.detach() for weight in net.state_dict().values()])
        loss = step(net, optimizer, *batch)
        images += len(batch[1]) if len(steps) >= warm else 0
        steps.append(Step(came - asked, perf_counter() - came, loss))
        progress(f"training: {feed.title}", len(steps), feed.steps)


def warm_up(steps: int) -> int:
    """How many of so many steps do not count: a tenth, and at least the first."""
    return max(1, steps // 10)


def step(net: nn.Module, optimizer: torch.optim.Optimizer, images: torch.Tensor, labels: torch.Tensor) -> float:
    """What training does with a batch; its loss."""
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(images), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def small_net(classes: int) -> nn.Module:
    """As small as nets for images of this size get: loading has to keep up with a step that is soon done.

    Not smaller. Whoever takes a batch wakes the thread that makes the next, and on a busy machine that one may get the
    core for some milliseconds: beside a step that takes hardly longer, they would look like waiting for data.
    """
    torch.manual_seed(SEED)
    return nn.Sequential(
        nn.Conv2d(3, 16, 7, stride=4, padding=3), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes),
    )  # fmt: skip
