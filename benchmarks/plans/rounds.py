"""A process that packs and reads photographs with one version of the package, turn by turn.

    with Turns(source, photographs, folder) as turns:
        turns.seconds("pack"), turns.seconds("read")

The process imports `cordwood` from `source`, and from this folder only what every version can run.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import numpy as np

from benchmarks.harness.timing import MismatchError

ROOT = Path(__file__).resolve().parent.parent.parent
BATCH = 64
READS = 10  # passes of a turn: one alone is shorter than an interruption


class Turns:
    """The process, as seen from outside."""

    def __init__(self, source: Path, photographs: Path, folder: Path) -> None:
        command = [sys.executable, "-m", "benchmarks.plans.rounds", str(photographs), str(folder)]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(ROOT)]), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.bytes = 0
        place = self._answer()
        if not Path(place).is_relative_to(source):
            self.close()
            raise MismatchError(f"the package of {source} was to be measured, and that of {place} was imported")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the process, and wait for it."""
        self._process.communicate()  # which closes its input, the sign to end

    def seconds(self, word: str) -> float:
        """How long a pass over all photographs took, on average of a turn."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        seconds, size = self._answer().split()
        self.bytes = int(size)
        return float(seconds)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            self.close()
            raise MismatchError(f"the process that packs and reads ended with {self._process.returncode}")
        return line


class Photographs:
    """A map-style dataset in memory."""

    def __init__(self, file: str) -> None:
        self.rows = np.load(file)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"image": self.rows[number]}


def main(file: str, folder: str) -> None:
    """The process's side."""
    import cordwood as cw

    photographs = Photographs(file)
    store = Path(folder) / "photographs.cordwood"
    print(cw.__file__, flush=True)
    for word in map(str.strip, sys.stdin):
        if word == "pack":
            shutil.rmtree(store, ignore_errors=True)
            start = time.perf_counter()
            cw.pack(photographs, store, workers=0, progress=False)
        else:
            dataset = cw.open(store, threads=1)
            start = time.perf_counter()
            for _ in range(READS):
                for at in range(0, len(photographs), BATCH):
                    last = dataset[list(range(at, min(at + BATCH, len(photographs))))]["image"][-1]
        seconds = (time.perf_counter() - start) / (READS if word == "read" else 1)
        if word == "read" and not np.array_equal(np.asarray(last), photographs.rows[-1]):
            raise MismatchError("what was read is not what was packed")
        size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        print(seconds, size, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
