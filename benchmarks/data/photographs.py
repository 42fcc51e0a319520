"""Photographs, prepared as people prepare them for training, from files that PyPI packages ship.

    photographs = load_photographs(cache, count=65)
    photographs.pixels[0].shape, photographs.pixels[0].dtype      # (224, 224, 3), uint8
    normalise(photographs.pixels[0])                              # 3x224x224 float32, as torch's transforms give it
    photographs.by_class()                                        # in the order of a folder sorted by class

Few packages ship photographs, so each source gives several: the whole picture first, then square parts of it, half
of them mirrored, chosen by a fixed seed. A part has 300 pixels a side or more, so every image is scaled down.
"""

import io
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from benchmarks.harness.packages import PackageCache, need
from benchmarks.harness.timing import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
SIZE = 224
RESIZED = 256
LEAST_PART = 300

SCIKIT_IMAGE = (
    "astronaut.png", "chelsea.png", "coffee.png", "motorcycle_left.png", "rocket.jpg", "hubble_deep_field.jpg",
    "retina.jpg", "ihc.png",
)  # fmt: skip
SCIKIT_LEARN = ("china.jpg", "flower.jpg")
WHEELS = (
    ("ultralytics==8.4.190", "ultralytics/assets/bus.jpg"),
    ("ultralytics==8.4.190", "ultralytics/assets/zidane.jpg"),
    ("imgaug==0.4.0", "imgaug/quokka.jpg"),
)

Pixels = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Photographs:
    """224x224x3 uint8 each, where each came from, and for what could not be had a line that says why."""

    pixels: list[Pixels]
    sources: list[str]
    missing: list[str]

    def by_class(self) -> Self:
        """The same photographs as a folder of classes gives them: all of one source before those of the next."""
        order = sorted(range(len(self.pixels)), key=lambda number: self.sources[number])
        pixels, sources = [self.pixels[number] for number in order], [self.sources[number] for number in order]
        return type(self)(pixels, sources, self.missing)


def load_photographs(cache: PackageCache, count: int) -> Photographs:
    """`count` different images, going round the sources, so that the first few are as varied as the whole set."""
    image = need("PIL.Image")
    pictures, missing = open_sources(cache)
    if not pictures:
        raise UnavailableError("no photograph could be opened: " + "; ".join(missing))
    names = list(pictures)
    chance = np.random.default_rng(20260101)
    sources = [names[i % len(names)] for i in range(count)]
    pixels = []
    for i, name in enumerate(sources):
        chosen = pictures[name] if i < len(names) else part_of(pictures[name], chance, image)
        pixels.append(prepare(chosen, image))
    return Photographs(pixels, sources, missing)


def open_sources(cache: PackageCache) -> tuple[dict[str, Any], list[str]]:
    """Every source that can be had, as RGB pictures by name, and a line for each that cannot."""
    image = need("PIL.Image")
    readers: list[tuple[str, Callable[[], bytes]]] = []
    for module, folder, names in (("skimage", "data", SCIKIT_IMAGE), ("sklearn", "datasets/images", SCIKIT_LEARN)):
        readers += [(name, partial(installed_file, module, folder, name)) for name in names]
    readers += [(member.rpartition("/")[2], partial(cache.read, package, member)) for package, member in WHEELS]
    pictures: dict[str, Any] = {}
    missing: list[str] = []
    for name, read in readers:
        try:
            pictures[name] = image.open(io.BytesIO(read())).convert("RGB")
        except (UnavailableError, OSError) as error:
            missing.append(f"{name}: {error}")
    return pictures, missing


def installed_file(module: str, folder: str, name: str) -> bytes:
    """A data file of an installed package."""
    return Path(need(module).__file__).parent.joinpath(folder, name).read_bytes()


def part_of(picture: Any, chance: np.random.Generator, image: Any) -> Any:
    """A square part of the picture at a random place, mirrored half of the time."""
    width, height = picture.size
    shorter = min(width, height)
    side = int(chance.integers(min(LEAST_PART, shorter), shorter + 1))
    left = int(chance.integers(0, width - side + 1))
    top = int(chance.integers(0, height - side + 1))
    cut = picture.crop((left, top, left + side, top + side))
    return cut.transpose(image.Transpose.FLIP_LEFT_RIGHT) if chance.random() < 0.5 else cut


def prepare(picture: Any, image: Any) -> Pixels:
    """Shorter side to 256 (bilinear), then the centre 224x224: the usual preparation for ImageNet models."""
    width, height = picture.size
    scale = RESIZED / min(width, height)
    picture = picture.resize((round(width * scale), round(height * scale)), image.Resampling.BILINEAR)
    left = (picture.size[0] - SIZE) // 2
    top = (picture.size[1] - SIZE) // 2
    return np.asarray(picture.crop((left, top, left + SIZE, top + SIZE)), dtype=np.uint8).copy()


def normalise(pixels: Pixels) -> Floats:
    """What torch's own operations make of the pixels: `x.float().div(255).sub(mean).div(std)`, channels first."""
    torch = need("torch")
    mean = torch.tensor(MEAN).view(3, 1, 1)
    std = torch.tensor(STD).view(3, 1, 1)
    planes = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
    floats: Floats = planes.float().div(255).sub(mean).div(std).numpy()
    return floats


def normalised_values() -> Floats:
    """The 3x256 floats that `normalise` can give: channel by pixel value."""
    ramp = np.repeat(np.arange(256, dtype=np.uint8)[:, None, None], 3, axis=2)
    return np.ascontiguousarray(normalise(ramp)[:, :, 0])
