"""The bytes of a storage as it will stand in a file."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.tensors.content.file_content import Bytes, PackedStorage, Scratch
from cordwood.tensors.layout.reachable import View, lay_out
from tests.tensors.support.storages import filled, storages

DTYPES = {1: "uint8", 2: "int16", 4: "float32", 8: "float64", 16: "complex128"}


def packed(nbytes: int, views: list[View], *, whole: bool = False) -> tuple[PackedStorage, Bytes]:
    memory = np.random.default_rng(0).integers(1, 256, nbytes, np.uint8)
    layout = lay_out(views, nbytes, whole=whole)
    names = [DTYPES[view.itemsize] for view in views]
    return PackedStorage("0", layout, views, names, lambda offset, length: memory[offset : offset + length]), memory


@given(storages(), st.booleans())
def test_pieces_are_the_storage(drawn: tuple[int, list[View]], whole: bool) -> None:
    nbytes, views = drawn
    storage, memory = packed(nbytes, views, whole=whole)
    expected = filled(storage.layout, memory)
    scratch = Scratch()
    scratch.take(300)[:] = 0xEE  # what was there before must not show
    assert np.concatenate([*storage.pieces(scratch), np.empty(0, np.uint8)]).tolist() == expected.tolist()
    for group in storage.layout.groups:
        part = storage.group_bytes(group, scratch)
        assert part.tolist() == expected[group.offset : group.offset + group.nbytes].tolist()
    out = np.full(storage.nbytes, 0xEE, np.uint8)
    storage.gather(storage.layout.groups, 0, out)
    assert out.tolist() == expected.tolist()


@given(storages())
def test_a_snapshot_no_longer_changes(drawn: tuple[int, list[View]]) -> None:
    nbytes, views = drawn
    storage, memory = packed(nbytes, views)
    expected = filled(storage.layout, memory)
    kept = storage.snapshot()
    memory[:] = 0
    assert np.concatenate([*kept.pieces(Scratch()), np.empty(0, np.uint8)]).tolist() == expected.tolist()
    assert kept.layout.placed == storage.layout.placed
    for group in kept.layout.groups:
        assert kept.group_bytes(group, Scratch()).tolist() == expected[group.offset :][: group.nbytes].tolist()


@given(storages())
def test_a_group_is_an_array_of_its_size(drawn: tuple[int, list[View]]) -> None:
    storage, _ = packed(*drawn)
    sizes = {name: size for size, name in DTYPES.items()}
    for group in storage.layout.groups:
        dtype, shape = storage.group_array(group)
        assert sizes[dtype] * int(np.prod(shape, dtype=np.int64)) == group.nbytes


@pytest.mark.parametrize(
    ("views", "array"),
    [
        ([View(0, 4, (3, 5), (20, 4))], ("float32", (3, 5))),
        ([View(0, 4, (5, 3), (4, 20))], ("float32", (3, 5))),  # transposed: as it lies in memory
        ([View(0, 4, (15,), (4,)), View(0, 4, (3, 5), (20, 4))], ("float32", (3, 5))),
        ([View(0, 4, (), ())], ("float32", ())),
        ([View(0, 4, (3, 100), (4, 0))], ("float32", (3,))),
        ([View(0, 4, (4,), (4,)), View(8, 4, (4,), (4,))], ("float32", (6,))),  # none covers it alone
        ([View(0, 2, (4,), (2,)), View(0, 8, (2,), (8,))], ("float64", (2,))),
    ],
)
def test_the_array_follows_the_view_that_covers_the_group(
    views: list[View], array: tuple[str, tuple[int, ...]]
) -> None:
    storage, _ = packed(64, views)
    (group,) = storage.layout.groups
    assert storage.group_array(group) == array


def test_adjoining_groups_are_read_at_once() -> None:
    views = [View(start, 4, (5,), (4,)) for start in range(0, 400, 20)]
    reads: list[tuple[int, int]] = []
    memory = np.arange(400).astype(np.uint8)

    def read(offset: int, length: int) -> Bytes:
        reads.append((offset, length))
        return memory[offset : offset + length]

    storage = PackedStorage("0", lay_out(views, 400), views, ["float32"] * 20, read)
    assert len(storage.pieces(Scratch())) == 1
    assert reads == [(0, 400)]


def test_between_groups_there_are_zeros() -> None:
    views = [View(0, 1, (3,), (1,)), View(16, 8, (2,), (8,)), View(48, 1, (5,), (2,))]
    storage, memory = packed(64, views)
    assert [group.offset for group in storage.layout.groups] == [0, 8, 24]
    out = np.full(storage.nbytes, 0xEE, np.uint8)
    storage.gather(storage.layout.groups, 0, out)
    assert out.tolist() == filled(storage.layout, memory).tolist()
    rest = np.full(storage.nbytes - 8, 0xEE, np.uint8)
    storage.gather(storage.layout.groups[1:], 8, rest)
    assert rest.tolist() == out[8:].tolist()


def test_scratch_is_used_again() -> None:
    scratch = Scratch()
    large = scratch.take(1000)
    assert scratch.take(10).ctypes.data == large.ctypes.data
    assert len(scratch.take(2000)) == 2000
