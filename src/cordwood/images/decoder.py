"""Chooses the decoder of each image format: once, recorded, the same in every worker.

    decoder = best()                        # by what is installed
    decoder.versions()                      # {'jpeg': 'simplejpeg 1.9.0', 'png': 'opencv 5.0.0', ...}
    image = decoder.decode(data, size=256)  # a torch tensor, uint8, 3 x height x width

The order of preference is by measurement: `cordwood bench pack` prints it. All of them give Pillow's pixels where
they are built on the same libraries; with other builds a JPEG's pixels may differ by a step or two, which is why a job
keeps to the decoders that it began with. A Decoder is a few names, and travels to worker processes as such.

A JPEG that is cut short is refused by all of them. One that is damaged within is refused where Pillow refuses it, with
one exception: OpenCV fills what is missing with grey and says nothing. It is asked only where simplejpeg is not
installed.
"""

from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch

from cordwood.errors import UsageError
from cordwood.images.fast_decoders import Pixels, bitmap, module, opencv, planes, simplejpeg
from cordwood.images.header import MAX_PIXELS, ImageHeader, probe
from cordwood.images.orientation import upright, upright_pil
from cordwood.images.pillow_decoder import load, to_rgb

if TYPE_CHECKING:
    from PIL import Image

_INSTALL = "pip install 'cordwood[images]'"
_CALLS = {"opencv": opencv, "simplejpeg": simplejpeg}
_MODULES = {"opencv": "cv2", "pillow": "PIL", "simplejpeg": "simplejpeg"}
# The fastest first. Pillow, the last, reads every format; for GIF and TIFF it is the fastest, or the only right one.
_PREFERRED = {
    "jpeg": ("simplejpeg", "opencv", "pillow"),
    "png": ("opencv", "pillow"),
    "webp": ("opencv", "pillow"),
}


@dataclass(frozen=True)
class Decoder:
    """The decoders that read JPEG, PNG and WebP; the other formats have one way each.

    ::

        Decoder(jpeg="opencv").decode(data)
    """

    jpeg: str = "pillow"
    png: str = "pillow"
    webp: str = "pillow"

    def __post_init__(self) -> None:
        for name, chosen in asdict(self).items():
            if chosen not in _PREFERRED[name]:
                raise UsageError(f"no decoder of {name} images is called {chosen!r}; there are {_PREFERRED[name]}")

    def versions(self) -> dict[str, str]:
        """Each format's decoder with its version, for the description of a job: same versions, same pixels."""
        told = {name: f"{chosen} {_version(chosen)}" for name, chosen in asdict(self).items()}
        pillow = f"pillow {_version('pillow')}"
        return {"bmp": pillow, "gif": pillow, **told, "tiff": pillow}

    def decode(self, data: bytes, *, size: int | None = None, max_pixels: int = MAX_PIXELS) -> torch.Tensor:
        """The image as a tensor of uint8, 3 x height x width, RGB, upright, contiguous; see :func:`decode`."""
        return self.tensor(data, probe(data, max_pixels), size=size, max_pixels=max_pixels)

    def tensor(
        self, data: bytes, header: ImageHeader, *, size: int | None = None, max_pixels: int = MAX_PIXELS
    ) -> torch.Tensor:
        """What `decode` returns; `header` is what ``probe`` gave."""
        return torch.from_numpy(planes(self.pixels(data, header, size=size, max_pixels=max_pixels)))

    def pixels(
        self, data: bytes, header: ImageHeader, *, size: int | None = None, max_pixels: int = MAX_PIXELS
    ) -> Pixels:
        """The upright image as rows x columns x 3, maybe a view of other memory; `header` is what ``probe`` gave."""
        scale = _scale(header, size)
        pixels = self._fast(data, header, scale)
        if pixels is not None:
            return upright(pixels, header.orientation)
        image = np.asarray(to_rgb(_by_pillow(data, header, scale, max_pixels)))
        return image if header.format == "tiff" else upright(image, header.orientation)

    def decode_pil(self, data: bytes, *, size: int | None = None, max_pixels: int = MAX_PIXELS) -> "Image.Image":
        """The image as a PIL image in its own mode, upright; see :func:`decode_pil`."""
        return self.pil(data, probe(data, max_pixels), size=size, max_pixels=max_pixels)

    def pil(
        self, data: bytes, header: ImageHeader, *, size: int | None = None, max_pixels: int = MAX_PIXELS
    ) -> "Image.Image":
        """What `decode_pil` returns; `header` is what ``probe`` gave."""
        scale = _scale(header, size)
        pixels = self._fast(data, header, scale) if header.is_rgb else None
        if pixels is not None:
            from PIL import Image

            return Image.fromarray(np.ascontiguousarray(upright(pixels, header.orientation)))
        image = _by_pillow(data, header, scale, max_pixels)
        return image if header.format == "tiff" else upright_pil(image, header.orientation)

    def _fast(self, data: bytes, header: ImageHeader, scale: int) -> Pixels | None:
        """The pixels by a decoder other than Pillow, or None where Pillow is to judge."""
        if not header.is_plain:
            return None
        if header.format == "bmp":
            return bitmap(data, header)
        chosen = {"jpeg": self.jpeg, "png": self.png, "webp": self.webp}.get(header.format, "pillow")
        if chosen == "pillow":
            return None
        if module(_MODULES[chosen]) is None:
            raise UsageError(f"{chosen} was chosen for {header.format} images, but is not installed; {_INSTALL}")
        return _CALLS[chosen](data, header, scale)


