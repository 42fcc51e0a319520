"""Tests whether a dataset returns the same sample for the same number, by fetching it twice with other random numbers.

    digest(dataset[3]) == digest(dataset[3])     # bit for bit, whatever a sample is made of
    changing = first_that_changes(dataset, [0, 17, 40])
    own = set_apart(dataset)                     # a copy whose generators can be drawn from

A digest is a text, so that another process can be asked whether it gets the same.
"""

import copy
import hashlib
import pickle
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from cordwood.common.seeding import seed_generators

_SEEDS = (1_234_567, 89)
_MOST_PARTS = 64  # of a list of transforms
_DEEPEST = 6  # datasets around datasets, transforms of transforms
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random, torch.Generator)


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...


def digest(found: Any, *, lists_as_tuples: bool = False) -> str:
    """The same text for the same structure, types, shapes and bits. What cannot be pickled raises what pickle raises.

    ``lists_as_tuples`` is for batches: torch's collate makes lists of tuples.
    """
    state = hashlib.blake2b(digest_size=16)
    _feed(state, found, lists_as_tuples)
    return state.hexdigest()


def _feed(state: _Hash, found: Any, alike: bool) -> None:
    if isinstance(found, torch.Tensor):
        state.update(f"tensor {found.dtype} {tuple(found.shape)}".encode())
        state.update(_bits(found.detach()))
    elif isinstance(found, np.ndarray) and not found.dtype.hasobject:
        state.update(f"array {found.dtype} {found.shape}".encode())
        state.update(found.tobytes())
    elif isinstance(found, dict):
        state.update(f"dict {len(found)}".encode())
        for key, value in found.items():
            _feed(state, key, alike)
            _feed(state, value, alike)
    elif isinstance(found, list | tuple):
        name = "sequence" if alike and type(found) in (list, tuple) else type(found).__qualname__
        state.update(f"{name} {len(found)}".encode())
        for value in found:
            _feed(state, value, alike)
    elif hasattr(found, "tobytes") and hasattr(found, "mode") and hasattr(found, "size"):  # an image of Pillow's
        state.update(f"image {found.mode} {found.size}".encode())
        state.update(found.tobytes())
    else:
        state.update(f"{type(found).__qualname__} ".encode())
        state.update(pickle.dumps(found, protocol=4))


def _bits(tensor: torch.Tensor) -> bytes:
    if tensor.layout is not torch.strided:
        return pickle.dumps(tensor, protocol=4)
    flat = tensor.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy().tobytes()) if flat.numel() else b""


def first_that_changes(dataset: Any, numbers: Iterable[int]) -> int | None:
    """The first of these numbers whose sample is another one when random numbers are others; None if all stay."""
    for number in numbers:
        with random_numbers_kept():
            seen = set()
            for seed in _SEEDS:
                seed_generators(seed + number)
                seen.add(digest(dataset[number]))
        if len(seen) > 1:
            return number
    return None


def is_kept_in_memory(dataset: Any, number: int) -> bool:
    """Whether a sample is only handed out, not made: its tensors are the same memory each time."""
    with random_numbers_kept():
        first, second = dataset[number], dataset[number]
    places = [set(_places(sample)) for sample in (first, second)]
    return bool(places[0]) and places[0] == places[1]


def _places(found: Any) -> Iterator[int]:
    if isinstance(found, torch.Tensor):
        yield found.data_ptr()
    elif isinstance(found, np.ndarray):
        yield found.__array_interface__["data"][0]
    elif isinstance(found, dict):
        for value in found.values():
            yield from _places(value)
    elif isinstance(found, list | tuple):
        for value in found:
            yield from _places(value)


@contextmanager
def random_numbers_kept() -> Iterator[None]:
    """Whatever is drawn inside is not missed outside: the generators of Python, NumPy and torch are put back."""
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def set_apart(dataset: Any) -> Any:
    """A copy that shares its data, but has random generators of its own: the script may go on with the original."""
    return _apart(dataset, 0)


def _apart(found: Any, depth: int) -> Any:
    """What it is, or a copy if there is a generator in it: in its attributes, its transforms, the dataset inside."""
    if isinstance(found, _GENERATORS):
        return copy.deepcopy(found)
    if depth > _DEEPEST:
        return found
    if type(found) in (list, tuple) and len(found) <= _MOST_PARTS:
        parts = [_apart(part, depth + 1) for part in found]
        return type(found)(parts) if any(one is not other for one, other in zip(parts, found, strict=True)) else found
    if depth and not (isinstance(found, Dataset) or (callable(found) and not isinstance(found, type | FunctionType))):
        return found
    held = getattr(found, "__dict__", None)
    if not isinstance(held, dict):
        return found
    changed = {name: own for name, value in held.items() if (own := _apart(value, depth + 1)) is not value}
    if depth and not changed:
        return found
    other = copy.copy(found)
    other.__dict__.update(changed)
    return other
