"""Images that the tests make themselves, in every format and kind of pixel."""

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps

from cordwood.images import Decoder
from cordwood.images import decode as decode

# Every decoder that this environment can have; Pillow is the judge of the others.
DECODERS = {
    "simplejpeg": Decoder(jpeg="simplejpeg"),
    "opencv": Decoder(jpeg="opencv", png="opencv", webp="opencv"),
    "pillow": Decoder(),
}
# Format -> the kinds of pixels that it can hold.
WRITABLE = {
    "JPEG": ("L", "RGB", "CMYK"),
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"),
    "WEBP": ("RGB", "RGBA"),
    "BMP": ("1", "L", "P", "RGB", "RGBA"),
    "GIF": ("L", "P"),
    "TIFF": ("1", "L", "LA", "P", "RGB", "RGBA", "I;16", "CMYK"),
}


def pixels(width: int, height: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Smooth colours with some grain: what photographs are like to a codec."""
    random = np.random.default_rng(seed)
    rows, columns = np.mgrid[0:height, 0:width]
    waves = [np.sin(rows / 9 + c) + np.cos(columns / (7 + c)) for c in range(3)]
    smooth = np.stack(waves, axis=-1) * 50 + 128
    return np.clip(smooth + random.normal(0, 6, smooth.shape), 0, 255).astype(np.uint8)


def picture(mode: str = "RGB", width: int = 61, height: int = 47, seed: int = 0) -> Image.Image:
    colour = Image.fromarray(pixels(width, height, seed))
    if mode == "I;16":
        deep = np.random.default_rng(seed).integers(0, 1 << 16, (height, width), dtype=np.uint16)
        return Image.fromarray(deep)
    if mode in ("LA", "RGBA"):
        image = colour.convert(mode[:-1])
        image.putalpha(Image.fromarray(pixels(width, height, seed + 1)[:, :, 0]))
        return image
    return colour.quantize(40) if mode == "P" else colour.convert(mode)


def written(image: Image.Image, format: str, **options: Any) -> bytes:
    out = io.BytesIO()
    if format == "WEBP":
        options = {"lossless": True, "exact": True, **options}
    image.save(out, format, **options)
    return out.getvalue()


def animated(format: str, frames: Sequence[Image.Image], **options: Any) -> bytes:
    """A file of several frames, or pages."""
    if format == "GIF" and "optimize" not in options:
        options["optimize"] = False
    return written(frames[0], format, save_all=True, append_images=list(frames[1:]), **options)


def scenes(count: int, mode: str = "RGBA", width: int = 40, height: int = 30, seed: int = 0) -> list[Image.Image]:
    """Frames that differ in a part: transparent, with a box that wanders."""
    made = []
    for number in range(count):
        image = Image.new("RGBA", (width, height), (0, 0, 0, 0))
        box = picture("RGB", width // 2, height // 2, seed + number)
        image.paste(box, ((7 * number + seed) % (width // 2), (5 * number) % (height // 2)))
        made.append(image if mode == "RGBA" else image.convert(mode))
    return made


def frames_by_pillow(data: bytes) -> torch.Tensor:
    """What a user of Pillow gets: every frame looked for, turned upright, converted."""
    found = []
    with Image.open(io.BytesIO(data)) as image:
        for number in range(getattr(image, "n_frames", 1)):
            image.seek(number)
            frame = image.copy() if image.format == "TIFF" else ImageOps.exif_transpose(image)
            frame.info.pop("transparency", None)
            found.append(tensor(frame.convert("RGB")))
    return torch.stack(found)


def by_pillow(data: bytes) -> torch.Tensor:
    """What a user of Pillow gets: opened, turned upright, converted."""
    with Image.open(io.BytesIO(data)) as image:
        upright = ImageOps.exif_transpose(image)
        upright.info.pop("transparency", None)
        return tensor(upright.convert("RGB"))


def tensor(image: Image.Image) -> torch.Tensor:
    return torch.from_numpy(np.asarray(image).transpose(2, 0, 1).copy())


def exif(orientation: int) -> bytes:
    tags = Image.Exif()
    tags[274] = orientation
    return tags.tobytes()
