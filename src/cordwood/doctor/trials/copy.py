"""Tries copies from host memory to a device in other ways: from pinned memory, and as one copy.

    gain = try_copies(torch.device("cuda"), nbytes=1 << 20, count=1, change="pinned", seconds=2.0)

This is written for CUDA and for other accelerators that torch can wait for, and was not run on one: no machine with a
device was at hand.
"""

from time import perf_counter
from typing import Literal

import torch

from cordwood.doctor.measure.pairs import Gain, measure_pair

Change = Literal["pinned", "together"]
_REPEATED = 10  # times in a measurement, since one copy is short


def try_copies(device: torch.device, *, nbytes: int, count: int, change: Change, seconds: float) -> Gain:
    """Milliseconds of `count` copies of `nbytes` each, and what they take from pinned memory, or as one copy."""
    pageable = [torch.zeros(nbytes, dtype=torch.uint8) for _ in range(count)]
    if change == "pinned":
        other = [tensor.pin_memory() for tensor in pageable]
        return measure_pair(
            lambda: _copied(pageable, device, non_blocking=False),
            lambda: _copied(other, device, non_blocking=True),
            seconds,
        )
    whole = [torch.zeros(nbytes * count, dtype=torch.uint8)]
    return measure_pair(
        lambda: _copied(pageable, device, non_blocking=False),
        lambda: _copied(whole, device, non_blocking=False),
        seconds,
    )


def _copied(tensors: list[torch.Tensor], device: torch.device, *, non_blocking: bool) -> float:
    """Milliseconds until all of them are on the device."""
    torch.accelerator.synchronize(device)
    start = perf_counter()
    for _ in range(_REPEATED):
        kept = [tensor.to(device, non_blocking=non_blocking) for tensor in tensors]
        torch.accelerator.synchronize(device)
        del kept
    return (perf_counter() - start) * 1e3 / _REPEATED
