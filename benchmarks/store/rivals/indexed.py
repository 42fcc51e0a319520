"""Rivals that are asked for samples by number: a file each, LMDB, HDF5, a TensorDict's memory map, a NumPy file."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.data.rivals import decode_zipped, encode_zipped
from benchmarks.data.samples import Batch, Epoch, Samples, random_batches
from benchmarks.harness.packages import need

LARGEST_MAP = 1 << 36
NO_MEMORY = np.empty(0, np.float32)  # neither zipfile nor torch.load can be given any


def each_batch(fetch: Callable[[list[int]], torch.Tensor], batches: Sequence[list[int]]) -> Iterator[Batch]:
    """In this process, one after the other."""
    for numbers in batches:
        yield Batch(fetch(numbers), numbers)


def in_process(name: str, fetch: Callable[[list[int]], torch.Tensor], samples: int, batch: int) -> Epoch:
    batches = random_batches(samples, batch)
    return Epoch(name, partial(each_batch, fetch, batches), len(batches) * batch)


class OneFileEach:
    """torch.save of every tensor to a .pt of its own, read by the stock DataLoader."""

    name = "one .pt a sample"
    takes_all = False
    workers: tuple[int, ...] = (0, 2)

    def available(self) -> None:
        """torch is there."""

    def pack(self, samples: Samples, folder: Path) -> None:
        for number, row in enumerate(samples.rows):
            self.save(row.clone(), folder / f"{number}.pt")  # not the row: it would drag all others along

    def save(self, row: torch.Tensor, file: Path) -> None:
        torch.save(row, file)

    def load(self, file: str) -> torch.Tensor:
        """What everybody writes."""
        tensor: torch.Tensor = torch.load(file)
        return tensor

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        batches = random_batches(len(samples), batch)
        found = []
        for workers in self.workers:
            loader = DataLoader(
                Files(folder, len(samples), self.load),
                batch_sampler=batches,
                num_workers=workers,
                persistent_workers=workers > 0,
            )
            name = f"{self.name}, DataLoader with {workers} workers"
            found.append(Epoch(name, partial(numbered, loader, batches), len(batches) * batch))
        return found


class ZippedFileEach(OneFileEach):
    """The same, and every .pt in a deflated zip archive, as people do it when the disk fills up."""

    name = "one zipped .pt a sample"

    def save(self, row: torch.Tensor, file: Path) -> None:
        file.write_bytes(encode_zipped(row.numpy()))

    def load(self, file: str) -> torch.Tensor:
        return torch.from_numpy(decode_zipped(Path(file).read_bytes(), NO_MEMORY))


class Files(Dataset[torch.Tensor]):
    """A folder of numbered files, and the function that reads one."""

    def __init__(self, folder: Path, count: int, load: Callable[[str], torch.Tensor]) -> None:
        self.folder, self.count, self.load = str(folder), count, load

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> torch.Tensor:
        return self.load(f"{self.folder}/{number}.pt")


def numbered(loader: Any, batches: Sequence[list[int]]) -> Iterator[Batch]:
    """The batches of a loader that was told the numbers."""
    for rows, numbers in zip(loader, batches, strict=True):
        yield Batch(rows, numbers)


class LightningMemoryMap:
    """LMDB: raw bytes by number, copied out of its memory map; a DataLoader around it is several times slower.

    Its documentation advises against reading ahead where samples are read in random order from more than memory holds.
    """

    name = "LMDB"
    takes_all = True

    def __init__(self, *, readahead: bool = False) -> None:
        self.readahead = readahead

    def available(self) -> None:
        need("lmdb")

    def pack(self, samples: Samples, folder: Path) -> None:
        with need("lmdb").open(str(folder), map_size=LARGEST_MAP) as environment, environment.begin(write=True) as put:
            for number, row in enumerate(samples.rows):
                put.put(key(number), row.numpy().tobytes())

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        environment = need("lmdb").open(str(folder), readonly=True, lock=False, readahead=self.readahead)
        shape, dtype = tuple(samples.rows.shape[1:]), samples.rows[0].numpy().dtype
        get = environment.begin(buffers=True).get

        def stacked(numbers: list[int]) -> torch.Tensor:
            rows = [np.frombuffer(get(key(number)), dtype) for number in numbers]
            return torch.from_numpy(np.stack(rows)).view(-1, *shape)

        def copied(numbers: list[int]) -> torch.Tensor:
            out = np.empty((len(numbers), int(np.prod(shape))), dtype)
            for place, number in enumerate(numbers):
                out[place] = np.frombuffer(get(key(number)), dtype)
            return torch.from_numpy(out).view(-1, *shape)

        return [
            in_process("LMDB, np.stack", stacked, len(samples), batch),
            in_process("LMDB, copied row by row", copied, len(samples), batch),
        ]


def key(number: int) -> bytes:
    return number.to_bytes(4, "big")


class HierarchicalFile:
    """HDF5 by h5py: one contiguous dataset, which is what h5py makes unless it is told to chunk or to compress.

    Its documentation wants the numbers of one selection in increasing order; row by row has no such rule. Threads do
    not help, as h5py has one lock for the whole library, and a DataLoader with workers is several times slower.
    """

    name = "HDF5"
    takes_all = True

    def available(self) -> None:
        need("h5py")

    def pack(self, samples: Samples, folder: Path) -> None:
        with need("h5py").File(folder / "samples.h5", "w") as file:
            file.create_dataset(samples.field, data=samples.rows.numpy())
            if samples.labelled:
                file.create_dataset("label", data=np.arange(len(samples)))

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        rows = need("h5py").File(folder / "samples.h5", "r")[samples.field]

        def one_by_one(numbers: list[int]) -> torch.Tensor:
            return torch.from_numpy(np.stack([rows[number] for number in numbers]))

        def selected(numbers: list[int]) -> torch.Tensor:
            order = np.argsort(numbers)
            found = np.empty((len(numbers), *rows.shape[1:]), rows.dtype)
            found[order] = rows[np.asarray(numbers)[order]]
            return torch.from_numpy(found)

        return [
            in_process("HDF5, row by row", one_by_one, len(samples), batch),
            in_process("HDF5, one selection", selected, len(samples), batch),
        ]


class TensorDictMemory:
    """A TensorDict's memory map, `td[numbers]`."""

    name = "TensorDict memmap"
    takes_all = True

    def available(self) -> None:
        need("tensordict")

    def pack(self, samples: Samples, folder: Path) -> None:
        fields = {samples.field: samples.rows}
        if samples.labelled:
            fields["label"] = torch.arange(len(samples))
        need("tensordict").TensorDict(fields, batch_size=[len(samples)]).memmap(str(folder), num_threads=2)

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        stored = need("tensordict").TensorDict.load_memmap(str(folder))

        def gathered(numbers: list[int]) -> torch.Tensor:
            rows: torch.Tensor = stored[torch.tensor(numbers)][samples.field]
            return rows

        return [in_process(self.name, gathered, len(samples), batch)]


class NumpyFile:
    """One .npy of everything, `memmap[numbers]`: the least that a gather can do. It has no labels and no checksums."""

    name = ".npy memmap"
    takes_all = True

    def available(self) -> None:
        """NumPy is there."""

    def pack(self, samples: Samples, folder: Path) -> None:
        np.save(folder / "rows.npy", samples.rows.numpy())

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        rows = np.load(folder / "rows.npy", mmap_mode="r")
        return [in_process(self.name, lambda numbers: torch.from_numpy(rows[numbers]), len(samples), batch)]
