"""Decodes images that a store keeps encoded, on threads, when they are read.

    arrays = decode_batches(leaf, encoded, per=64, seeds=None, delivery=PLAIN, threads=2, where=reader.shards.where)

The header of every image is read first, so memory for a batch is there before the first image is decoded, and each one
is written to its place by the thread that decoded it. The decoders release the GIL.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from cordwood.codecs import DTYPES
from cordwood.common.forks import in_child
from cordwood.errors import FormatError
from cordwood.images import Decoder, ImageHeader, best, planes, probe
from cordwood.native import _native
from cordwood.store.reading.buffers import check_memory
from cordwood.store.reading.image_treatment import Seeds, Shape, Treated, Treatment
from cordwood.store.reading.reader import Arrays, ReadOptions
from cordwood.store.schema.schema import Leaf
from cordwood.store.values.arrays import known

Encoded = Sequence[bytes | None]
Locate = Callable[[int], str]  # in which words a sample of the read is told of, by its place in it
CHANNELS = 3

_pools: dict[int, ThreadPoolExecutor] = {}


def decode_batches(
    leaf: Leaf, encoded: Encoded, per: int, seeds: Seeds | None, delivery: ReadOptions, threads: int, where: Locate
) -> list[Arrays]:
    """The images of several batches of `per` samples (0: each sample by itself): a tensor a batch, or a list of some.

    ::

        decode_batches(leaf, [jpeg, None, png], 0, None, PLAIN, 2, where)    # [[tensor, None, tensor]]
    """
    count = len(encoded)
    headers = [None if data is None else _header(data, where, i) for i, data in enumerate(encoded)]
    shapes: list[Shape | None] = [None if header is None else (CHANNELS, *header.upright) for header in headers]
    treatment = delivery.treatments.get(leaf.frame)
    treated = None
    if treatment is not None and any(shape is not None for shape in shapes):
        treated = treatment.of(leaf.name, "uint8", shapes, seeds)
    finish = _Finish(treatment, treated)
    sizes = [None if shape is None else finish.shape(shape) for shape in shapes]
    check_memory(
        (sum(int(np.prod(size)) for size in sizes if size is not None),),
        finish.carrier.itemsize,
        "field %r of %d samples",
        leaf.name,
        count,
    )
    arrays: list[Arrays] = []
    outs: list[npt.NDArray[Any] | None] = []
    for start in range(0, count, per or count or 1):
        batch = sizes[start : start + (per or count)]
        if per and batch[0] is not None and all(size == batch[0] for size in batch):
            tensor, memory = delivery.allocate((len(batch), *batch[0]), finish.carrier, known(finish.dtype))
            arrays.append(finish.seen(tensor))
            outs += list(memory)
        else:
            each = [
                None if size is None else delivery.allocate(size, finish.carrier, known(finish.dtype)) for size in batch
            ]
            arrays.append([None if one is None else finish.seen(one[0]) for one in each])
            outs += [None if one is None else one[1] for one in each]
    one_image = partial(_decode, best(), finish, encoded, headers, outs, where)
    wanted = [i for i, out in enumerate(outs) if out is not None]
    if threads == 1 or len(wanted) <= 1:
        for i in wanted:
            one_image(i)
    else:
        list(_pool(threads).map(one_image, wanted))  # the first that failed is the first in order
    return arrays


class _Finish:
    """What is done with pixels on the way to their place, and what that place is like."""

    def __init__(self, treatment: Treatment | None, treated: Treated | None) -> None:
        self._treated = treated
        self.dtype = "uint8" if treated is None else treated.dtype
        self.carrier = DTYPES[self.dtype].numpy
        normalize, _, self._last, self._boxes, height, width, *_ = (
            (None, False, False, None, 0, 0) if treated is None else treated.native
        )
        self._size = height, width
        self._fill = 0.0 if treatment is None else treatment.fill
        # The result for every byte, a row a channel; one row where all channels have the same.
        self._table = None if normalize is None else np.frombuffer(normalize[0], self.carrier).reshape(-1, 256)

    def shape(self, stored: Shape) -> Shape:
        return stored if self._treated is None else self._treated.shape(stored)

    def seen(self, tensor: Any) -> Any:
        """As the caller sees it: channels in front of height and width, wherever they are in memory."""
        return tensor.movedim(-1, -3) if self._treated is not None and self._treated.channels_last else tensor

    def __call__(self, pixels: npt.NDArray[np.uint8], at: int, out: npt.NDArray[Any]) -> None:
        """Put an image of rows x columns x 3 to its place."""
        if self._boxes is not None:
            part = np.empty((1, CHANNELS, *self._size), np.uint8)
            box = self._boxes[at : at + 1]
            _native.resize(np.ascontiguousarray(pixels)[np.newaxis], box, part, True, self._fill, 1)
            pixels = part[0].transpose(1, 2, 0)
        if self._table is not None:
            channels = out.transpose(2, 0, 1) if self._last else out
            for channel, values in enumerate(channels):
                table = self._table[min(channel, len(self._table) - 1)]
                values[...] = table.take(pixels[:, :, channel], mode="clip")
        elif self._last:
            np.copyto(out, pixels)
        else:
            planes(pixels, out)


def _header(data: bytes, where: Locate, at: int) -> ImageHeader:
    try:
        return probe(data)
    except FormatError as error:
        raise _named(error, where, at) from None


def _decode(
    decoder: Decoder,
    finish: _Finish,
    encoded: Encoded,
    headers: Sequence[ImageHeader | None],
    outs: Sequence[npt.NDArray[Any] | None],
    where: Locate,
    at: int,
) -> None:
    data, header, out = encoded[at], headers[at], outs[at]
    if data is None or header is None or out is None:
        return
    try:
        pixels = decoder.pixels(data, header)
        if pixels.shape[:2] != header.upright:
            raise FormatError(
                f"the {header.format} image says that it is {header.width} x {header.height}, but it has "
                f"{pixels.shape[1]} x {pixels.shape[0]} pixels"
            )
    except FormatError as error:
        raise _named(error, where, at) from None
    finish(pixels, at, out)


def _named(error: FormatError, where: Locate, at: int) -> FormatError:
    return FormatError(f"{where(at)}: {error}", error.reason)


def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that are kept, since making some takes longer than decoding a small image."""
    pool = _pools.get(threads)
    if pool is None:
        pool = _pools.setdefault(threads, ThreadPoolExecutor(threads, "cordwood-decode"))
    return pool


in_child(_pools.clear)  # threads do not follow into a forked process
