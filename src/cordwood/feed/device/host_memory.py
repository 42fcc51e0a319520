"""Chooses the memory that batches are decoded into: pooled, or pinned if they go to a device."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from cordwood.feed.device.mover import pinned
from cordwood.store import CARRIERS, Allocate, new_tensor


def allocator(device: torch.device | None) -> Allocate:
    """What gives memory for batches that go to this device.

    Pinned memory has a pool of its own: torch's, which knows when the copies out of a block are done.
    """
    return new_tensor if device is None or device.type == "cpu" else _pinned_tensor


def _pinned_tensor(
    shape: tuple[int, ...], carrier: "np.dtype[Any]", dtype: torch.dtype
) -> tuple[torch.Tensor, npt.NDArray[Any]]:
    made = pinned(shape, dtype)
    plain = CARRIERS.get(dtype)
    return made, (made if plain is None else made.view(plain)).numpy()
