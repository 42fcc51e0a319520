"""Puts arrays of different shapes into one padded tensor, with the lengths of the real values.

>>> padded = pad([torch.tensor([1, 2, 3]), None, torch.tensor([4])], fill=-100)
>>> padded.values
tensor([[   1,    2,    3],
        [-100, -100, -100],
        [   4, -100, -100]])
>>> padded.lengths
tensor([3, 0, 1])
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from cordwood.common.text import brief
from cordwood.errors import UsageError

Shape = tuple[int, ...]
NewTensor = Callable[[Shape, torch.dtype], torch.Tensor]
Fill = bool | int | float


class Padded(NamedTuple):
    """A field of a batch whose samples have different shapes, filled up to the largest.

    ::

        loader = cw.Loader(ds, batch_size=32, collate={"tokens": "pad"})
        for batch in loader:
            tokens, lengths = batch["tokens"]
            loss = model(tokens, key_padding_mask=~batch["tokens"].mask)

    `values` has the samples along its first dimension. `lengths` are int64: one a sample where samples have one
    dimension, a row of sizes a sample where they have more. A sample without the field has length 0.
    """

    values: torch.Tensor
    lengths: torch.Tensor

    @property
    def mask(self) -> torch.Tensor:
        """True where a value is of the sample, False where it was filled in; of the shape of `values`."""
        sizes = self.lengths.reshape(len(self.lengths), -1)
        made = torch.ones_like(self.values, dtype=torch.bool)
        for dimension, most in enumerate(self.values.shape[1:]):
            inside = torch.arange(most, device=sizes.device) < sizes[:, dimension : dimension + 1]
            others = [1] * (made.ndim - 1)
            others[dimension] = most
            made &= inside.reshape(len(sizes), *others)
        return made


def pad_shape(shapes: Iterable[Sequence[int] | None], field: str = "value") -> Shape:
    """The smallest shape that holds all of these; None is of a sample without the field."""
    found = [tuple(shape) for shape in shapes if shape is not None]
    if not found:
        return (0,)
    ranks = sorted({len(shape) for shape in found})
    if ranks[0] == 0:
        raise UsageError(
            f"field {field!r} holds single numbers, which have no length to pad: leave it out of collate, or ask for "
            "'list'"
        )
    if len(ranks) > 1:
        raise UsageError(
            f"field {field!r} cannot be padded: samples of a batch have {' and '.join(map(str, ranks))} dimensions, "
            "such as "
            + " and ".join(str(next(shape for shape in found if len(shape) == rank)) for rank in ranks)
            + "; ask for 'list', or give them the same number of dimensions in sample_transform"
        )
    return tuple(map(max, zip(*found, strict=True)))


def lengths_of(shapes: Sequence[Sequence[int] | None], dimensions: int) -> torch.Tensor:
    """The sizes of every sample as :class:`Padded` has them."""
    nothing = (0,) * dimensions
    made = torch.tensor([nothing if shape is None else tuple(shape) for shape in shapes], dtype=torch.int64)
    return made.reshape(len(shapes), dimensions) if dimensions > 1 else made.reshape(len(shapes))


def pad(values: Any, fill: Fill = 0, field: str = "value", new: NewTensor | None = None) -> Padded:
    """One tensor of all samples of a field, filled up with `fill`.

    `values` is a tensor of all samples, which is taken as it is, or has a tensor, array, list of numbers or None a
    sample. `new` gives the memory (default: ordinary memory of torch).
    """
    if isinstance(values, torch.Tensor):
        shapes: list[Shape | None] = [tuple(values.shape[1:])] * len(values)
        return Padded(values, lengths_of(shapes, len(pad_shape(shapes, field))))
    samples = [None if value is None else as_array(value, field) for value in values]
    shapes = [None if sample is None else tuple(sample.shape) for sample in samples]
    largest = pad_shape(shapes, field)
    # An empty list of Python has no dtype; if nothing has one, that of what is filled in must do.
    dtypes = [
        one.dtype
        for one, value in zip(samples, values, strict=True)
        if one is not None and (one.numel() or not isinstance(value, list | tuple))
    ]
    dtype = reduce(torch.promote_types, dtypes) if dtypes else torch.tensor(fill).dtype
    check_fill(fill, dtype, field)
    made = (new or _ordinary)((len(samples), *largest), dtype).fill_(fill)
    for row, sample in zip(made, samples, strict=True):
        if sample is not None:
            row[tuple(map(slice, sample.shape))] = sample
    return Padded(made, lengths_of(shapes, len(largest)))


def as_array(value: Any, field: str) -> torch.Tensor:
    """What a sample holds, as a tensor that can be padded."""
    if isinstance(value, torch.Tensor):
        return value
    try:
        return from_numpy(np.asarray(value))
    except (TypeError, ValueError):
        raise UsageError(
            f"field {field!r} cannot be padded: a sample holds {brief(value)}, and what is padded are tensors, arrays "
            "and lists of numbers"
        ) from None


def from_numpy(array: npt.NDArray[Any]) -> torch.Tensor:
    """The tensor of an array's memory, or of a copy where torch cannot take it; TypeError if it holds no numbers."""
    usable = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return torch.from_numpy(array if usable else array.copy())


def check_fill(fill: Fill, dtype: torch.dtype, field: str) -> None:
    """UsageError if a tensor of that dtype cannot hold the value."""
    if dtype is torch.bool:
        fits = fill in (0, 1)
    elif dtype.is_floating_point or dtype.is_complex:
        fits = abs(fill) <= torch.finfo(dtype).max or (isinstance(fill, float) and not math.isfinite(fill))
    else:
        known = torch.iinfo(dtype)
        fits = known.min <= fill <= known.max and fill == int(fill)
    if not fits:
        raise UsageError(
            f"field {field!r} holds {str(dtype).removeprefix('torch.')}, which cannot be filled with {fill}"
        )


def _ordinary(shape: Shape, dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype)