def _by_pillow(data: bytes, header: ImageHeader, scale: int, max_pixels: int) -> "Image.Image":
    if module("PIL") is None:
        raise UsageError(f"decoding images needs Pillow, which is not installed: {_INSTALL}")
    return load(data, header, scale, max_pixels)


def _version(name: str) -> str:
    return str(getattr(module(_MODULES[name]), "__version__", "missing"))


def _scale(header: ImageHeader, size: int | None) -> int:
    """The scale of 1, 2, 4, 8 at which a JPEG's shorter side is the least that is not below ``size``."""
    if size is not None and size < 1:
        raise UsageError(f"size is the shorter side that is wanted, in pixels: at least 1, not {size}")
    if size is None or header.format != "jpeg":
        return 1
    shorter = min(header.width, header.height)
    return next(scale for scale in (8, 4, 2, 1) if scale == 1 or shorter // scale >= size)


@cache
def best() -> Decoder:
    """The fastest decoders that are installed: the same every time in one environment.

    ::

        best()  # Decoder(jpeg='simplejpeg', png='opencv', webp='opencv')
    """
    if module("PIL") is None:
        raise UsageError(f"decoding images needs Pillow, which is not installed: {_INSTALL}")
    installed = {
        name: next(one for one in order if module(_MODULES[one]) is not None) for name, order in _PREFERRED.items()
    }
    return Decoder(**installed)


def decode(data: bytes, *, size: int | None = None, max_pixels: int = MAX_PIXELS) -> torch.Tensor:
    """An encoded image as a tensor of uint8, 3 x height x width, RGB, contiguous, by the fastest decoder installed.

    ::

        decode(Path("cat.jpg").read_bytes(), size=256)

    The EXIF orientation is honoured. With ``size`` a JPEG may be decoded at a half, a quarter or an eighth, which is
    much faster, as long as its shorter side stays at least ``size``; other formats come whole. Alpha is dropped. An
    image that is broken or cut short, or has more than ``max_pixels``, is a FormatError. Of several frames it is the
    first one.
    """
    return best().decode(data, size=size, max_pixels=max_pixels)


def decode_pil(data: bytes, *, size: int | None = None, max_pixels: int = MAX_PIXELS) -> "Image.Image":
    """The same as a PIL image, for transforms that want one, in the file's own mode: grey stays "L", a palette "P".

    ::

        decode_pil(Path("cat.jpg").read_bytes()).size
    """
    return best().decode_pil(data, size=size, max_pixels=max_pixels)
