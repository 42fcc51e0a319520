"""Small arrays of different shapes share memory in a batch, and come back as they were."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.native import _native


def _stored(folder: Path, arrays: list[Any]) -> cw.Dataset:
    with cw.Writer(folder / "x.cordwood") as writer:
        for array in arrays:
            writer.append({"x": array} if array is not None else {})
    return cw.open(folder / "x.cordwood")


def _same(got: Any, arrays: list[Any]) -> None:
    assert len(got) == len(arrays)
    for one, array in zip(got, arrays, strict=True):
        assert (one is None) == (array is None)
        assert one is None or (one.dtype == array.dtype and torch.equal(one, array))


def _boxes(lengths: list[int], *rest: int) -> list[torch.Tensor]:
    chance = torch.Generator().manual_seed(1)
    return [torch.rand((length, *rest), generator=chance) for length in lengths]


def _memories(tensors: list[torch.Tensor]) -> int:
    return len({tensor.untyped_storage().data_ptr() for tensor in tensors if tensor.numel()})


def test_small_ones_share_memory_in_a_batch_only(tmp_path: Path) -> None:
    arrays = _boxes([3, 1, 0, 7, 12, 3, 3, 3], 4)
    ds = _stored(tmp_path, arrays)
    for _ in range(2):
        batch = ds[list(range(8))]["x"]
        _same(batch, arrays)
        assert _memories(batch) == 1
        assert all(one._base is None for one in batch)
    assert isinstance(ds[[5, 6, 7]]["x"], torch.Tensor)
    apart = [sample["x"] for sample in ds.__getitems__(list(range(8)))]
    _same(apart, arrays)
    assert all(one.untyped_storage().nbytes() == one.nbytes for one in apart)


def test_large_ones_and_other_shapes_lie_apart(tmp_path: Path) -> None:
    for number, arrays in enumerate((
        _boxes([3, 1000, 2], 4),
        _boxes([3, 5000, 2], 4),
        [*_boxes([3], 4), *_boxes([3], 5)],
        [torch.ones(3), torch.ones(3, 1), torch.tensor([2.0])],
    )):  # fmt: skip
        (tmp_path / str(number)).mkdir()
        ds = _stored(tmp_path / str(number), arrays)
        for _ in range(3):
            batch = ds[list(range(len(arrays)))]["x"]
            _same(batch, arrays)
            assert _memories(batch) == len(arrays)


def test_some_samples_have_none(tmp_path: Path) -> None:
    arrays: list[Any] = [None, *_boxes([3, 1], 4), None, *_boxes([5], 4)]
    ds = _stored(tmp_path, arrays)
    for _ in range(2):
        _same(ds[list(range(5))]["x"], arrays)
        _same(ds[[0, 1, 3]]["x"], [None, arrays[1], None])


def test_numbers_are_ints_in_range() -> None:
    out = np.zeros(3, np.int64)
    assert _native.sample_numbers([0, -1, 4], 5, out)
    assert out.tolist() == [0, 4, 4]
    for wrong in ([0, 1, 5], [0, 1, -6], [0, 1, 1 << 70], [0, 1, True], [0, 1, 1.0], [0, 1]):
        assert not _native.sample_numbers(wrong, 5, out)


def test_memory_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    ds = _stored(tmp_path, _boxes([3, 1], 4))
    _ = ds[[0, 1]]
    reader = ds.reader
    numbers = np.array([0, 1], np.int64)
    for made in ((), (np.empty(15, np.float32),), (np.empty(12, np.float32), np.empty(3, np.float32)), [1], 7):
        wanted = ((0, 1 << 11, 0, lambda dims, made=made: made, 2),)
        with pytest.raises(ValueError, match="memory that the arrays do not fit in"):
            _native.store_read(reader.shards.handle, numbers, None, (), wanted, reader.shards.plans, 1, 1 << 30, None)
