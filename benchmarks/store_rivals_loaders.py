"""Rivals with a loader and an order of their own: FFCV and LitData."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import MEAN, STD
from benchmarks.harness import MismatchError, UnavailableError
from benchmarks.packages import need
from benchmarks.store_data import Batch, Epoch, Samples, nbytes

WORKERS = 2
LONG_EPOCH = 4096  # samples: what FFCV does to begin an epoch must be little against it
MANY = 8192  # photographs: over a gigabyte, two pages of 8 MiB are little against it
ROUNDING = 1e-6  # FFCV normalises in float64 and rounds once, torch rounds at every step
TO_INSTALL = "benchmarks/store_rivals.py tells how to install it"


@contextmanager
def silence() -> Iterator[None]:
    """Progress bars of this process and of its children are kept out of the report; in an error they are told."""
    with tempfile.TemporaryFile() as said:
        sys.stdout.flush()
        sys.stderr.flush()
        kept = os.dup(1), os.dup(2)
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        try:
            yield
        except BaseException as error:
            said.seek(0)
            error.add_note(said.read().decode(errors="replace")[-2000:])
            raise
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, before in zip((1, 2), kept, strict=True):
                os.dup2(before, number)
                os.close(before)


class Ffcv:
    """Uncompressed uint8 images with FFCV's Loader: the os's cache, random order, two threads."""

    name = "FFCV raw"
    takes_all = True

    def available(self) -> None:
        try:
            need("ffcv")
        except UnavailableError as reason:
            raise UnavailableError(f"{reason}; {TO_INSTALL}") from reason

    def pack(self, samples: Samples, folder: Path) -> None:
        self.write(Pairs(samples), folder)

    def bytes_of_many(self, samples: Samples, folder: Path) -> float:
        """Bytes a sample, where so many are packed that the last pages, which stay half empty, do not matter."""
        many = Pairs(samples, times=-(-MANY // len(samples)))
        self.write(many, folder)
        return nbytes(folder) / len(many)

    def write(self, pairs: "Pairs", folder: Path) -> None:
        fields = need("ffcv.fields")
        described = {"image": fields.RGBImageField(write_mode="raw"), "label": fields.IntField()}
        writer = need("ffcv.writer").DatasetWriter(str(folder / "images.beton"), described, num_workers=WORKERS)
        with silence():
            writer.from_indexed_dataset(pairs, chunksize=32)

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        """Those that end as float32, the last for comparison: other loaders' batches are channels first."""
        ops = need("ffcv.transforms")

        def normalised() -> list[Any]:
            # Its own fastest way: a look-up in a table, by compiled code, into memory that is used again and again.
            return [ops.NormalizeImage(np.array(MEAN) * 255, np.array(STD) * 255, np.float32), ops.ToTensor()]

        ways = [
            ("NormalizeImage, channels last", [*normalised(), ops.ToTorchImage()], 3, LONG_EPOCH),
            ("NormalizeImage, channels last, one batch ahead", [*normalised(), ops.ToTorchImage()], 1, LONG_EPOCH),
            ("NormalizeImage, channels first", [*normalised(), ops.ToTorchImage(channels_last=False)], 3, 1),
        ]
        return [
            self.epoch(f"{self.name}, {name}", samples, folder, batch, transforms, ahead, least)
            for name, transforms, ahead, least in ways
        ]

    def epoch(
        self, name: str, samples: Samples, folder: Path, batch: int, transforms: list[Any], ahead: int, least: int
    ) -> Epoch:
        """One pass, over at least so many samples."""
        decoders, loaders = need("ffcv.fields.decoders"), need("ffcv.loader")
        ops = need("ffcv.transforms")
        times = -(-least // len(samples))
        loader = loaders.Loader(
            str(folder / "images.beton"),
            batch_size=batch,
            num_workers=WORKERS,
            order=loaders.OrderOption.RANDOM,
            os_cache=True,
            indices=np.tile(np.arange(len(samples)), times),
            pipelines={
                "image": [decoders.SimpleRGBImageDecoder(), *transforms],
                "label": [decoders.IntDecoder(), ops.ToTensor()],
            },
            batches_ahead=ahead,
            seed=0,
        )
        return Epoch(name, partial(labelled_pairs, loader), len(loader) * batch, tolerance=ROUNDING)


class Pairs:
    """Samples as FFCV's writer takes them, pixels and label; all of them so many times."""

    def __init__(self, samples: Samples, times: int = 1) -> None:
        if samples.pixels is None:
            raise MismatchError(f"FFCV packs images, and {samples.title} are none")
        self.pixels, self.times = samples.pixels, times

    def __len__(self) -> int:
        return len(self.pixels) * self.times

    def __getitem__(self, number: int) -> tuple[Any, int]:
        label = int(number) % len(self.pixels)
        return self.pixels[label], label


def labelled_pairs(loader: Any) -> Iterator[Batch]:
    for rows, labels in loader:
        yield Batch(rows, labels.view(-1).tolist())


class LitData:
    """Chunks that LitData's `optimize` writes, read by its StreamingDataLoader."""

    name = "LitData"
    takes_all = False

    def available(self) -> None:
        need("litdata")

    def pack(self, samples: Samples, folder: Path) -> None:
        self.optimize(samples, folder, ordered=True)

    def optimize(self, samples: Samples, folder: Path, *, ordered: bool) -> None:
        """Two processes; unordered they take their work from one queue."""
        litdata = need("litdata")
        os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = str(folder.parent / f"{folder.name}-cache")
        try:
            with silence():
                litdata.optimize(
                    fn=samples.__getitem__,
                    inputs=list(range(len(samples))),
                    output_dir=str(folder),
                    chunk_bytes="64MB",
                    num_workers=WORKERS,
                    start_method="fork",
                    keep_data_ordered=ordered,
                    verbose=False,
                )
        finally:
            del os.environ["DATA_OPTIMIZER_CACHE_FOLDER"]

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        litdata = need("litdata")
        found = []
        for workers in (0, WORKERS):
            loader = litdata.StreamingDataLoader(
                litdata.StreamingDataset(str(folder), shuffle=True, drop_last=False),
                batch_size=batch,
                num_workers=workers,
                persistent_workers=workers > 0,
            )
            name = f"{self.name}, {workers} workers"
            found.append(Epoch(name, partial(self.batches, loader, samples), len(samples)))
        return found

    def batches(self, loader: Any, samples: Samples) -> Iterator[Batch]:
        for found in loader:
            yield Batch(found[samples.field], found["label"].tolist() if samples.labelled else None)
