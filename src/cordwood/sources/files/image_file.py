"""Reads one image file as a sample needs it: pixels, a PIL image, or the bytes of the file.

    read = ImageReader(Path("photos"), SourceOptions(decode="pil"))
    read("cat/1.gif")
    read.more_frames    # whether that has frames behind the first one, which alone was read

A file that is no image, or a broken one, is a FormatError that names it by its path in the source.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cordwood import images
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.sources.base import SourceOptions
from cordwood.sources.files.links import Links, shown_path
from cordwood.sources.files.sniff import read_file

_BYTES_A_PIXEL = 8  # four channels of 16 bits: an encoded image has no more, beside its description
_DESCRIPTION = 64 << 20
FIELD = "image"


class ImageReader:
    """Reads images below a folder. The decoders are chosen when it is made, and are the same in every worker."""

    def __init__(self, root: Path, options: SourceOptions) -> None:
        self.more_frames = False
        self._root = root.absolute()
        self._links = Links(self._root, options.follow_links)
        self._options = options
        self._kept = FIELD in options.keep_encoded
        self._all_frames = options.frames == "all"
        if self._all_frames and (self._kept or options.decode == "none"):
            what = "a field with keep_encoded" if self._kept else 'decode="none"'
            raise UsageError(
                f'frames="all" (--frames all) is for images that are decoded when they are packed, and {what} keeps '
                "the bytes of the files, with all of their frames: leave one of the two out"
            )
        self._decoder = images.best() if options.decode != "none" or self._kept else None

    def __call__(self, path: str) -> Any:
        options = self._options
        try:
            if wrong := self._links.wrong(path):
                raise FormatError(wrong)
            data = read_file(self._root / path, _BYTES_A_PIXEL * options.max_pixels + _DESCRIPTION)
            return data if self._decoder is None else self._decoded(self._decoder, data)
        except FormatError as error:
            raise FormatError(f"{shown_path(path)}: {error}", error.reason) from error
        except StorageError as error:
            raise StorageError(error.errno, f"{shown_path(path)}: {error.strerror}") from error

    def _decoded(self, decoder: images.Decoder, data: bytes) -> Any:
        options = self._options
        header = images.probe(data, options.max_pixels)
        self.more_frames = header.frames > 1 and not self._all_frames
        if self._kept:
            # A broken one is found now, not in training. At an eighth of its size, which is quicker.
            decoder.pixels(data, header, size=1, max_pixels=options.max_pixels)
            return data
        to_tensor = options.decode == "tensor"
        if self._all_frames and header.frames > 1:
            frames = images.Frames(data, header, options.max_pixels)
            return frames.stacked() if to_tensor else list(frames)
        decode: Callable[..., Any] = decoder.tensor if to_tensor else decoder.pil
        image = decode(data, header, size=options.decode_size, max_pixels=options.max_pixels)
        if self._all_frames:
            return image[None] if to_tensor else [image]
        return image

    def describe(self) -> dict[str, Any]:
        """What the pixels depend on."""
        if self._decoder is None or self._kept:
            return {"decode": "none"}
        told: dict[str, Any] = {"decode": self._options.decode, "decoders": self._decoder.versions()}
        if self._all_frames:
            told["frames"] = "all"
        return told if self._options.decode_size is None else {**told, "decode_size": self._options.decode_size}
