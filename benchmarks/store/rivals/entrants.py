"""The other ways to keep a dataset, each read by its fastest documented way on two cores.

`make bench` installs them into an environment of their own. FFCV is built from source, and needs OpenCV's and
TurboJPEG's headers, which are the system's (this is the command for Debian):

    apt-get install g++ pkg-config libopencv-dev libturbojpeg0-dev

A rival that does not import is a line of the report that says so.

A rival packs samples into a folder and tells in which ways it can read them. Several ways are all timed, and the
fastest in each round is what counts. The in-process ways are given the same random batches of numbers; FFCV,
LitData and WebDataset have loaders with an order of their own, whose random order is used.
"""

from collections.abc import Sequence
from typing import Protocol

from benchmarks.harness.timing import UnavailableError
from benchmarks.store.contest import Packer
from benchmarks.store.rivals.ffcv import Ffcv, FfcvArrays, FfcvBytes, FfcvDefault, FfcvFromDisk
from benchmarks.store.rivals.indexed import (
    HierarchicalFile,
    LightningMemoryMap,
    NumpyFile,
    OneFileEach,
    TensorDictMemory,
    ZippedFileEach,
)
from benchmarks.store.rivals.loaders import LitData, WebDataset


class Rival(Packer, Protocol):
    """A way to keep a dataset."""

    def available(self) -> None:
        """UnavailableError if it is not installed."""


FFCV, LITDATA, TENSORDICT = Ffcv(), LitData(), TensorDictMemory()
WEBDATASET, HDF5 = WebDataset(), HierarchicalFile()
LMDB, FILES, NUMPY = LightningMemoryMap(), OneFileEach(), NumpyFile()
FFCV_BYTES, FFCV_FROM_DISK, FFCV_ARRAYS, ZIPPED = FfcvBytes(), FfcvFromDisk(), FfcvArrays(), ZippedFileEach()

FOR_PHOTOGRAPHS: Sequence[Rival] = (FFCV, LITDATA, TENSORDICT, LMDB, HDF5, WEBDATASET, NUMPY, FILES, ZIPPED)
FOR_SMALL_SAMPLES: Sequence[Rival] = (FILES, ZIPPED, LMDB, HDF5, TENSORDICT, LITDATA, WEBDATASET, NUMPY)
FOR_CURVES: Sequence[Rival] = (
    FfcvDefault(),
    TENSORDICT,
    LightningMemoryMap(readahead=True),
    HDF5,
    LITDATA,
    WEBDATASET,
    FILES,
    ZIPPED,
)  # as they are unless told otherwise: where everything that is read fits into memory, reading ahead is good
FEW = 256  # photographs as zipped files, which are slow to write and to read
FEW_SMALL = 1024  # small samples as such files


def installed(rivals: Sequence[Rival]) -> tuple[list[Rival], dict[str, str]]:
    """Those that can run, and for the others why they cannot."""
    here: list[Rival] = []
    missing: dict[str, str] = {}
    for rival in rivals:
        try:
            rival.available()
        except UnavailableError as reason:
            missing[rival.name] = f"{rival.name}: {reason}"
        else:
            here.append(rival)
    return here, missing
