"""The loop of a job: how far ahead of the store inputs are drawn, and what it tells of workers that died."""

import os
import signal
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cordwood as cw
from cordwood.packing.workers import engine, pool, tasks
from tests.packing.support.forkedworkers import launch
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import Numbers, numbers_of, pack
from tests.packing.support.textfolder import Folder, Texts

COUNT = 900
ITEM = 16 << 10  # bytes
Sample = dict[str, Any]


@pytest.fixture
def dest() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made / "s"


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool._Worker, "_launch", launch)


class LargeItems:
    """An iterable of arrays, and how many of them were there at the same time at most."""

    def __init__(self, nested: bool) -> None:
        self._alive = 0
        self._nested = nested
        self.most = 0

    def __call__(self) -> Iterator[Any]:
        for number in range(COUNT):
            item = np.full(ITEM // 8, number)
            weakref.finalize(item, self._gone)
            self._alive += 1
            self.most = max(self.most, self._alive)
            yield {"number": number, "deep": [(item,)]} if self._nested else item
            del item

    def _gone(self) -> None:
        self._alive -= 1

    def __reduce__(self) -> Any:
        return LargeItems, (self._nested,)


def first_number(item: Any) -> Sample:
    """So quick that tasks would grow as far as they may, and so small that what comes out does not count."""
    return {"number": item["number"] if isinstance(item, dict) else int(item[0])}


@pytest.mark.slow
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("workers", "buffered", "most"),
    [
        (0, None, 4 + 4),  # a task of four, and the one before it
        (2, None, 4 * pool.QUEUED * 2 + 4),
        (2, 10, 10 + 4),
    ],
)
def test_large_items_of_an_iterable_are_drawn_as_they_are_needed(
    dest: Path, monkeypatch: pytest.MonkeyPatch, nested: bool, workers: int, buffered: int | None, most: int
) -> None:
    monkeypatch.setattr(tasks, "_MOST_BYTES", 4 * ITEM + 4000)  # with what pickling adds
    monkeypatch.setattr(tasks, "_SECONDS", 1e6)  # as if nothing took any time
    if buffered is not None:
        monkeypatch.setattr(engine, "_MOST_BUFFERED", buffered * ITEM)
    items = LargeItems(nested)
    pack(items, dest, first_number, workers=workers)
    assert numbers_of(dest) == list(range(COUNT))
    assert 2 < items.most <= most


def test_small_items_of_an_iterable_come_in_large_tasks(dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = tasks.Tasks.next

    def watched(self: tasks.Tasks) -> Any:
        found = original(self)
        sizes.append(len(found[1]) if found is not None else 0)
        return found

    monkeypatch.setattr(tasks.Tasks, "next", watched)
    monkeypatch.setattr(tasks, "_SECONDS", 1e6)
    pack(({"number": number} for number in range(5000)), dest)
    assert max(sizes) == 2048


# ---- deaths ----------------------------------------------------------------------------------------------------------


def dies_once(mark: Path, *numbers: int) -> Any:
    """A transform that kills its process the first time it gets one of these; a file is its memory."""

    def dying(sample: Sample) -> Sample:
        place = mark / str(sample["number"])
        if sample["number"] in numbers and not place.exists():
            place.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return sample

    return dying


NOTE = (
    "a worker process was killed by signal 9 (SIGKILL) while it did input {}; another one took its place; the system "
    "does that when memory runs out: try fewer workers"
)


def test_deaths_of_workers_are_told_in_the_end(dest: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Before the schema is known, and after; and at once, for somebody who looks."""
    packed = pack(Numbers(400), dest, dies_once(tmp_path, 7, 350), workers=1)
    assert (packed.failed, packed.samples) == (0, 400)
    assert packed.notes == (NOTE.format(7), NOTE.format(350))
    assert [record.getMessage() for record in caplog.records] == list(packed.notes)
    assert f"note: {NOTE.format(7)}" in str(packed)
    assert numbers_of(dest) == list(range(400))


def test_the_names_of_inputs_are_told(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(**{name: name for name in "abcdef"})

    def dying(batch: Sample) -> Sample:
        mark = tmp_path / "mark"
        if "b" in batch["path"] and not mark.exists():
            mark.touch()
            os._exit(3)
        return batch

    packed = cw.pack(Texts(texts.folder), texts.store, dying, batched=True, batch_size=5, workers=1, progress=False)
    assert isinstance(packed, cw.Packed)
    assert packed.notes == (
        "a worker process ended with exit code 3 while it did a, b, c, ...; another one took its place",
    )


def test_inputs_without_names_are_told_by_their_numbers(dest: Path, tmp_path: Path) -> None:
    def dying(batch: Sample) -> Sample:
        mark = tmp_path / "mark"
        if 13 in batch["number"] and not mark.exists():
            mark.touch()
            os._exit(3)
        return batch

    packed = pack(Numbers(40), dest, dying, workers=1, batched=True, batch_size=5)
    assert packed.notes == (
        "a worker process ended with exit code 3 while it did inputs 10 to 14; another one took its place",
    )


def test_a_job_without_deaths_has_no_notes(dest: Path) -> None:
    assert pack(Numbers(40), dest, workers=1).notes == ()
