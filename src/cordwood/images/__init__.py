"""One encoded image to pixels: told by its bytes, measured before it is decoded, turned upright.

    image = decode(data)                    # uint8, 3 x height x width, RGB
    image = decode(data, size=256)          # a JPEG may come at a half, a quarter, an eighth: never below 256
    header = probe(data)                    # ImageHeader(format='jpeg', width=4000, height=3000, orientation=6, ...)

``header`` reads sizes and the orientation from the first bytes, ``decoder`` chooses among the decoders that are
installed, ``pillow_decoder`` and ``fast_decoders`` call them, ``orientation`` turns what they give. JPEG, PNG, WebP,
BMP, GIF and TIFF are read; whatever else the bytes are is a FormatError.
"""

from cordwood.images.decoder import Decoder, best, decode, decode_pil
from cordwood.images.fast_decoders import planes
from cordwood.images.header import FORMATS, MOST_PIXELS, ImageHeader, probe

__all__ = ["FORMATS", "MOST_PIXELS", "Decoder", "ImageHeader", "best", "decode", "decode_pil", "planes", "probe"]
