"""LitData and WebDataset, which have loaders and orders of their own."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.data.samples import Batch, Epoch, Samples
from benchmarks.harness.packages import need

WORKERS = 2
TAR_BYTES = 64_000_000  # of a tar file: as large as a shard of ours
SHUFFLED = 1000  # samples among which WebDataset's examples shuffle


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


def optimize(function: Callable[[Any], Any], inputs: Sequence[Any], folder: Path, *, ordered: bool) -> None:
    """LitData's chunks of what a function makes of inputs; its processes are forked, so nobody waits for imports."""
    litdata = need("litdata")
    os.environ["DATA_OPTIMIZER_CACHE_FOLDER"] = str(folder.parent / f"{folder.name}-cache")
    try:
        with silence():
            litdata.optimize(
                fn=function,
                inputs=list(inputs),
                output_dir=str(folder),
                chunk_bytes="64MB",  # as large as a shard of ours
                num_workers=WORKERS,
                start_method="fork",
                keep_data_ordered=ordered,
                verbose=False,
            )
    finally:
        del os.environ["DATA_OPTIMIZER_CACHE_FOLDER"]


class LitData:
    """Chunks that LitData's `optimize` writes, read by its StreamingDataLoader."""

    name = "LitData"
    takes_all = False
    workers: tuple[int, ...] = (0, WORKERS)

    def available(self) -> None:
        need("litdata")

    def pack(self, samples: Samples, folder: Path) -> None:
        self.optimize(samples, folder, ordered=True)

    def optimize(self, samples: Samples, folder: Path, *, ordered: bool) -> None:
        """Two processes; unordered they take their work from one queue."""
        optimize(samples.__getitem__, range(len(samples)), folder, ordered=ordered)

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        litdata = need("litdata")
        found = []
        for workers in self.workers:
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
            yield Batch(found[samples.field], found["label"] if samples.labelled else None)


class WebDataset:
    """Tar files of .npy members, read in a row by WebDataset's WebLoader.

    As its documentation says: more files than workers, files shuffled, samples shuffled within a buffer, and batches
    made by the workers. The order is less random than that of the others, who may read any sample next.
    """

    name = "WebDataset"
    takes_all = False
    workers: tuple[int, ...] = (0, WORKERS)

    def available(self) -> None:
        need("webdataset")

    def pack(self, samples: Samples, folder: Path) -> None:
        pattern, most = str(folder / "%06d.tar"), max(1, len(samples) // (2 * WORKERS))
        with need("webdataset").ShardWriter(pattern, maxcount=most, maxsize=TAR_BYTES, verbose=0) as writer:
            for number, row in enumerate(samples.rows):
                labels = {"cls": number} if samples.labelled else {}
                writer.write({"__key__": f"{number:09d}", "npy": row.numpy(), **labels})

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        web = need("webdataset")
        files = sorted(str(file) for file in folder.glob("*.tar"))
        found = []
        for workers in self.workers:
            dataset = web.WebDataset(files, shardshuffle=len(files)).shuffle(SHUFFLED).decode()
            members = ("npy", "cls") if samples.labelled else ("npy",)
            loader = web.WebLoader(
                dataset.to_tuple(*members).batched(batch),
                batch_size=None,
                num_workers=workers,
                persistent_workers=workers > 0,
            )
            found.append(Epoch(f"{self.name}, {workers} workers", partial(members_of, loader), len(samples)))
        return found


def members_of(loader: Any) -> Iterator[Batch]:
    for rows, *labels in loader:
        yield Batch(rows, labels[0] if labels else None)
