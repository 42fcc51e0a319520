"""Decodes by Pillow: every format, every kind of pixel. Pillow decides whether an image is broken.

    image = load(data, header, scale=1, max_pixels=MAX_PIXELS)  # a PIL image in the file's own mode, not yet turned
    to_rgb(image)

The plugin is chosen here, by the format that ``probe`` saw, so that bytes from outside reach none of Pillow's other
plugins, and the limit on pixels is the caller's instead of Pillow's own.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from cordwood.errors import FormatError
from cordwood.images.header import ImageHeader, check_size

if TYPE_CHECKING:
    from PIL import Image, ImageFile

# format -> where Pillow reads it
_PLUGINS = {
    "bmp": ("PIL.BmpImagePlugin", "BmpImageFile"),
    "gif": ("PIL.GifImagePlugin", "GifImageFile"),
    "jpeg": ("PIL.JpegImagePlugin", "JpegImageFile"),
    "png": ("PIL.PngImagePlugin", "PngImageFile"),
    "tiff": ("PIL.TiffImagePlugin", "TiffImageFile"),
    "webp": ("PIL.WebPImagePlugin", "WebPImageFile"),
}


def load(data: bytes, header: ImageHeader, scale: int, max_pixels: int) -> "Image.Image":
    """The first frame of an image, in its own mode.

    ::

        load(data, probe(data), 2, MAX_PIXELS)  # a JPEG at half its size

    TIFF images come upright: Pillow turns them while it loads them.
    """
    with refusing(data, header):
        image = opened(data, header)
        check_size(header.format, image.width, image.height, max_pixels)
        if scale > 1:
            image.draft(image.mode, (image.width // scale, image.height // scale))
        image.load()
        return image


def opened(data: bytes, header: ImageHeader) -> "ImageFile.ImageFile":
    """The image, of which nothing is decoded yet."""
    module, plugin = _PLUGINS[header.format]
    image: ImageFile.ImageFile = getattr(import_module(module), plugin)(io.BytesIO(data))
    return image


@contextmanager
def refusing(data: bytes, header: ImageHeader) -> Iterator[None]:
    """Turn what Pillow raises into a FormatError."""
    try:
        yield
    except FormatError:
        raise
    except Exception as error:  # plugins raise whatever their parsing runs into; the bytes are to blame
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise FormatError(f"the {header.format} image of {len(data)} bytes cannot be decoded: {why}") from error


def to_rgb(image: "Image.Image") -> "Image.Image":
    """The image in RGB as ``convert("RGB")`` gives it, except that 16-bit grey keeps its upper byte.

    Pillow would cut 16-bit grey off at 255, which leaves a white image. Samples of 32 bits have no such reading and are
    refused.
    """
    if image.mode == "RGB":
        return image
    if image.mode.startswith("I;16"):
        import numpy as np
        from PIL import Image

        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
    if image.mode in ("I", "F"):
        raise FormatError(
            f"the image has samples of 32 bits (mode {image.mode}), which do not fit into uint8; take PIL images "
            f'(decode="pil") or the bytes (decode="none") in your transform'
        )
    # Alpha is dropped, not blended, and a palette's transparency with it: Pillow warns of it unless it is gone.
    image.info.pop("transparency", None)
    return image.convert("RGB")
