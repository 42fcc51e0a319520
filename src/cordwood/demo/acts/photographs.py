"""Makes an image folder from photographs that PyPI packages ship: crops, scaled and mirrored, one class per photograph.

The packages are only looked up, never imported: their files are all that is wanted, and their imports are slow.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from cordwood.demo.report import Photograph, PhotographFolder
from cordwood.errors import UsageError

# package -> the folder inside it, and the photographs there
SHIPPED = {
    "skimage": (
        "data",
        [
            "astronaut.png",
            "chelsea.png",
            "coffee.png",
            "hubble_deep_field.jpg",
            "ihc.png",
            "motorcycle_left.png",
            "motorcycle_right.png",
            "retina.jpg",
            "rocket.jpg",
        ],
    ),
    "sklearn": ("datasets/images", ["china.jpg", "flower.jpg"]),
}
NEEDED = {"PIL": "pillow", "cv2": "opencv-python-headless", "skimage": "scikit-image", "sklearn": "scikit-learn"}

SHORT_SIDE = 256
SMALLEST_CROP = 280  # pixels of the photograph: below that a crop would be enlarged
ASPECTS = (1.0, 4 / 3, 3 / 4)
JPEG_QUALITY = 92
PICTURE_SIDE, PICTURE_QUALITY = 160, 80  # of what a page shows of a class


@dataclass(frozen=True)
class Crop:
    """A part of a photograph: left, upper, right, lower in its pixels, and whether it is mirrored."""

    box: tuple[int, int, int, int]
    is_mirrored: bool


def require_demo_extra() -> None:
    """Refuse, with the command to run, if a package of the demo extra is missing."""
    missing = [distribution for module, distribution in NEEDED.items() if find_spec(module) is None]
    if missing:
        raise UsageError(f"the demo needs {', '.join(missing)}; run: pip install 'cordwood[demo]'")


def find_photographs() -> list[Path]:
    """The photographs of the installed packages, in a fixed order."""
    photographs = []
    for package, (folder, names) in SHIPPED.items():
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            raise UsageError(f"the demo needs {NEEDED[package]}; run: pip install 'cordwood[demo]'")
        photographs += [Path(spec.origin).parent / folder / name for name in names]
    present = [path for path in photographs if path.is_file()]
    if not present:
        raise UsageError(
            "the installed scikit-image and scikit-learn ship none of the photographs that the demo knows; "
            "run: pip install -c constraints.txt 'cordwood[demo]' with the constraints of the project"
        )
    return present


def make_image_folder(
    folder: Path, count: int, *, seed: int = 0, progress: Callable[[str, int, int], None]
) -> list[Path]:
    """Write ``count`` JPEG files into one folder a class; their paths, class by class, as `cw.pack` takes them.

    They are the same every time.
    """
    from PIL import Image

    photographs = {path.stem: Image.open(path).convert("RGB") for path in find_photographs()}
    names = list(photographs)
    rng = np.random.default_rng(seed)
    paths = []
    for number in range(count):
        name = names[number % len(names)]
        crop = choose_crop(rng, *photographs[name].size)
        left, upper, right, lower = crop.box
        scale = SHORT_SIDE / min(right - left, lower - upper)
        size = round((right - left) * scale), round((lower - upper) * scale)
        image = photographs[name].resize(size, Image.Resampling.LANCZOS, crop.box)
        if crop.is_mirrored:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        path = folder / name / f"{number:05d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        image.save(path, quality=JPEG_QUALITY)
        paths.append(path)
        progress("making the image folder", number + 1, count)
    return sorted(paths, key=lambda path: (path.parent.name, path.name))


def describe(folder: Path, paths: list[Path]) -> PhotographFolder:
    """How much there is in the folder, and the first image of each class as a small square picture."""
    from PIL import Image, ImageOps

    firsts: dict[str, Path] = {}
    for path in paths:
        firsts.setdefault(path.parent.name, path)
    photographs = []
    for name, path in firsts.items():
        file = io.BytesIO()
        with Image.open(path) as image:
            ImageOps.fit(image, (PICTURE_SIDE, PICTURE_SIDE)).save(file, "JPEG", quality=PICTURE_QUALITY)
        photographs.append(Photograph(name, file.getvalue()))
    return PhotographFolder(folder, len(paths), sum(path.stat().st_size for path in paths), photographs)


def choose_crop(rng: np.random.Generator, width: int, height: int) -> Crop:
    """A random part of a photograph: square, or 4:3 either way, where it fits."""
    aspect = float(rng.choice(ASPECTS))
    largest = min(width, height, int(width / aspect) if aspect > 1 else int(height * aspect))
    short = int(rng.integers(min(SMALLEST_CROP, largest), largest + 1))
    across, down = (int(short * aspect), short) if aspect > 1 else (short, int(short / aspect))
    left = int(rng.integers(0, width - across + 1))
    upper = int(rng.integers(0, height - down + 1))
    return Crop((left, upper, left + across, upper + down), bool(rng.random() < 0.5))
