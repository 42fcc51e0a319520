"""One thread for what a transform calls: it does not fight for cores, and its sums are the same everywhere."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from cordwood.packing.workers import pool
from cordwood.packing.workers.one_thread import one_thread
from tests.packing.support.forkedworkers import launch
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import Numbers, pack
from tests.store.support.photos import files_of


@pytest.fixture
def dest() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made / "s"


@pytest.fixture
def two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_torch_has_one_inside_and_what_it_had_afterwards() -> None:
    with one_thread():
        assert torch.get_num_threads() == 1
        with one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2
    with pytest.raises(ValueError, match="inside"), one_thread():
        raise ValueError("inside")
    assert torch.get_num_threads() == 2


def test_opencv_has_none_inside_if_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("cv2")
    told = [4]
    vars(module).update(getNumThreads=lambda: told[-1], setNumThreads=told.append)
    monkeypatch.setitem(sys.modules, "cv2", module)
    with one_thread():
        assert told[-1] == 0
    assert told == [4, 0, 4]


@pytest.mark.usefixtures("two_threads")
def test_a_transform_in_this_process_has_one_and_others_keep_theirs(dest: Path) -> None:
    found: list[tuple[str, int]] = []

    class Watched(Numbers):
        def __getitem__(self, number: int) -> Any:
            found.append(("read", torch.get_num_threads()))
            return super().__getitem__(number)

    def transform(sample: dict[str, Any]) -> dict[str, Any]:
        found.append(("transform", torch.get_num_threads()))
        if sample["number"] == 5:
            raise ValueError("five")
        return sample

    pack(
        Watched(8), dest, transform, on_error="skip", progress=lambda _: found.append(("told", torch.get_num_threads()))
    )
    assert set(found) == {("read", 1), ("transform", 1), ("told", 2)}
    assert torch.get_num_threads() == 2


def sums(sample: dict[str, Any], generator: torch.Generator) -> dict[str, Any]:
    values = torch.randn(3, 500, 500, generator=generator)
    return {**sample, "sum": values.sum(), "mean": values.mean((1, 2)), "norm": values.norm()}


def sums_by(threads: int) -> list[float]:
    torch.set_num_threads(threads)
    return [float(sums({}, torch.Generator().manual_seed(seed))["sum"]) for seed in range(6)]


@pytest.mark.usefixtures("two_threads")
def test_sums_do_not_depend_on_the_number_of_workers(dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool._Worker, "_launch", launch)
    found = []
    for workers in (0, 1, 2):
        path = dest.with_name(f"s{workers}")
        pack(Numbers(10), path, sums, workers=workers)
        found.append(files_of(path))
    assert found[1:] == found[:1] * 2
    if sums_by(1) == sums_by(2):
        pytest.skip("this torch sums the same with any number of threads: nothing is shown here")
