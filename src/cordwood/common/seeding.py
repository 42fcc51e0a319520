"""Seeds the global random generators for one sample."""

import functools
import inspect
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch


def seed_generators(seed: int) -> None:
    """Set this process's generators of Python, NumPy and torch's CPU by a sample's seed, of 64 bits at most."""
    random.seed(seed)
    # All three are Mersenne Twisters: NumPy's must not get the lower half of the seed, which is all that torch's takes.
    # A single number of 32 bits, since NumPy takes longer for more than most samples take.
    word = (seed ^ seed >> 32 ^ 0x9E3779B9) & 0xFFFFFFFF
    np.random.seed(word if word != seed & 0xFFFFFFFF else word ^ 1)
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would also look for devices, for every sample


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function has a parameter of this name, after the one for the sample, that nobody has filled yet."""
    if isinstance(function, functools.partial) and name in function.keywords:
        return False
    try:
        # Calling a module leads to its method `forward`, which no signature tells.
        parameters = inspect.signature(
            function.forward if isinstance(function, torch.nn.Module) else function
        ).parameters
    except (TypeError, ValueError):  # written in C, without a signature
        return False
    found = parameters.get(name)
    if found is None or found.kind not in (found.POSITIONAL_OR_KEYWORD, found.KEYWORD_ONLY):
        return False
    return found.kind is found.KEYWORD_ONLY or next(iter(parameters)) != name
