"""Reads arrays from `.npy` and `.npz` files without trusting them.

    load_numpy(Path("features.npz"))  # {"x": tensor, "names": ["a", "b"]}

A `.npy` file is a short text that tells dtype and shape, and the array's bytes. What it tells is held against the bytes
that are there before anything is reserved, and pickled objects are refused: they may run code.
"""

import io
import math
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch

from cordwood.errors import FormatError
from cordwood.tensors import Allotment, Archive, ByteSource, is_zip, open_source

NUMPY_MAGIC: Final = b"\x93NUMPY"
_LONGEST_HEADER = 1 << 16
_MOST_DIMENSIONS = 64
_WORTH_MAPPING = 1 << 20
_TEXT = "SU"


def is_numpy(first: bytes, ending: str) -> bool:
    """Whether a file that begins so is a `.npy` or an `.npz`; an archive of arrays is told by its ending."""
    return first.startswith(NUMPY_MAGIC) or (is_zip(first) and ending.lower() == ".npz")


def load_numpy(path: Path) -> Any:
    """A `.npy` file's tensor, or the dict of an `.npz` file's; arrays of text become lists."""
    with open_source(path) as source:
        if not is_zip(bytes(source.read(0, min(4, source.size)))):
            return _value(_array(source, source.name), source.name)
        archive = Archive(source)
        allotment = Allotment(None)
        found: dict[str, Any] = {}
        for name, entry in archive.entries.items():
            where = f"{source.name}: {name}"
            if not name.endswith(".npy"):
                raise FormatError(f"{where}: an .npz archive holds .npy files only")
            allotment.take(entry.size, where)
            part = open_source(memoryview(archive.read(entry, entry.size)))
            found[name.removesuffix(".npy")] = _value(_array(part, where), where)
        return found


def _array(source: ByteSource, where: str) -> npt.NDArray[Any]:
    """The array of a `.npy` file, over its bytes."""
    head = io.BytesIO(bytes(source.read(0, min(source.size, _LONGEST_HEADER))))
    shape, fortran, dtype = _header(head, where)
    if dtype.hasobject or dtype.kind == "V":
        raise FormatError(
            f"{where}: the array is of {str(dtype)[:100]}, and only plain numbers, bools and text are read: objects "
            "are pickles that may run code, and records have no tensor"
        )
    start = head.tell()
    wanted = math.prod(shape) * dtype.itemsize
    if not dtype.itemsize:
        raise FormatError(f"{where}: the array is of {dtype}, whose values have no bytes")
    if len(shape) > _MOST_DIMENSIONS or any(side < 0 for side in shape) or wanted != source.size - start:
        raise FormatError(
            f"{where}: an array of {str(dtype)[:100]}, shape {str(shape)[:100]}, has {wanted} bytes, but "
            f"{source.size - start} follow the header: the file is cut short or damaged"
        )
    mapped = source.path is not None and source.size >= _WORTH_MAPPING
    data = source.map_private() if mapped else bytearray(source.read(start, wanted))
    flat = np.frombuffer(data, dtype, math.prod(shape), start if mapped else 0) if wanted else np.empty(0, dtype)
    try:
        return flat.reshape(shape, order="F" if fortran else "C")
    except (ValueError, OverflowError) as error:  # nothing times very much
        raise FormatError(f"{where}: an array of shape {str(shape)[:100]} cannot be: {error}") from error


def _header(head: io.BytesIO, where: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(head)
        if version not in ((1, 0), (2, 0)):
            raise FormatError(f"{where}: version {version} of the .npy format is not known, 1.0 and 2.0 are")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(head)
    except FormatError:
        raise
    except Exception as error:  # the header is a Python literal: parsing a hostile one may fail in any way
        raise FormatError(f"{where}: the header of the .npy file cannot be read: {str(error)[:200]}") from error
    return shape, bool(fortran), dtype


def _value(array: npt.NDArray[Any], where: str) -> Any:
    """A tensor, or lists of text."""
    if array.dtype.kind in _TEXT:
        if array.dtype.kind == "U" and array.size:
            codes = np.ascontiguousarray(array).view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
            if codes.max() > sys.maxunicode:  # NumPy would hand them to Python as they are
                raise FormatError(f"{where}: the text in it is damaged: {codes.max():#x} is no character")
        return array.tolist()
    try:
        return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))
    except TypeError as error:
        raise FormatError(f"{where}: torch has no dtype for an array of {array.dtype}") from error
