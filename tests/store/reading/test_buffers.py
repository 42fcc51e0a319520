"""Memory for tensors is used again, but never while anything still shows it."""

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import FormatError
from cordwood.store.reading import buffers
from cordwood.store.reading.buffers import check_memory, new_array
from tests.store.support.forked import in_child
from tests.store.support.packed import pack
from tests.store.support.samples import assert_same_sample

POOLED, MAPPED = 100_000, 5 << 20  # bytes: from where on memory is kept, and where it is mapped
FLOAT = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def empty_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other tests left behind is out of the way."""
    monkeypatch.setattr(buffers, "_idle", {})


def lent(nbytes: int) -> torch.Tensor:
    return torch.from_numpy(new_array((nbytes // 4,), FLOAT))


@pytest.mark.parametrize("nbytes", [POOLED, MAPPED])
def test_memory_serves_again_once_the_tensor_is_gone(nbytes: int) -> None:
    first = lent(nbytes)
    place = first.data_ptr()
    del first
    assert lent(nbytes).data_ptr() == place


def test_arrays_have_just_the_bytes_they_need() -> None:
    for shape in [(0,), (), (3, 0, 2), (7,), (30_000,), (5 << 20,)]:
        array = new_array(shape, FLOAT)
        assert array.shape == shape
        assert array.dtype == FLOAT
        assert array.flags.c_contiguous
        assert array.flags.writeable
        tensor = torch.from_numpy(array)
        assert tensor.untyped_storage().nbytes() == array.nbytes


HOLDERS: dict[str, Callable[[torch.Tensor], Any]] = {
    "the tensor": lambda tensor: tensor,
    "a view": lambda tensor: tensor[5:9],
    "another dtype": lambda tensor: tensor.view(torch.int32)[:1],
    "transposed": lambda tensor: tensor.view(-1, 2).T,
    "its array": lambda tensor: tensor.numpy(),
    "a part of its array": lambda tensor: tensor.numpy()[3:].view(np.uint8),
    "a memoryview": lambda tensor: memoryview(tensor.numpy()),
    "its storage": lambda tensor: tensor.untyped_storage(),
    "detached": lambda tensor: tensor.detach(),
    "in a graph": lambda tensor: (tensor.requires_grad_() * 2).grad_fn,
    "dlpack": lambda tensor: np.from_dlpack(tensor),
}


@pytest.mark.slow
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("nbytes", [POOLED, MAPPED])
def test_whatever_shows_the_memory_keeps_it(holder: str, nbytes: int) -> None:
    tensor = lent(nbytes)
    place = tensor.data_ptr()
    held = HOLDERS[holder](tensor)
    del tensor
    gc.collect()
    others = [lent(nbytes) for _ in range(3)]
    assert place not in {other.data_ptr() for other in others}
    del held
    gc.collect()
    assert lent(nbytes).data_ptr() == place


def test_tensors_that_are_kept_never_change(tmp_path: Path) -> None:
    samples = [{"x": torch.full((30_000,), i), "a": np.full(20_000, i, np.float64)} for i in range(12)]
    ds = pack(tmp_path / "s", samples, "raw")
    kept: list[tuple[Any, Any]] = []
    for turn in range(6):
        for i in range(12):
            sample, batch = ds[i], ds[[i, (i + turn) % 12]]
            if i % 3 == turn % 3:
                kept.append((sample["x"][7:11], torch.full((4,), i)))
                kept.append((sample["a"][::1000], np.full(20, i, np.float64)))
                kept.append((batch["x"][1].numpy()[:3], np.full(3, (i + turn) % 12)))
                kept.append((batch["a"].T[-1], torch.tensor([i, (i + turn) % 12], dtype=torch.float64)))
        for found, expected in kept:
            assert_same_sample(found, expected)


def test_what_a_sample_lacks_shows_nothing_of_earlier_tensors(tmp_path: Path) -> None:
    ds = pack(tmp_path / "s", [{"x": torch.full((30_000,), 7.0)}, {}, {"x": None}] * 2, "raw")
    for _ in range(3):
        assert_same_sample(ds.__getitems__([0, 1, 2]), [{"x": torch.full((30_000,), 7.0)}, {}, {"x": None}])
        assert ds[[0, 1, 2]]["x"][1:] == [None, None]


@pytest.mark.parametrize("size", [20_000, 2 << 20])
def test_a_forked_process_has_memory_of_its_own(tmp_path: Path, size: int) -> None:
    samples = [torch.full((size,), float(i)) for i in range(3)]
    ds = pack(tmp_path / "s", samples, "raw")
    tensor = ds[1]

    def scribble() -> None:
        tensor.numpy()[:] = -1
        again = ds[2].numpy()
        assert (again == 2).all()

    ended = in_child(scribble)
    assert ended.code == 0, ended.text
    assert (tensor.numpy() == 1).all()


def test_idle_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buffers, "_most_idle", lambda: 3 * POOLED)
    tensors = [lent(POOLED) for _ in range(10)]
    del tensors
    assert idle() <= 3 * POOLED
    del (big := [lent(4 * POOLED)])[:]
    assert big == []
    assert idle() <= 3 * POOLED
    # Another size pushes out what is no longer asked for, and is kept itself.
    first = lent(2 * POOLED)
    place = first.data_ptr()
    del first
    assert lent(2 * POOLED).data_ptr() == place


def test_a_worker_keeps_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are many of them, and each one's memory counts."""
    monkeypatch.setattr("torch.utils.data.get_worker_info", lambda: object())
    tensors = [lent(MAPPED) for _ in range(20)]
    del tensors
    assert 0 < idle() <= 64 << 20


def test_idle_memory_can_be_given_back() -> None:
    del (tensors := [lent(POOLED), lent(MAPPED)])[:]
    assert tensors == []
    assert idle() == POOLED + MAPPED
    kept = lent(POOLED)
    buffers.release()
    assert idle() == 0
    del kept
    assert idle() == POOLED


def idle() -> int:
    return sum(block.nbytes for blocks in buffers._idle.values() for block in blocks)


def test_many_threads_never_get_the_same_memory() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for turn in range(200):
            tensor = new_array((20_000,), np.dtype(np.int32))
            tensor[:] = number * 1000 + turn
            other = new_array((20_000,), np.dtype(np.int32))
            other[:] = -1
            if (tensor != number * 1000 + turn).any():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_what_no_machine_has_is_refused_before_it_is_asked_for() -> None:
    check_memory((1 << 10, 1 << 8), 4, "field 'x'")
    with pytest.raises(FormatError, match=r"field 'x': .* takes 1152921504606846976 bytes") as caught:
        check_memory((1 << 58,), 4, "field 'x'")
    assert caught.value.reason == 26
    with pytest.raises(FormatError, match="field 'x': an array of shape"):
        check_memory((0, 1 << 62), 4, "field 'x'")


def test_a_reader_gives_its_memory_back(tmp_path: Path) -> None:
    ds: cw.Dataset | None = pack(tmp_path / "s", [torch.ones(30_000)] * 2, "raw")
    assert ds is not None
    tensor = ds[0]
    del ds
    gc.collect()
    assert "shard-00000000" not in Path("/proc/self/maps").read_text()
    assert tensor.sum() == 30_000  # what was read has nothing to do with the file any more
