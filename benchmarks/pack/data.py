"""What the benchmark of packing packs: a folder of JPEG files, and the transform that everybody runs on them.

    folder = PhotographFolder.made(settings, scratch / "photographs")
    folder.entries[3]              # path, label, name: what the rivals are given; `pack` gets `folder.path`
    prepare(image)                 # 3xHxW uint8 to 3x224x224 float32: resize 256, centre crop 224, Normalize

The photographs are those of the other benchmarks: parts of pictures that PyPI packages ship, a class for each picture.
A part is scaled so that its shorter side has 375 pixels, as in ImageNet most are 500x375. Where more files are wanted
than are made, a file stands there several times, under names of its own.
"""

import io
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from benchmarks.data.photographs import MEAN, STD, open_sources
from benchmarks.harness.outcome import Settings
from benchmarks.harness.packages import need
from benchmarks.harness.timing import UnavailableError
from cordwood.demo.acts.photographs import JPEG_QUALITY, choose_crop

SHORT_SIDE = 375
RESIZED = 256
CROP = 224
SEED = 20260104

_MEAN = torch.tensor(MEAN).view(3, 1, 1)
_STD = torch.tensor(STD).view(3, 1, 1)


@dataclass(frozen=True)
class Counts:
    """How much there is to do."""

    made: int  # different JPEG files
    files: int  # that are packed
    decoded: int  # in a turn of the decoders
    burned: int  # samples of the transform that takes five milliseconds
    tiny: int  # samples of the run that is watched and killed
    story: int  # images of the class of the story
    batch: int  # and of one of its batches


FULL = Counts(made=2000, files=5000, decoded=260, burned=800, tiny=1_000_000, story=1300, batch=256)
QUICK = Counts(made=130, files=260, decoded=52, burned=60, tiny=50_000, story=130, batch=64)


def counts(settings: Settings) -> Counts:
    """Of a quick run or of a full one."""
    return QUICK if settings.quick else FULL


class Entry(NamedTuple):
    """One file: where it is, the number of its class, its name below the folder."""

    path: str
    label: int
    name: str


@dataclass(frozen=True)
class PhotographFolder:
    """A folder of class folders, the files in the order in which `pack` takes them, and what could not be had."""

    path: Path
    entries: list[Entry]
    missing: list[str]

    @classmethod
    def made(cls, settings: Settings, path: Path, made: int, files: int) -> Self:
        """Write so many different JPEG files, and give them more names until there are `files`."""
        pictures, missing = open_sources(settings.cache)
        if not pictures:
            raise UnavailableError("no photograph could be opened: " + "; ".join(missing))
        chance = np.random.default_rng(SEED)
        names = list(pictures)
        originals: list[Path] = []
        for number in range(made):
            name = names[number % len(names)]
            place = path / name.partition(".")[0] / f"{number:06d}.jpg"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(part_as_jpeg(pictures[name], chance))
            originals.append(place)
        for number in range(made, files):
            original = originals[number % made]
            os.link(original, original.parent / f"{number:06d}.jpg")
        return cls(path, listed(path), missing)

    def mean_bytes(self) -> float:
        """Of a file."""
        return sum(Path(entry.path).stat().st_size for entry in self.entries) / len(self.entries)


def part_as_jpeg(picture: Any, chance: np.random.Generator) -> bytes:
    """A part of the picture at a random place, square or 4:3 either way."""
    image = need("PIL.Image")
    crop = choose_crop(chance, *picture.size)
    left, upper, right, lower = crop.box
    scale = SHORT_SIDE / min(right - left, lower - upper)
    size = round((right - left) * scale), round((lower - upper) * scale)
    part = picture.resize(size, image.Resampling.LANCZOS, crop.box)
    if crop.is_mirrored:
        part = part.transpose(image.Transpose.FLIP_LEFT_RIGHT)
    file = io.BytesIO()
    part.save(file, "JPEG", quality=JPEG_QUALITY)
    return file.getvalue()


def listed(path: Path) -> list[Entry]:
    """Every file of the class folders, in order."""
    entries = []
    for label, folder in enumerate(sorted(each for each in path.iterdir() if each.is_dir())):
        for file in sorted(folder.iterdir()):
            entries.append(Entry(str(file), label, f"{folder.name}/{file.name}"))
    return entries


def prepare(image: torch.Tensor) -> torch.Tensor:
    """uint8 planes, the shorter side made 256 long, the middle 224x224, divided by 255 and normalised."""
    height, width = image.shape[-2:]
    scale = RESIZED / min(height, width)
    size = max(RESIZED, round(height * scale)), max(RESIZED, round(width * scale))
    resized = torch.nn.functional.interpolate(image[None], size, mode="bilinear", antialias=True)[0]
    top, left = (size[0] - CROP) // 2, (size[1] - CROP) // 2
    middle = resized[:, top : top + CROP, left : left + CROP]
    # Decoders give rows of RGB or planes; what is stored is always planes.
    return middle.float().contiguous().div_(255).sub_(_MEAN).div_(_STD)


@dataclass(frozen=True)
class Preparing:
    """What a rival calls for an entry: decode, `prepare`, and the sample that `pack` stores, too."""

    decode: Callable[[str], torch.Tensor]

    def __call__(self, entry: Entry) -> dict[str, Any]:
        return {"image": prepare(self.decode(entry.path)), "label": entry.label, "path": entry.name}
