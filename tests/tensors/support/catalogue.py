"""The book that every kind of object is entered in, under the name of the function that makes it.

@case(torch_saves=False)
def two_dtypes() -> Any:
    ...
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

# What torch says of some kinds of tensors, once a process, at no fault of those who save them.
QUIET = pytest.mark.filterwarnings(
    "ignore:TypedStorage is deprecated",
    "ignore:cw.load will refuse",
    "ignore:.*quantize.*deprecated",
    "ignore:ComplexHalf support is experimental",
    "ignore:Sparse invariant checks",
    "ignore:Sparse .* tensor support is in beta",
    "ignore:The PyTorch API of nested tensors",
)


@dataclass(frozen=True, slots=True)
class Case:
    """One object, and what torch makes of it."""

    name: str
    make: Callable[[], Any]
    safe: bool = True  # torch.load(weights_only=True) takes it
    torch_saves: bool = True  # torch.save takes it


CATALOGUE: dict[str, Case] = {}


def case(*, safe: bool = True, torch_saves: bool = True) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Enter a function into the catalogue under its own name."""

    def enter(make: Callable[[], Any]) -> Callable[[], Any]:
        assert make.__name__ not in CATALOGUE
        CATALOGUE[make.__name__] = Case(make.__name__, make, safe, torch_saves)
        return make

    return enter


def floats(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Values that no two elements share, and that no codec makes small."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def as_loaded(obj: Any) -> Any:
    """What loading gives for it: the same, but a bare storage comes back as a storage of bytes, in torch as here."""
    if type(obj) is dict and any(isinstance(value, torch.UntypedStorage) for value in obj.values()):
        return {key: as_loaded(value) for key, value in obj.items()}
    if isinstance(obj, torch.UntypedStorage):
        return torch.TypedStorage(wrap_storage=obj, dtype=torch.uint8, _internal=True)
    return obj
