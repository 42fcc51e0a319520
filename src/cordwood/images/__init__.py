"""Decodes one image from bytes.

    image = decode(data)                    # uint8, 3 x height x width, RGB
    image = decode(data, size=256)          # a JPEG may come at a half, a quarter, an eighth: never below 256
    image = decode_pil(data)                # a PIL image in the file's own mode
    header = probe(data)                    # ImageHeader(format='jpeg', width=4000, height=3000, orientation=6, ...)
    Frames(data, header, MAX_PIXELS)        # all frames of an image that has several

How an image is decoded:

1. ``header``: bytes -> format, size, orientation (``exif``) and number of frames, checked before a decoder sees the
   bytes.
2. ``decoder``: the format -> the fastest installed decoder for it.
3. ``fast_decoders``: bytes -> pixels by simplejpeg or OpenCV, or None if the bytes are unusual.
4. ``pillow_decoder``: bytes -> pixels by Pillow, for everything else; it decides whether an image is broken.
5. ``orientation``: pixels -> pixels turned upright.

Of an animation, or a TIFF of several pages, that is the first frame; ``frames`` has all of them.

JPEG, PNG, WebP, BMP, GIF and TIFF are read; anything else is a FormatError. Imports only ``errors``; used by
``sources``, ``store`` and ``demo``.

Where to add things:

* A decoder: a function in ``fast_decoders.py`` that returns None where Pillow shall decide; its name in ``_CALLS``,
  ``_MODULES`` and ``_PREFERRED`` of ``decoder.py``, and in ``DECODERS`` of tests/images/pictures.py.
* A format: ``sniff`` and a reader of its size in ``header.py``, a plug-in of Pillow in ``_PLUGINS`` of
  ``pillow_decoder.py``, and ``WRITABLE`` of tests/images/pictures.py.
"""

from cordwood.images.decoder import Decoder, best, decode, decode_pil
from cordwood.images.fast_decoders import planes
from cordwood.images.frames import Frames
from cordwood.images.header import FORMATS, MAX_PIXELS, ImageHeader, probe, sniff

__all__ = [
    "FORMATS",
    "MAX_PIXELS",
    "Decoder",
    "Frames",
    "ImageHeader",
    "best",
    "decode",
    "decode_pil",
    "planes",
    "probe",
    "sniff",
]
