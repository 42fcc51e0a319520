"""The usual preprocessing of an image: resize to 256, centre crop 224, divide by 255, normalise."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from cordwood.images import decode_pil

RESIZE = 256
CROP = 224
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


@dataclass(frozen=True)
class PreparedImage:
    """One image on its way: the file it came from, its prepared pixels, and its row of a batch of tensors."""

    source: Path
    pixels: npt.NDArray[np.uint8]  # height, width, channel
    tensor: torch.Tensor  # a view into a whole batch, as a slice of a batch is


def prepared_pixels(path: Path) -> npt.NDArray[np.uint8]:
    """The pixels of a file, prepared; decoded as `cw.pack` decodes them, so that all ways begin with the same ones."""
    return resized_middle(decode_pil(path.read_bytes()))


def resized_middle(image: Image.Image) -> npt.NDArray[np.uint8]:
    """The image, its shorter side made 256 pixels long, and the middle 224x224 of that."""
    scale = RESIZE / min(image.size)
    width, height = (max(RESIZE, round(side * scale)) for side in image.size)
    left, upper = (width - CROP) // 2, (height - CROP) // 2
    resized = image.resize((width, height), Image.Resampling.BILINEAR)
    return np.asarray(resized.crop((left, upper, left + CROP, upper + CROP)))


def normalised(pixels: npt.NDArray[np.uint8]) -> torch.Tensor:
    """Pixels (height, width, channel) as a contiguous float32 tensor (channel, height, width)."""
    planes = torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
    return planes.float().div(255).sub(MEAN).div(STD)


def prepare_image(image: Image.Image) -> torch.Tensor:
    """The transform that `cw.pack` is given for the field `image`."""
    return normalised(resized_middle(image))


def prepare_batch(paths: list[Path]) -> list[PreparedImage]:
    """Prepare the files as one batch; every sample's tensor is a slice of it."""
    pixels = [prepared_pixels(path) for path in paths]
    batch = torch.stack([normalised(image) for image in pixels])
    return [PreparedImage(path, image, row) for path, image, row in zip(paths, pixels, batch, strict=True)]
