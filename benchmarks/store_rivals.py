"""The other ways to keep a dataset, each read by its fastest documented way on two cores.

What pip installs without more ado is in the extra `bench`:

    pip install -c constraints.txt -e '.[bench]'

FFCV is built from source, and needs OpenCV's and TurboJPEG's headers (these are the commands for Debian):

    apt-get install libopencv-dev libturbojpeg0-dev pkg-config
    pip install -c constraints.txt numba opencv-python-headless pillow setuptools tqdm
    pip install --no-build-isolation --no-deps ffcv==1.0.2

(`--no-deps`, because it asks for `opencv-python`, which is the same module with windows.) A rival that does not import
is a line of the report that says so.

A rival packs samples into a folder and tells in which ways it can read them. Several ways are all timed, and the
fastest in each round is what counts. The in-process ways are given the same random batches of numbers; FFCV and LitData
have loaders with an order of their own, whose random order is used.
"""

from collections.abc import Sequence
from typing import Protocol

from benchmarks.harness import UnavailableError
from benchmarks.store_contest import Packer
from benchmarks.store_rivals_ffcv import Ffcv, FfcvArrays, FfcvBytes, FfcvFromDisk
from benchmarks.store_rivals_indexed import LightningMemoryMap, NumpyFile, OneFileEach, TensorDictMemory, ZippedFileEach
from benchmarks.store_rivals_loaders import LitData


class Rival(Packer, Protocol):
    """A way to keep a dataset."""

    def available(self) -> None:
        """UnavailableError if it is not installed."""


FFCV, LITDATA, TENSORDICT = Ffcv(), LitData(), TensorDictMemory()
LMDB, FILES, NUMPY = LightningMemoryMap(), OneFileEach(), NumpyFile()
FFCV_BYTES, FFCV_FROM_DISK, FFCV_ARRAYS, ZIPPED = FfcvBytes(), FfcvFromDisk(), FfcvArrays(), ZippedFileEach()

FOR_PHOTOGRAPHS: Sequence[Rival] = (FFCV, LITDATA, TENSORDICT, LMDB, NUMPY, FILES)
FOR_SMALL_SAMPLES: Sequence[Rival] = (FILES, LMDB, TENSORDICT, LITDATA, NUMPY)


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
