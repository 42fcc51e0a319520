"""Stands in for a training step: uses the cores between two batches, as training does.

    consumer = Consumer(busy_ms=38.0)
    for batch in loader:
        consumer.work()

A loader that is tried with a loop that only waits would promise too much: workers and training share the cores. So
the stand-in does a fixed amount of work, as much as takes ``busy_ms`` where nothing else runs, on as many threads as
PyTorch uses; where a loader takes cores away from it, it takes longer, as training would.
"""

import math
import time
from typing import TYPE_CHECKING

import torch

from cordwood.doctor.evidence.findings import Abstain

if TYPE_CHECKING:
    from cordwood.doctor.evidence.evidence import Evidence

_SIDE = 256  # of the matrices: small enough for fine steps, large enough for PyTorch to use its threads
_WARM_SECONDS = 0.05
_TURN_SECONDS = 0.02
_TURNS = 7


class Consumer:
    """Work for the cores (or for a device) that takes about ``busy_ms`` a call.

    Amounts that are no multiple of the smallest piece of work are made up for in the next calls. No random number is
    drawn, and no gradient is kept. Asked to work after ``end`` (of `time.perf_counter`), it abstains: on a busy machine
    a trial could take many times as long as it may.
    """

    def __init__(self, busy_ms: float, device: str | torch.device = "cpu", end: float = math.inf) -> None:
        self.busy_ms = max(busy_ms, 0.0)
        self._end = end
        self.device = torch.device(device)
        side = torch.arange(_SIDE * _SIDE, dtype=torch.float32).reshape(_SIDE, _SIDE)
        self._left = (side.remainder(7.0) / 7.0).to(self.device)
        self._right = (side.remainder(5.0) / 5.0).to(self.device)
        self._result = torch.empty_like(self._left)
        self.piece_ms = self._calibrated()
        self._owed_ms = 0.0

    def work(self) -> None:
        """Do what a training step does between two batches."""
        if time.perf_counter() > self._end:
            raise Abstain("a trial took longer than the time there is for it: is the machine busy with something else?")
        self._owed_ms += self.busy_ms
        pieces = int(self._owed_ms / self.piece_ms)
        self._owed_ms -= pieces * self.piece_ms
        self._do(pieces)

    def scaled(self, factor: float) -> "Consumer":
        """The same with more or less to do, without measuring anew how long a piece takes."""
        other = object.__new__(Consumer)
        other.__dict__.update(self.__dict__)
        other.busy_ms = self.busy_ms * max(factor, 0.0)
        other._owed_ms = 0.0
        return other

    def _do(self, pieces: int) -> None:
        with torch.inference_mode():
            for _ in range(pieces):
                torch.mm(self._left, self._right, out=self._result)
                self._result.mul_(0.5).add_(self._left)
        if pieces and self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)

    def _calibrated(self) -> float:
        """Milliseconds of a piece of work, where nothing else runs: the fastest of several turns."""
        pieces = 1
        end = time.perf_counter() + _WARM_SECONDS
        while time.perf_counter() < end:
            begin = time.perf_counter()
            self._do(pieces)
            took = time.perf_counter() - begin
            pieces = max(1, int(pieces * _TURN_SECONDS / max(took, 1e-6)))
        turns = []
        for _ in range(_TURNS):
            begin = time.perf_counter()
            self._do(pieces)
            turns.append((time.perf_counter() - begin) * 1e3 / pieces)
        return max(min(turns), 1e-4)


def training_device(evidence: "Evidence") -> torch.device:
    """Where training works: on the cores that loaders need, too, or on a device of its own."""
    parameters = (parameter for seen in evidence.modules for parameter in seen.module.parameters())
    first = next(parameters, None)
    return torch.device("cpu") if first is None else first.device
