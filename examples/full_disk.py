"""The full disk: a cache of preprocessed tensors that takes far more room than the pictures it was made from.

Preprocessing was slow and the GPU waited for it, so somebody did it once and kept the results: one file a picture, in
the folders of the data set. The transform worked on batches, so the loop saved ``batch[i]``. After one class of a
thousand the disk was full: ``torch.save`` writes the whole storage behind a tensor, so every file held the whole
batch. ``.clone()`` cured that, and a file was still twenty times as large as the picture it came from. Zipping the
files made them small, and reading several times slower.

This script keeps the same pictures in all these ways, and in Cordwood's: files that plain ``torch.load`` reads, files
compressed by codecs that know tensors, and a store. It checks that every way gives back the same bits.

    python examples/full_disk.py
"""

import tempfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F  # noqa: N812 - the name that everybody gives it

import cordwood as cw

BATCH, BATCHES, SIDE = 16, 4, 64
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def preprocessed_batches() -> list[torch.Tensor]:
    """Pictures as networks like them: smooth, 8 bits a channel, then scaled and normalised to float32."""
    torch.manual_seed(0)
    batches = []
    for _ in range(BATCHES):
        coarse = torch.rand(BATCH, 3, 8, 8) * 255
        pixels = F.interpolate(coarse, SIDE, mode="bicubic").clamp(0, 255).round()
        batches.append((pixels / 255 - MEAN) / STD)
    return batches


def read_zipped(path: Path) -> torch.Tensor:
    """The file inside the archive, read in memory."""
    with zipfile.ZipFile(path) as archive, archive.open("tensor.pt") as file:
        tensor: torch.Tensor = torch.load(file)
        return tensor


def zip_clone(tensor: torch.Tensor, path: Path) -> None:
    """What one does by hand when clones are too large."""
    torch.save(tensor.clone(), path.with_suffix(".pt"))
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(path.with_suffix(".pt"), "tensor.pt")
    path.with_suffix(".pt").unlink()


def check_same(samples: list[torch.Tensor], loaded: list[torch.Tensor]) -> None:
    """Small is easy if the pictures may change."""
    if not all(torch.equal(one, other) for one, other in zip(samples, loaded, strict=True)):
        raise SystemExit("what came back is not what was kept")


def keep_in_files(
    samples: list[torch.Tensor],
    folder: Path,
    suffix: str,
    write: Callable[[torch.Tensor, Path], object],
    read: Callable[[Path], torch.Tensor],
) -> tuple[int, float]:
    """Bytes and seconds a picture: the size of its file, and reading it back."""
    folder.mkdir()
    paths = [folder / f"{number}{suffix}" for number in range(len(samples))]
    for sample, path in zip(samples, paths, strict=True):
        write(sample, path)
    started = time.perf_counter()
    loaded = [read(path) for path in paths]
    seconds = time.perf_counter() - started
    check_same(samples, loaded)
    return sum(path.stat().st_size for path in paths) // len(samples), seconds / len(samples)


def keep_in_store(samples: list[torch.Tensor], path: Path) -> tuple[int, float]:
    """The same for one store with all pictures in it, read in batches."""
    cw.pack(({"image": sample} for sample in samples), path, workers=0, progress=False)
    dataset = cw.open(path).select("image")
    started = time.perf_counter()
    batches = [dataset[range(first, first + BATCH)][0] for first in range(0, len(samples), BATCH)]
    seconds = time.perf_counter() - started
    check_same(samples, [image for batch in batches for image in batch])
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return size // len(samples), seconds / len(samples)


def main() -> None:
    """Keep the pictures in every way, and print what each costs."""
    samples = [image for batch in preprocessed_batches() for image in batch]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = {
            "torch.save(batch[i])": keep_in_files(samples, folder / "1", ".pt", torch.save, torch.load),
            "torch.save(batch[i].clone())": keep_in_files(
                samples, folder / "2", ".pt", lambda tensor, path: torch.save(tensor.clone(), path), torch.load
            ),
            "the same, zipped": keep_in_files(samples, folder / "3", ".zip", zip_clone, read_zipped),
            'cw.save(batch[i], "x.pt")': keep_in_files(samples, folder / "4", ".pt", cw.save, torch.load),
            'cw.save(batch[i], "x.cord")': keep_in_files(samples, folder / "5", ".cord", cw.save, cw.load),
            'cw.pack(..., "x.cordwood")': keep_in_store(samples, folder / "6.cordwood"),
        }
    print(f"{len(samples)} pictures, {samples[0].nbytes:,} bytes of float32 each; all came back bit for bit\n")
    print(f"{'kept by':<30}{'bytes a picture':>16}{'ms to read one':>16}")
    for way, (size, seconds) in results.items():
        print(f"{way:<30}{size:>16,}{1000 * seconds:>16.3f}")


if __name__ == "__main__":
    main()
