"""What is done to an image between the store and a batch: crop and resize, convert to floats, channels last.

    Treatment(normalize=Normalize(mean, std), channels_last=True)

All of it happens while a sample is decoded, in the thread that decodes it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cordwood.codecs import Normalize
from cordwood.errors import UsageError

Seeds = npt.NDArray[np.uint64]
Lengths = int | npt.NDArray[np.int64]
# Of the images' heights and widths and the samples' seeds: which parts, [samples, 5] of top, left, height, width and
# mirrored, and the height and width in which they arrive.
Draw = Callable[[Lengths, Lengths, Seeds], tuple[npt.NDArray[np.int64], tuple[int, int]]]
Shape = tuple[int, ...]

_FEW_CHANNELS = 4


class Treated(NamedTuple):
    """As the native call takes it, and what comes out of it."""

    native: tuple[Any, ...]
    dtype: str
    shape: Callable[[Shape], Shape]  # in memory, of an image's shape as it is stored
    channels_last: bool  # in memory they are, and shall not seem to be


@dataclass(frozen=True)
class Treatment:
    """Which parts are cut out (`draw`), what is outside of the image, whether bytes become floats, and the layout."""

    normalize: Normalize | None = None
    channels_last: bool = False
    draw: Draw | None = None
    fill: float = 0.0
    _layout: list[bool] = field(default_factory=list, compare=False, repr=False)

    def of(self, name: str, stored: str, shapes: "Shape | list[Shape | None]", seeds: Seeds | None) -> Treated | None:
        """What to tell the native call about images of this shape (or of these, one a sample); None: nothing."""
        each = (
            [shapes] if isinstance(shapes, tuple) else [*dict.fromkeys(shape for shape in shapes if shape is not None)]
        )
        if not self.named and (any(len(shape) != 3 for shape in each) or stored.startswith("complex")):
            return None  # channels last is asked of whatever has channels
        for one in each:
            self.check(name, stored, one)
        last = self._stored_last(each[0])
        self._check_layout(name, each, last)
        out_last = last or self.channels_last
        output = stored if self.normalize is None else self.normalize.output(None)
        boxes, size, source = None, (0, 0), (0, 0)
        if self.draw is not None:
            if seeds is None:
                raise UsageError(f"field {name!r}: its parts are drawn by seeds, and none were given")
            height, width = _sides(shapes, last)
            boxes, size = self.draw(height, width, seeds)
            if isinstance(height, int) and isinstance(width, int):
                source = height, width  # an image of another size would be cut by a box that is not its own
        native = (
            None if self.normalize is None else self.normalize.native(output),
            last,
            out_last,
            boxes,
            *size,
            *source,
            self.fill,
        )

        def shape(source: Shape) -> Shape:
            channels, (height, width) = source[2 if last else 0], source[:2] if last else source[1:]
            if boxes is not None:
                height, width = size
            return (height, width, channels) if out_last else (channels, height, width)

        return Treated(native, output, shape, self.channels_last)

    def check(self, name: str, stored: str, shape: Shape) -> None:
        """UsageError if an array of this dtype and shape cannot be treated so."""
        if len(shape) != 3:
            raise UsageError(
                f"field {name!r} has shape {shape}, but images have three dimensions: channels, height and width (or "
                "the channels last)"
            )
        if self.normalize is not None:
            if stored != "uint8":
                raise UsageError(
                    f"normalize: field {name!r} is stored as {stored}; only uint8 is normalised while it is decoded. "
                    "Use transform= for floats, or leave normalize out if they are normalised already"
                )
            channels = len(self.normalize.mean)
            if channels > 1 and channels not in (shape[0], shape[2]):
                raise UsageError(
                    f"normalize: {channels} means for field {name!r}, which has shape {shape}: neither its first nor "
                    "its last dimension has as many channels"
                )
        if self.draw is not None and stored not in ("uint8", "float32"):
            raise UsageError(f"augment: field {name!r} is stored as {stored}; images of uint8 and float32 are resized")

    def _check_layout(self, name: str, shapes: list[Shape], last: bool) -> None:
        channels = len(self.normalize.mean) if self.normalize is not None else 1
        for shape in shapes:
            if channels > 1 and shape[2 if last else 0] != channels:
                raise UsageError(
                    f"normalize: field {name!r} has images with the channels in front and others with them last, such "
                    f"as {shape}: store them alike, or use sample_transform="
                )

    @property
    def named(self) -> bool:
        """Whether the field was named as one of images, and not only asked for its channels."""
        return self.normalize is not None or self.draw is not None

    def _stored_last(self, shape: Shape) -> bool:
        """Whether the channels are the last dimension; the first shape that is seen decides for the field."""
        if not self._layout:
            channels = len(self.normalize.mean) if self.normalize is not None else 1
            last = shape[0] != channels if channels > 1 else shape[2] <= _FEW_CHANNELS < shape[0]
            self._layout.append(last and self.named)
        return self._layout[0]


def _sides(shapes: "Shape | list[Shape | None]", last: bool) -> tuple[Lengths, Lengths]:
    at = 0 if last else 1
    if isinstance(shapes, tuple):
        return shapes[at], shapes[at + 1]
    # A sample that lacks the field gets a box of something that is never looked at.
    some = next(shape for shape in shapes if shape is not None and len(shape) == 3)
    known = [shape if shape is not None and len(shape) == 3 else some for shape in shapes]
    return np.array([shape[at] for shape in known]), np.array([shape[at + 1] for shape in known])
