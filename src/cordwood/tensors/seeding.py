"""Random numbers of a sample's own, for code that draws them from the generators of the process."""

import random

import numpy as np
import torch


def seed_generators(seed: int) -> None:
    """Set this process's generators of Python, NumPy and torch's CPU by a sample's seed, of 64 bits at most."""
    random.seed(seed)
    # All three are Mersenne Twisters: the constant keeps NumPy's from drawing what torch's draws. A single number of 32
    # bits, since NumPy takes longer for more than most samples take.
    np.random.seed((seed ^ seed >> 32 ^ 0x9E3779B9) & 0xFFFFFFFF)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would also look for devices, for every sample
