"""FFCV, which has a loader and an order of its own: uncompressed images, and small arrays."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data.photographs import MEAN, STD
from benchmarks.data.samples import Batch, Epoch, Samples, nbytes
from benchmarks.harness.packages import need
from benchmarks.harness.timing import MismatchError, UnavailableError
from benchmarks.store.rivals.loaders import WORKERS, silence

NAME = "samples.beton"
PAGE = 1 << 23  # as large as FFCV makes them
LONG_EPOCH = 4096  # samples: what FFCV does to begin an epoch must be little against it
MANY = 8192  # photographs: over a gigabyte, two pages of 8 MiB are little against it
ROUNDING = 1e-6  # FFCV normalises in float64 and rounds once, torch rounds at every step
TO_INSTALL = "benchmarks/store/rivals/entrants.py says how to install it"


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
        self.write(self.fields(samples), Pairs(samples), folder)

    def fields(self, samples: Samples) -> dict[str, Any]:
        """A field for each thing that a sample has."""
        fields = need("ffcv.fields")
        return {"image": fields.RGBImageField(write_mode="raw"), "label": fields.IntField()}

    def bytes_of_many(self, samples: Samples, folder: Path) -> float:
        """Bytes a sample, where so many are packed that the last pages, which stay half empty, do not matter."""
        many = Pairs(samples, times=-(-MANY // len(samples)))
        with tempfile.TemporaryDirectory(dir=folder) as place:
            self.write(self.fields(samples), many, Path(place))
            return nbytes(Path(place)) / len(many)

    def write(self, fields: dict[str, Any], samples: Any, folder: Path, page: int = PAGE) -> None:
        writer = need("ffcv.writer").DatasetWriter(str(folder / NAME), fields, page_size=page, num_workers=WORKERS)
        with silence():
            writer.from_indexed_dataset(samples, chunksize=32)

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        """Those that end as float32, the last for comparison: other loaders' batches are channels first."""
        reader = Reader(self.name, samples, folder, batch)
        first = need("ffcv.transforms").ToTorchImage(channels_last=False)
        return [
            *reader.ahead("NormalizeImage, channels last", normalised, LONG_EPOCH),
            reader.epoch("NormalizeImage, channels first", [*normalised()[:-1], first]),
        ]


def normalised() -> list[Any]:
    """Its own fastest way: a look-up in a table, by compiled code, into memory that is used again and again."""
    ops = need("ffcv.transforms")
    return [
        need("ffcv.fields.decoders").SimpleRGBImageDecoder(),
        ops.NormalizeImage(np.array(MEAN) * 255, np.array(STD) * 255, np.float32),
        ops.ToTensor(),
        ops.ToTorchImage(),
    ]


class FfcvBytes(Ffcv):
    """The pixels as they are stored; channels first by a view."""

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        decoders, ops = need("ffcv.fields.decoders"), need("ffcv.transforms")
        return Reader(self.name, samples, folder, batch).ahead(
            "uint8, channels last",
            lambda: [decoders.SimpleRGBImageDecoder(), ops.ToTensor(), ops.ToTorchImage()],
            LONG_EPOCH,
        )


class FfcvFromDisk(Ffcv):
    """float32 through the system's cache, and in the way that is recommended for data that memory cannot hold."""

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        reader = Reader(self.name, samples, folder, batch)
        return [
            reader.epoch("NormalizeImage, random", normalised()),
            reader.epoch("NormalizeImage, quasi-random, its own cache", normalised(), cached=False),
        ]


class FfcvArrays(Ffcv):
    """Arrays as FFCV keeps them: a copy of their bytes each."""

    name = "FFCV"

    def pack(self, samples: Samples, folder: Path) -> None:
        page = max(PAGE, 1 << samples.rows[0].nbytes.bit_length())  # a power of two, with room for a sample
        self.write(self.fields(samples), Tuples(samples), folder, page)

    def fields(self, samples: Samples) -> dict[str, Any]:
        fields = need("ffcv.fields")
        row = samples.rows[0].numpy()
        described = {samples.field: fields.NDArrayField(row.dtype, row.shape)}
        return described | {"label": fields.IntField()} if samples.labelled else described

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        decoders, ops = need("ffcv.fields.decoders"), need("ffcv.transforms")
        return Reader(self.name, samples, folder, batch).ahead(
            "NDArrayField", lambda: [decoders.NDArrayDecoder(), ops.ToTensor()]
        )


class FfcvDefault(FfcvArrays):
    """The same, with as many batches ahead as is usual; all samples are read until `least` have been."""

    def __init__(self, workers: int = WORKERS, least: int = 1) -> None:
        self.workers, self.least = workers, least

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        pipeline = [need("ffcv.fields.decoders").NDArrayDecoder(), need("ffcv.transforms").ToTensor()]
        return [
            Reader(self.name, samples, folder, batch, self.workers).epoch("NDArrayField", pipeline, least=self.least)
        ]


@dataclass(frozen=True)
class Reader:
    """Epochs of FFCV's Loader over one file."""

    name: str
    samples: Samples
    folder: Path
    batch: int
    workers: int = WORKERS

    def ahead(self, name: str, pipeline: Callable[[], list[Any]], least: int = 1) -> list[Epoch]:
        """With as many batches ahead as is usual, and with one."""
        return [
            self.epoch(name, pipeline(), least=least),
            self.epoch(f"{name}, one batch ahead", pipeline(), ahead=1, least=least),
        ]

    def epoch(self, name: str, pipeline: list[Any], *, ahead: int = 3, least: int = 1, cached: bool = True) -> Epoch:
        """One pass, over at least so many samples; cached by the system, or by FFCV itself in an order made for it."""
        loaders, ops = need("ffcv.loader"), need("ffcv.transforms")
        times = -(-least // len(self.samples))
        pipelines = {self.samples.field: pipeline}
        if self.samples.labelled:
            pipelines["label"] = [need("ffcv.fields.decoders").IntDecoder(), ops.ToTensor()]
        loader = loaders.Loader(
            str(self.folder / NAME),
            batch_size=self.batch,
            num_workers=self.workers,
            order=loaders.OrderOption.RANDOM if cached else loaders.OrderOption.QUASI_RANDOM,
            os_cache=cached,
            indices=np.tile(np.arange(len(self.samples)), times),
            pipelines=pipelines,
            batches_ahead=ahead,
            seed=0,
        )
        return Epoch(f"{self.name}, {name}", partial(fields_of, loader), len(loader) * self.batch, tolerance=ROUNDING)


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


class Tuples:
    """Samples as FFCV's writer takes them: a tuple of the fields."""

    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, number: int) -> tuple[Any, ...]:
        row = self.samples.rows[int(number)].numpy()
        return (row, int(number)) if self.samples.labelled else (row,)


def fields_of(loader: Any) -> Iterator[Batch]:
    for rows, *labels in loader:
        yield Batch(rows, labels[0].view(-1) if labels else None)
