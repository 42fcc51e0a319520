"""Which storages are one memory."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch.storage import UntypedStorage

from cordwood.errors import UsageError
from cordwood.tensors.layout.reachable import View
from cordwood.tensors.saving.arena import Arena, Arenas


def known(*storages: UntypedStorage) -> Arenas:
    """Arenas that have seen the storages, and know which of them are one memory."""
    first = Arenas()
    for storage in storages:
        first.of(storage)
    settled, arenas = first.settle()
    return first if settled else arenas


def storage_of(array: npt.NDArray[Any]) -> UntypedStorage:
    return torch.from_numpy(array).untyped_storage()


def test_a_storage_has_one_arena() -> None:
    arenas = Arenas()
    tensor = torch.zeros(4)
    arena = arenas.of(tensor.untyped_storage())
    assert arenas.of(tensor[2:].untyped_storage()) is arena
    assert (arena.key, arena.location, arena.nbytes) == ("0", "cpu", 16)
    assert arena.offset_of(tensor.untyped_storage()) == 0
    assert arenas.of(torch.zeros(4).untyped_storage()).key == "1"
    assert [each.key for each in arenas] == ["0", "1"]


def test_storages_over_overlapping_memory_become_one_at_the_second_look() -> None:
    memory = np.zeros(100, np.float32)
    parts = [storage_of(memory[20:40]), storage_of(memory[30:60]), storage_of(memory[80:])]
    arenas = known(*parts)
    first, second, apart = (arenas.of(part) for part in parts)
    assert first is second
    assert first is not apart
    assert (first.nbytes, first.offset_of(parts[0]), first.offset_of(parts[1])) == (160, 0, 40)
    assert arenas.settle()[0]


def test_storages_that_only_touch_stay_apart() -> None:
    memory = np.zeros(100, np.float32)
    parts = [storage_of(memory[:50]), storage_of(memory[50:])]
    arenas = known(*parts)
    assert arenas.of(parts[0]) is not arenas.of(parts[1])


def test_empty_storages_stay_apart() -> None:
    memory = np.zeros(100, np.float32)
    parts = [storage_of(memory[5:5]), storage_of(memory), UntypedStorage(0), UntypedStorage(0)]
    arenas = known(*parts)
    assert len({arenas.of(part).key for part in parts}) == 4


def test_a_chain_of_overlaps_is_one() -> None:
    memory = np.zeros(100, np.uint8)
    parts = [storage_of(memory[start : start + 15]) for start in range(0, 80, 10)]
    arenas = known(*reversed(parts))
    assert len({arenas.of(part).key for part in parts}) == 1
    assert arenas.of(parts[0]).nbytes == 85


def test_memory_under_two_dtypes_is_mixed_from_the_second_look_on() -> None:
    storage = torch.zeros(8).untyped_storage()
    arenas = Arenas()
    for dtype in (torch.float32, torch.int32):
        arenas.of(storage).sees(View(0, 4, (8,), (4,)), dtype, covers=True, fits=True, quantized=False)
    settled, arenas = arenas.settle()
    assert not settled
    assert arenas.of(storage).is_mixed


def test_new_dtypes_count_as_bytes() -> None:
    storage = torch.zeros(8).untyped_storage()
    arenas = Arenas()
    for dtype in (torch.float8_e4m3fn, torch.uint16, torch.uint8):
        arenas.of(storage).sees(
            View(0, dtype.itemsize, (8,), (dtype.itemsize,)), dtype, covers=True, fits=True, quantized=False
        )
    assert arenas.settle()[0]


def test_bytes_are_read_in_place() -> None:
    tensor = torch.arange(16, dtype=torch.uint8)
    arena = Arenas().of(tensor.untyped_storage())
    window = arena.read(4, 3)
    tensor[5] = 99
    assert window.tolist() == [4, 99, 6]
    assert arena.read(16, 0).tolist() == []


def test_what_has_no_memory_is_said() -> None:
    with pytest.raises(UsageError, match="on meta has no memory"):
        Arena("0", "meta", 0, 8, False).read(0, 8)


def test_storages_stay_alive_while_they_are_known() -> None:
    arenas = Arenas()
    keys = {arenas.of(torch.zeros(1000).untyped_storage()).key for _ in range(20)}
    assert len(keys) == 20  # memory that was given back would have been given out again
