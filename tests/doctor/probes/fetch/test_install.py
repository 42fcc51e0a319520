"""Fetches are watched in this process and in workers, and nothing changes for the script."""

import functools
import multiprocessing
import sys
from collections.abc import Iterator
from multiprocessing import connection, reduction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from torch.utils.data._utils import fetch as torch_fetch
from torch.utils.data._utils import worker as torch_worker

from cordwood.doctor.evidence.fetches import Fetches
from cordwood.doctor.probes.fetch import install, watch
from cordwood.doctor.probes.fetch.closer_look import Profile
from cordwood.doctor.probes.patches import Patches

started_with: list[int] = []


class Files(Dataset[Any]):
    """Reads files, and adds what only the seed of the process decides."""

    def __init__(self, folder: Path, count: int = 48) -> None:
        self.paths = [folder / f"{number}.bin" for number in range(count)]
        for path in self.paths:
            path.write_bytes(bytes(1000))

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: int) -> Any:
        noise = torch.rand(3) + float(np.random.rand())
        return len(self.paths[index].read_bytes()), noise, torch.tensor(started_with)


class Failing(Dataset[int]):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> int:
        if index == 5:
            raise KeyError("number five is broken")
        return index


class Counting(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        return iter(range(24) if info is None else range(info.id, 24, info.num_workers))


def note_start(worker: int) -> None:
    started_with.append(worker + 7)


def take(loader: DataLoader[Any]) -> list[Any]:
    torch.manual_seed(3)
    np.random.seed(3)
    return list(loader)


@pytest.fixture(autouse=True)
def plenty_of_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_EXTRA_NS", 1 << 60)
    monkeypatch.setattr(watch, "_LOOK_NS", 1 << 60)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "figures"
    folder.mkdir()
    return folder


def watched(loader: DataLoader[Any], folder: Path) -> tuple[list[Any], Fetches]:
    patches = Patches()
    install.install(patches, folder)
    try:
        batches = take(loader)
    finally:
        patches.undo()
    assert patches.left == []
    fetches = install.collect(folder, loader.dataset)
    assert fetches is not None
    return batches, fetches


def patched_things() -> list[Any]:
    return [
        vars(torch_fetch._MapDatasetFetcher)["fetch"],
        vars(torch_fetch._IterableDatasetFetcher)["fetch"],
        torch_worker._worker_loop,
        vars(reduction.ForkingPickler)["loads"],
        vars(reduction.ForkingPickler)["dumps"],
        vars(connection.Connection).get("recv_bytes"),
    ]


# Workers that are not forked import torch.
METHODS = [
    pytest.param(method, marks=() if method == "fork" else pytest.mark.slow)
    for method in multiprocessing.get_all_start_methods()
]


@pytest.mark.parametrize("method", ["", *METHODS])
def test_batches_are_the_same_and_are_watched(tmp_path: Path, folder: Path, method: str) -> None:
    workers = 2 if method == "fork" else 1 if method else 0
    loader = DataLoader(
        Files(tmp_path),
        batch_size=4,
        num_workers=workers,
        shuffle=True,
        worker_init_fn=note_start,
        multiprocessing_context=method or None,
    )
    # Spawned workers take seconds to start: what the doctor does not change is seen with forked ones.
    expected = take(loader) if method in ("", "fork") else None
    before = patched_things()
    batches, fetches = watched(loader, folder)
    assert patched_things() == before
    if expected is not None:
        assert all(
            torch.equal(ours, theirs)
            for batch, other in zip(batches, expected, strict=True)
            for ours, theirs in zip(batch, other, strict=True)
        )
    assert batches[0][2].shape == (4, 1 if workers else 0)  # worker_init_fn ran once in each worker
    assert fetches.workers == workers
    assert fetches.batches + fetches.batches_profiled == 12
    assert fetches.batches_profiled >= 1
    assert fetches.slowest_stage in ("read", "decode", "transform", "collate", "transfer")
    assert fetches.notes == []
    # The functions of a fetch, those of C included, wherever they ran.
    assert {each.file == "" for each in fetches.functions} == {True, False}
    assert set(fetches.files) <= {str(path) for path in loader.dataset.paths}  # type: ignore[attr-defined]
    assert fetches.files
    assert (fetches.stage_ms["transfer"] > 0) == (workers > 0)
    assert (fetches.worker_busy_share is None) == (workers == 0)
    assert fetches.bytes_read_per_batch is None or fetches.bytes_read_per_batch >= 4000


def test_errors_of_a_dataset_arrive_as_they_are(folder: Path) -> None:
    with pytest.raises(KeyError, match="number five is broken"):
        watched(DataLoader(Failing(), batch_size=1), folder)


def test_errors_in_a_worker_arrive_as_they_are(folder: Path) -> None:
    patches = Patches()
    install.install(patches, folder)
    batches = iter(DataLoader(Failing(), batch_size=1, num_workers=1))
    with pytest.raises(KeyError, match="number five is broken"):
        list(batches)
    batches._shutdown_workers()  # type: ignore[attr-defined]  # at once, not when the traceback is forgotten
    patches.undo()
    fetches = install.collect(folder)
    assert fetches is not None
    assert fetches.batches + fetches.batches_profiled >= 5


def test_a_failed_fetch_leaves_the_fetcher_as_it_was(folder: Path) -> None:
    patches = Patches()
    install.install(patches, folder)
    batches = iter(DataLoader(Failing(), batch_size=1))
    fetcher = batches._dataset_fetcher  # type: ignore[attr-defined]
    collate = fetcher.collate_fn
    with pytest.raises(KeyError):
        list(batches)
    patches.undo()
    assert fetcher.collate_fn is collate


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_datasets_end_where_they_end(folder: Path, workers: int) -> None:
    batches, fetches = watched(DataLoader(Counting(), batch_size=3, num_workers=workers), folder)
    assert sorted(torch.cat(batches).tolist()) == list(range(24))
    assert fetches.batches + fetches.batches_profiled == len(batches) == 8


def test_samples_without_batches(folder: Path) -> None:
    batches, fetches = watched(DataLoader(Failing(), batch_size=None, sampler=range(4)), folder)
    assert batches == [0, 1, 2, 3]
    assert fetches.batches + fetches.batches_profiled == 4


def test_a_dataset_that_has_a_loader_inside(folder: Path) -> None:
    class Nested(Dataset[int]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, index: int) -> int:
            inner: DataLoader[Any] = DataLoader(torch.arange(index + 1), batch_size=2)  # type: ignore[arg-type]
            return sum(int(batch.sum()) for batch in inner)

    batches, fetches = watched(DataLoader(Nested(), batch_size=2), folder)
    assert torch.cat(batches).tolist() == [0, 1, 3, 6, 10, 15]
    assert fetches.batches + fetches.batches_profiled == 3


def test_validation_is_told_from_training(tmp_path: Path, folder: Path) -> None:
    training, validation = Files(tmp_path, 20), Files(tmp_path, 8)
    patches = Patches()
    install.install(patches, folder)
    take(DataLoader(training, batch_size=2))
    take(DataLoader(validation, batch_size=2, num_workers=2))
    patches.undo()
    fetches = install.collect(folder, training)
    assert fetches is not None
    assert fetches.batches + fetches.batches_profiled == 10
    everything = install.collect(folder)
    assert everything is not None
    assert everything.batches + everything.batches_profiled == 14


def test_the_training_process_is_told_of_profiled_fetches(tmp_path: Path, folder: Path) -> None:
    told: list[int] = []
    patches = Patches()
    install.install(patches, folder, lambda: told.append(1))
    take(DataLoader(Files(tmp_path), batch_size=4))
    patches.undo()
    fetches = install.collect(folder)
    assert fetches is not None
    assert len(told) == fetches.batches_profiled > 0


def test_a_script_that_profiles_itself_goes_on(tmp_path: Path, folder: Path) -> None:
    loader = DataLoader(Files(tmp_path), batch_size=4)
    sys.setprofile(lambda frame, event, argument: None)
    try:
        _, fetches = watched(loader, folder)
    finally:
        sys.setprofile(None)
    assert fetches.batches_profiled == 0
    assert fetches.functions == []
    assert "the script profiles itself" in fetches.notes[0]


def test_a_watch_that_breaks_breaks_nothing_else(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Profile) -> None:
        raise RuntimeError("of all times")

    monkeypatch.setattr(Profile, "begin", broken)
    loader = DataLoader(Files(tmp_path), batch_size=4, num_workers=0)
    expected = take(loader)
    batches, fetches = watched(loader, folder)
    assert len(batches) == len(expected)
    assert "fetches could not be watched: RuntimeError: of all times" in fetches.notes


def test_damaged_figures_are_passed_over(tmp_path: Path, folder: Path) -> None:
    (folder / "fetches-1-0.json").write_text("{")
    _, fetches = watched(DataLoader(Files(tmp_path), batch_size=4), folder)
    assert fetches.notes == ["what 1 workers of the loader saw could not be read"]


def test_nothing_to_collect(folder: Path) -> None:
    assert install.collect(folder) is None
    assert install.collect(folder / "gone") is None


def test_somebody_elses_worker_loop_is_still_run(folder: Path, tmp_path: Path) -> None:
    theirs = Patches()
    theirs.replace(torch_worker, "_worker_loop", functools.partial(their_loop, str(tmp_path / "they-were-here")))
    try:
        watched(DataLoader(Files(tmp_path), batch_size=4, num_workers=1, multiprocessing_context="fork"), folder)
    finally:
        theirs.undo()
    assert (tmp_path / "they-were-here").exists()


REAL_LOOP = torch_worker._worker_loop


def their_loop(mark: str, *arguments: Any) -> None:
    Path(mark).touch()
    REAL_LOOP(*arguments)


def test_workers_that_live_on_stop_watching(tmp_path: Path, folder: Path) -> None:
    loader = DataLoader(Files(tmp_path), batch_size=4, num_workers=1, persistent_workers=True)
    patches = Patches()
    install.install(patches, folder)
    take(loader)
    patches.undo()
    before = install.collect(folder)
    take(loader)  # the workers find that nobody wants to know more the next time that they write
    take(loader)
    after = install.collect(folder)
    assert before is not None
    assert after is not None
    assert before.batches + before.batches_profiled <= 12
    assert after.batches + after.batches_profiled <= 20


def test_folders_that_are_gone_end_the_watch(tmp_path: Path, folder: Path) -> None:
    patches = Patches()
    install.install(patches, folder)
    folder.rmdir()
    batches = take(DataLoader(Files(tmp_path), batch_size=4, num_workers=1))
    patches.undo()
    assert len(batches) == 12


def test_later_workers_are_only_timed(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install, "_MOST_WITH_LOOKS", 0)
    _, fetches = watched(DataLoader(Files(tmp_path), batch_size=4, num_workers=1), folder)
    assert fetches.batches == 12
    assert fetches.batches_profiled == 0
    monkeypatch.setattr(install, "_MOST_PROCESSES", 0)
    patches = Patches()
    install.install(patches, folder)
    assert len(take(DataLoader(Files(tmp_path), batch_size=4, num_workers=1))) == 12
    patches.undo()


def test_a_forked_child_that_leaves_the_watch_does_not_end_it(tmp_path: Path, folder: Path) -> None:
    patches = Patches()
    install.install(patches, folder)
    child = multiprocessing.get_context("fork").Process(target=patches.undo)
    child.start()
    child.join()
    assert list(folder.iterdir()) == []
    take(DataLoader(Files(tmp_path), batch_size=4, num_workers=1))
    patches.undo()
    fetches = install.collect(folder)
    assert fetches is not None
    assert fetches.batches + fetches.batches_profiled == 12


def test_what_stands_in_for_the_worker_loop_is_known_as_ours(folder: Path) -> None:
    patches = Patches()
    install.install(patches, folder)
    loop = torch_worker._worker_loop
    patches.undo()
    assert loop.__module__ == "cordwood.doctor.probes.fetch.install"


def test_later_fetches_are_timed_now_and_then_and_stand_for_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "_MOST_LOOKS", 0)
    timed = []
    note = watch.FetchWatch._note

    def counted(self: Any, *arguments: Any) -> None:
        timed.append(arguments)
        note(self, *arguments)

    monkeypatch.setattr(watch.FetchWatch, "_note", counted)
    patches = Patches()
    install.install(patches, tmp_path)
    for _ in DataLoader(range(64 + 7 * 20), batch_size=1):  # type: ignore[arg-type]
        pass
    patches.undo()
    fetches = install.collect(tmp_path)
    assert fetches is not None
    assert len(timed) == 64 + 20
    assert fetches.batches == 64 + 7 * 20
