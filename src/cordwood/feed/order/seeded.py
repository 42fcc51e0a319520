"""Random numbers from a seed of ours in code of others, without moving the generators of the program."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_LONGEST_NUMPY = 1 << 32
_LONGEST_TORCH = 1 << 63


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Torch's, NumPy's and Python's global generators seeded inside, and as they were afterwards.

    ::

        with seeded(7):
            indices = list(sampler)

    Only the CPU's generator of torch: samplers draw there, and asking for others would wake up their devices.
    """
    python, legacy = random.getstate(), np.random.get_state()
    # Not torch.manual_seed: that seeds every device, which then would have to be put back too.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed % _LONGEST_TORCH)
        random.seed(seed)
        np.random.seed(seed % _LONGEST_NUMPY)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)
