"""The second act, and a part of the third: packs the images, and reads them as training does, in random batches.

`cw.pack` makes one store of the folder of JPEG files, with labels and paths beside the prepared images. The ways that
people know read their files one by one and stack them; the store reads and decodes a whole batch by one native call.
"""

import shlex
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Final

import numpy as np
import torch

from cordwood.demo.acts.kept import KeptSamples, Progress, one_thread, same_bits
from cordwood.demo.acts.prepare import PreparedImage, prepare_image
from cordwood.demo.report import BatchRow, Packing
from cordwood.packing import Packed, PackProgress, pack
from cordwood.store import Dataset
from cordwood.store import open as open_store

GOAL: Final = "balanced"
NAME = "cw.pack, a store"
TITLE = f"{NAME} ({GOAL})"
BATCH = 64
TURNS = 6

ReadBatch = Callable[[list[int]], torch.Tensor]


def pack_folder(
    folder: Path, path: Path, progress: Progress, *, bar: bool = False, workers: int | None = None
) -> Packing:
    """Make a store at ``path`` of the image files; with ``bar``, `cw.pack` itself shows how far it is."""

    told = -1

    def report(state: PackProgress) -> None:
        nonlocal told
        if state.inputs != told:  # the last ones are told again when the store is complete
            told = state.inputs
            progress("packing", state.inputs, state.of_inputs or state.inputs)

    packed = pack(
        folder,
        path,
        transform={"image": prepare_image},
        decode="pil",
        goal=GOAL,
        workers=workers,
        progress=None if bar else report,
    )
    assert isinstance(packed, Packed)  # noqa: S101 - for the type checker: it is an Estimate where there is a limit
    return Packing(command(folder, path), packed)


def kept_store(samples: list[PreparedImage], packed: Packed) -> KeptSamples:
    """The store as a way to keep these samples; one thread reads it, as with the other ways."""
    images = open_store(packed.path, threads=1).select("image")

    def read(number: int) -> torch.Tensor:
        (image,) = images[number]
        return image  # type: ignore[no-any-return]

    return KeptSamples(TITLE, samples, packed.stored_bytes, read, packed.seconds, is_ours=True)


def command(folder: Path, path: Path) -> str:
    """What does the same on the command line."""
    function = f"image={prepare_image.__module__}:{prepare_image.__name__}"
    words = ["cordwood", "pack", str(folder), str(path), "--transform", function, "--decode", "pil", "--goal", GOAL]
    return shlex.join(words)


def time_batches(files: list[KeptSamples], store: KeptSamples, path: Path, progress: Progress) -> list[BatchRow]:
    """What a batch costs in each of these ways, by the median of some random ones; the ways take turns.

    Torch has one thread meanwhile, as in a worker of a DataLoader: its own would be of no help to files, and would
    make them wait where the cores are busy.
    """
    readers = [(way.title, way, stacking(way)) for way in files]
    for threads, words in ((1, "one thread"), (None, "all cores")):
        readers.append((f"{NAME}, {words}", store, from_store(open_store(path, threads=threads))))
    rng = np.random.default_rng(0)
    size = min(BATCH, len(store.samples))
    seconds: dict[str, list[float]] = {title: [] for title, _, _ in readers}
    exact = dict.fromkeys(seconds, True)
    with one_thread():
        for turn in range(TURNS):
            numbers = rng.permutation(len(store.samples))[:size].tolist()
            wanted = torch.stack([store.samples[number].tensor for number in numbers])
            for title, _, read in readers:
                start = perf_counter()
                batch = read(numbers)
                seconds[title].append(perf_counter() - start)
                exact[title] &= same_bits(batch, wanted)
            progress("reading batches", turn + 1, TURNS)
    return [
        BatchRow(
            title,
            None if way.write_seconds is None else way.write_seconds / len(way.samples),
            median(seconds[title]),
            size,
            exact[title],
            way.is_ours,
        )
        for title, way, _ in readers
    ]


def from_store(dataset: Dataset) -> ReadBatch:
    """A batch as the store itself makes it."""
    images = dataset.select("image")

    def read(numbers: list[int]) -> torch.Tensor:
        (batch,) = images[numbers]
        return batch  # type: ignore[no-any-return]

    return read


def stacking(way: KeptSamples) -> ReadBatch:
    """A batch as a DataLoader without workers makes it of files: one after the other, then stacked."""
    return lambda numbers: torch.stack([way.read(number) for number in numbers])
