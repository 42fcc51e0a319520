"""Samples of one shard as another one takes them, their frames byte for byte: nothing is decoded or encoded.

for rows in pieces(layout.rows(memory), chosen):
    shard.add(copied(fd, rows, errors))
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.codecs.native_errors import raise_if_refused
from cordwood.native import _native
from cordwood.store.format.row_search import read_at
from cordwood.store.writing.encode import Encoded

_AT_ONCE = 16 << 20  # bytes

Rows = npt.NDArray[np.void]


def pieces(rows: Rows, chosen: npt.NDArray[np.bool_]) -> Iterator[Rows]:
    """The chosen ones of a shard's rows, about 16 MiB of frames at a time."""
    numbers = np.flatnonzero(chosen)
    sizes = (rows["offsets"][numbers, -1] - rows["offsets"][numbers, 0]).astype(np.int64)
    parts = np.cumsum(sizes) // _AT_ONCE
    for some in np.split(numbers, np.flatnonzero(np.diff(parts)) + 1):
        yield rows[some]


def copied(fd: int, rows: Rows, errors: tuple[float, ...]) -> Encoded:
    """The samples of these sound rows of the shard at `fd`; `errors` is the worst one of each lossy field."""
    frames: list[bytes] = []
    shapes: list[tuple[int, ...] | None] = []
    offsets = rows["offsets"].astype(np.int64)
    sizes = np.diff(offsets, axis=1)
    for places, of_frames in zip(offsets.tolist(), sizes.tolist(), strict=True):
        memory = bytes(read_at(fd, places[-1] - places[0], places[0]))
        for place, size in zip(places, of_frames, strict=False):
            frame = memory[place - places[0] : place - places[0] + size]
            shapes.append(_shape(frame) if size else None)
            frames.append(frame)
    columns, states = ([row.tobytes() for row in rows[part]] for part in ("columns", "states"))
    return Encoded(frames, sizes, shapes, columns, states, [errors] * len(rows))


def _shape(frame: bytes) -> tuple[int, ...]:
    header: Any = _native.parse(frame)
    raise_if_refused(header, "frame")
    shape: tuple[int, ...] = header["shape"]
    return shape
