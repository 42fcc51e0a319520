"""One class of an image data set, kept as people keep prepared tensors: from whole batches for every slice to a store.

The story is well known. Preprocessing was slow, so its results were to be kept, a file an image. `torch.save(batch[b])`
wrote the whole batch behind every slice: 200 GB for one class of ImageNet. A clone has its own bytes only, and is still
many times the JPEG file; zipped it is small again, and slow to read.
"""

import io
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

import cordwood as cw
from benchmarks.data import rivals
from benchmarks.data.samples import nbytes
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Contender, MismatchError, Spread, interleave, ratio
from benchmarks.pack.data import PhotographFolder, Preparing, counts, prepare
from benchmarks.pack.photo_rows import by_cordwood
from cordwood.codecs import Goal

TITLE = "One class of the ImageNet story"
KEYS: tuple[str, ...] = ()  # for the guide
SLICES = 4  # that are written with their whole batch: each takes 154 MB
CLASSES = 1000
READ = 100  # images in a turn
MOST_ROUNDS = 7
WORKERS = 2
GOALS: tuple[Goal, ...] = ("balanced", "small", "fast")

Read = Callable[[int], torch.Tensor]


@dataclass(frozen=True)
class Kept:
    """A way to keep the class: its bytes, and how an image is read by its number."""

    name: str
    total: float
    read: Read | None = None


def measure(settings: Settings) -> Outcome:
    """One table."""
    amount = counts(settings)
    with scratch(settings) as folder, rivals.threads(1):
        photographs = PhotographFolder.made(settings, folder / "photographs", amount.story, amount.story)
        mean = photographs.mean_bytes()
        jpegs = mean * amount.story
        ways = [Kept("the JPEG files, prepared again", jpegs, partial(prepared_again, photographs))]
        ways += files(photographs, amount.batch, folder)
        ways += stores(photographs, amount.batch, folder)
        readable = {way.name: way.read for way in ways if way.read is not None}
        require_same(ways, photographs)
        contenders = [
            Contender(name, partial(read_some, read, min(READ, amount.story)), min(READ, amount.story))
            for name, read in readable.items()
        ]
        times = interleave(contenders, min(settings.rounds, MOST_ROUNDS), least_seconds=settings.least_seconds)
    direct = times["torch.save(batch[b].clone())"]
    table = Table(
        f"{amount.story:,} photographs of one class, prepared in batches of {amount.batch}: 3x224x224 float32",
        [("way to keep them", "text"), ("bytes", "bytes"), ("of the JPEG files", "ratio"),
         (f"{CLASSES:,} such classes, GB", "bytes"), ("read one, ms", "ms"), ("time, of the clone's", "ratio")],
    )  # fmt: skip
    for way in ways:
        spread = Spread.of(times[way.name]) if way.name in times else None
        slower = ratio(times[way.name], direct) if way.name in times else None
        table.add(way.name, way.total, way.total / jpegs, way.total * CLASSES / 1e9, spread, slower)
    table.notes += [
        f"Of the files with a whole batch in them, {SLICES} are written and measured, and one of the last batch, which "
        "is smaller; every file of a batch is as large as any other, so the rest is multiplication. Everything else is "
        "written in full. The column for a thousand classes is multiplied, too.",
        f"JPEG files of {mean:,.0f} bytes each, in a folder for each of the pictures that they are parts of; stores "
        "are packed in the order of these folders. Reading is of one thread, from the page cache, to float32, "
        "normalised, and equal bit for bit in all ways.",
        *(f"Left out: {line}" for line in photographs.missing),
    ]
    return Outcome([table])


def prepared_again(photographs: PhotographFolder, number: int) -> torch.Tensor:
    return prepare(by_cordwood(photographs.entries[number].path))


def files(photographs: PhotographFolder, size: int, folder: Path) -> list[Kept]:
    """What the story goes through: slices, clones, and clones that are zipped."""
    count = len(photographs.entries)
    clones, zipped = folder / "clones", folder / "zipped"
    clones.mkdir()
    zipped.mkdir()
    slices = 0.0
    for start in range(0, count, size):
        numbers = range(start, min(start + size, count))
        batch = torch.stack([prepared_again(photographs, number) for number in numbers])
        if start == 0 or len(numbers) < size:
            each = slice_bytes(batch, folder / "slice.pt", SLICES if start == 0 else 1)
        slices += each * len(numbers)
        for number, row in zip(numbers, batch, strict=True):
            clone = row.clone()
            torch.save(clone, clones / f"{number}.pt")
            zip_file(clone, zipped / f"{number}.zip")
    return [
        Kept("torch.save(batch[b])", slices),
        Kept("torch.save(batch[b].clone())", nbytes(clones), lambda number: torch.load(clones / f"{number}.pt")),
        Kept("the clones, zipped", nbytes(zipped), lambda number: unzipped(zipped / f"{number}.zip")),
    ]


def slice_bytes(batch: torch.Tensor, file: Path, count: int) -> float:
    """What a file of one slice takes, by some of them."""
    total = 0
    for row in batch[:count]:
        torch.save(row, file)
        total += file.stat().st_size
    file.unlink()
    return total / len(batch[:count])


def zip_file(tensor: torch.Tensor, path: Path) -> None:
    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tensor.pt", buffer.getvalue())


def unzipped(path: Path) -> torch.Tensor:
    with zipfile.ZipFile(path) as archive:
        tensor: torch.Tensor = torch.load(io.BytesIO(archive.read("tensor.pt")))
    return tensor


def prepare_batch(batch: dict[str, Any]) -> dict[str, Any]:
    """The story's own way to work: the result is one tensor, and its rows are stored."""
    return {"image": torch.stack([prepare(image) for image in batch["image"]])}


def stores(photographs: PhotographFolder, size: int, folder: Path) -> list[Kept]:
    """Stores of the same tensors, and of the bytes that the images came in."""
    found = []
    for goal in GOALS:
        store = folder / f"{goal}.cordwood"
        cw.pack(photographs.path, store, transform=prepare_batch, batched=True, batch_size=size, goal=goal,
                workers=WORKERS, progress=False)  # fmt: skip
        images = cw.open(store, threads=1).select("image")
        found.append(Kept(f"cw.pack, {goal}", nbytes(store), partial(read_stored, images)))
    store = folder / "kept.cordwood"
    cw.pack(photographs.path, store, fields={"image": cw.Field(keep_encoded=True)}, workers=WORKERS, progress=False)
    kept = cw.open(store, threads=1).select("image")
    found.append(Kept("cw.pack, keep_encoded", nbytes(store), lambda number: prepare(read_stored(kept, number))))
    return found


def read_stored(images: cw.Dataset, number: int) -> torch.Tensor:
    (image,) = images[number]
    return image  # type: ignore[no-any-return]


def read_some(read: Read, count: int) -> None:
    for number in range(count):
        read(number)


def require_same(ways: Sequence[Kept], photographs: PhotographFolder) -> None:
    """Whatever is read back is what the transform gave, bit for bit."""
    expected = Preparing(by_cordwood)
    for number in range(0, len(photographs.entries), 37):
        image = expected(photographs.entries[number])["image"]
        for way in ways:
            if way.read is not None and not torch.equal(way.read(number), image):
                raise MismatchError(f"{way.name} does not give image {number} back")
