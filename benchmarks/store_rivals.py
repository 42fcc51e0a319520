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
from pathlib import Path
from typing import Protocol

from benchmarks.harness import UnavailableError
from benchmarks.store_data import Epoch, Samples
from benchmarks.store_rivals_indexed import LightningMemoryMap, NumpyFile, OneFileEach, TensorDictMemory
from benchmarks.store_rivals_loaders import Ffcv, LitData


class Rival(Protocol):
    """A way to keep a dataset."""

    name: str
    takes_all: bool  # False: so slow that a part of many small samples must do

    def available(self) -> None:
        """UnavailableError if it is not installed."""

    def pack(self, samples: Samples, folder: Path) -> None:
        """Write the samples; the folder is there, and empty."""

    def epochs(self, samples: Samples, folder: Path, batch: int) -> list[Epoch]:
        """All ways to read what `pack` wrote in random batches of this size."""


FFCV, LITDATA, TENSORDICT = Ffcv(), LitData(), TensorDictMemory()
LMDB, FILES, NUMPY = LightningMemoryMap(), OneFileEach(), NumpyFile()

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
