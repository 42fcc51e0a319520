"""Reads one image file as a sample needs it: pixels, a PIL image, or the bytes of the file.

    ImageReader(Path("photos"), SourceOptions(decode="pil"))("cat/1.jpg")

A file that is no image, or a broken one, is a FormatError that names it by its path in the source.
"""

import os
from pathlib import Path
from typing import Any

from cordwood import images
from cordwood.errors import FormatError, StorageError
from cordwood.sources.base import SourceOptions
from cordwood.sources.files.sniff import read_file

_BYTES_A_PIXEL = 8  # four channels of 16 bits: an encoded image has no more, beside its description
_DESCRIPTION = 64 << 20
FIELD = "image"


class ImageReader:
    """Reads images below a folder. The decoders are chosen when it is made, and are the same in every worker."""

    def __init__(self, root: Path, options: SourceOptions) -> None:
        self._root = root.absolute()
        self._options = options
        self._kept = FIELD in options.keep_encoded
        self._decoder = images.best() if options.decode != "none" or self._kept else None

    def __call__(self, path: str) -> Any:
        options = self._options
        try:
            data = read_file(self._root / path, _BYTES_A_PIXEL * options.max_pixels + _DESCRIPTION)
            if self._decoder is None:
                return data
            if self._kept:
                # A broken one is found now, not in training. At an eighth of its size, which is quicker.
                self._decoder.decode(data, size=1, max_pixels=options.max_pixels)
                return data
            decode = self._decoder.decode if options.decode == "tensor" else self._decoder.decode_pil
            return decode(data, size=options.decode_size, max_pixels=options.max_pixels)
        except FormatError as error:
            raise FormatError(f"{shown_path(path)}: {error}", error.reason) from error
        except StorageError as error:
            raise StorageError(error.errno, f"{shown_path(path)}: {error.strerror}") from error

    def describe(self) -> dict[str, Any]:
        """What the pixels depend on."""
        if self._decoder is None or self._kept:
            return {"decode": "none"}
        told = {"decode": self._options.decode, "decoders": self._decoder.versions()}
        return told if self._options.decode_size is None else {**told, "decode_size": self._options.decode_size}


def shown_path(path: str) -> str:
    """A path for messages, which may not be text."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
