"""Turns pixels upright by their EXIF orientation.

upright(pixels, 6)  # rows x columns x 3, a view: nothing is copied
"""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from PIL import Image

# orientation -> swap rows and columns first, then flip the rows, flip the columns
_TURNS = {
    1: (False, False, False),
    2: (False, False, True),
    3: (False, True, True),
    4: (False, True, False),
    5: (True, False, False),
    6: (True, False, True),
    7: (True, True, True),
    8: (True, True, False),
}
_TRANSPOSES = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}


def upright(pixels: np.ndarray[Any, Any], orientation: int) -> np.ndarray[Any, Any]:
    """A view of rows x columns x channels as they are to be seen."""
    swap, rows, columns = _TURNS[orientation]
    if swap:
        pixels = pixels.transpose(1, 0, 2)
    return pixels[:: -1 if rows else 1, :: -1 if columns else 1]


def upright_pil(image: "Image.Image", orientation: int) -> "Image.Image":
    """The image as it is to be seen; itself where there is nothing to turn."""
    if orientation == 1:
        return image
    from PIL import Image

    return image.transpose(Image.Transpose[_TRANSPOSES[orientation]])
