"""Training end to end: a small convnet fed by the Loader, and by folders of images in a stock DataLoader."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.data.photographs import open_sources, part_of, prepare
from benchmarks.data.rivals import threads
from benchmarks.data.samples import SEED, Epoch, Samples, photographs
from benchmarks.data.tensors import scratch
from benchmarks.feed.ours import NORMALIZE, Fed
from benchmarks.feed.training import ImageFolder, Run, folder_epoch, same_batch, small_net, train
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.packages import need
from benchmarks.harness.timing import Spread, UnavailableError
from benchmarks.store.contest import packed

TITLE = "Training end to end"
KEYS = ("feed-training-wait",)
BATCH = 64
WARM = 8  # steps until the pipeline is full
STEPS = 40
FEW_STEPS = 8  # of a quick run
WORKERS = (1, 2)
ROUNDS = 5  # a turn of a slow way takes ten seconds, and its first steps are not counted
MAY_WAIT = 0.01  # of the time
ONE_CORE = {"threads": 1}
OURS = (
    Fed("balanced", "float32"),  # as a user has it who sets nothing
    Fed("balanced", "float32", ONE_CORE),
    Fed("balanced", "uint8", NORMALIZE | ONE_CORE),
)


@dataclass
class Training:
    """One way to feed the net, and what became of every time that it was trained so."""

    epoch: Epoch
    runs: list[Run] = field(default_factory=list)

    def run(self) -> None:
        self.runs.append(train(self.epoch.start(), small_net(), WARM))


def measure(settings: Settings) -> Outcome:
    """In turns; torch has one thread, which leaves the other core to whoever loads."""
    samples = photographs(settings)
    least = BATCH * (WARM + (FEW_STEPS if settings.quick else STEPS))
    with scratch(settings) as folder, threads(1):
        epochs = [same_batch(samples, BATCH, least), *our_epochs(samples, folder, least)]
        for epoch in epochs[1:]:
            epoch.check(samples)
        folders, missing = folder_epochs(settings, samples, folder, least)
        trainings = [Training(epoch) for epoch in (*epochs, *folders)]
        for _ in range(2 if settings.quick else ROUNDS):
            for one in trainings:
                one.run()
    table = Table(
        f"Training a small convnet, batches of {BATCH}, torch with one thread; after the first {WARM} steps",
        [("fed by", "text"), ("samples a second", "bytes"), ("of the time, steps wait", "percent"),
         ("the longest wait, ms", "ms"), ("a step without it, ms", "ms"), ("CPU ms a sample, training included", "ms")],
    )  # fmt: skip
    shares: dict[str, Spread] = {}
    for one in trainings:
        runs = one.runs
        shares[one.epoch.name] = Spread.of([run.waiting for run in runs])
        table.add(
            one.epoch.name,
            Spread.of([run.rate for run in runs]),
            shares[one.epoch.name],
            Spread.of([run.longest_wait for run in runs]),
            Spread.of([run.step for run in runs]),
            Spread.of([run.cpu for run in runs]),
        )
    table.notes += [
        f"The machine gives {len(os.sched_getaffinity(0))} cores: training has one, and what loads has the rest. Our "
        "Loader runs as it is, with threads for both cores, and told to use one; the DataLoader has one worker "
        "process, or two that compete with training.",
        "The PNG files hold the very pixels that our stores do, so nothing but decoding and normalising is left to do. "
        "The JPEG files are parts of the photographs as they came, 300 pixels a side or more, and are scaled and cut "
        "every time, as is usual. Waiting below one percent of the time is what the goal asks for.",
        *(f"Not measured: {line}" for line in missing),
    ]
    worst = max((shares[one.name] for one in OURS), key=lambda spread: spread.median)
    judged = Spread(worst.median / MAY_WAIT, worst.low / MAY_WAIT, worst.high / MAY_WAIT, worst.count)
    return Outcome([table], {"feed-training-wait": judged})


def our_epochs(samples: Samples, folder: Path, least: int) -> list[Epoch]:
    """Compressed stores, of float32 and of uint8."""
    found = []
    for ours in OURS:
        fed = replace(ours, least=least)
        found += fed.epochs(samples, packed(fed, samples, folder), BATCH)
    return found


def folder_epochs(settings: Settings, samples: Samples, folder: Path, least: int) -> tuple[list[Epoch], list[str]]:
    """Folders of PNG and of JPEG files, checked; and why there are none."""
    try:
        image = need("PIL.Image")
        kinds: dict[str, tuple[Path, Callable[[Any], Any]]] = {
            "PNG files": (write_png(samples, folder / "png", image), np.array),
            "JPEG files": (write_jpeg(settings, len(samples), folder / "jpeg", image), partial(prepare, image=image)),
        }
    except UnavailableError as reason:
        return [], [str(reason)]
    found = []
    for name, (place, prepared) in kinds.items():
        images = ImageFolder(place, len(samples), prepared)
        rows = samples.rows if name == "PNG files" else torch.stack([images[i][0] for i in range(len(images))])
        for workers in WORKERS[:1] if settings.quick else WORKERS:
            way = f"{name}, Pillow, DataLoader with {workers} workers"
            epoch = folder_epoch(way, images, BATCH, workers, least)
            epoch.check(Samples(name, "image", rows))
            found.append(epoch)
    return found, []


def write_png(samples: Samples, folder: Path, image: Any) -> Path:
    """The pixels of the samples, without loss."""
    folder.mkdir()
    assert samples.pixels is not None
    for number, pixels in enumerate(samples.pixels):
        image.fromarray(pixels).save(folder / str(number), "PNG")
    return folder


def write_jpeg(settings: Settings, count: int, folder: Path, image: Any) -> Path:
    """Square parts of photographs, larger than the net takes them."""
    folder.mkdir()
    pictures, missing = open_sources(settings.cache)
    if not pictures:
        raise UnavailableError("no photograph could be opened: " + "; ".join(missing))
    sources = list(pictures.values())
    chance = np.random.default_rng(SEED)
    for number in range(count):
        part_of(sources[number % len(sources)], chance, image).save(folder / str(number), "JPEG", quality=90)
    return folder
