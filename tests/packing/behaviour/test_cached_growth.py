"""``cw.cached`` when its source has changed: files are followed, datasets may grow, what else differs is refused."""

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cordwood.errors import UsageError
from tests.packing.support.cached_items import Items, cached, numbered
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.textfolder import Folder, Texts, split
from tests.store.support.photos import files_of


@pytest.fixture
def dest() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made / "x.cordwood"


@pytest.fixture(autouse=True)
def nothing_read() -> None:
    Items.read.clear()


def test_files_that_come_go_and_change_are_followed(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    options = {"shard_bytes": 450, "on_error": "skip"}
    texts.write(a="a1 a2", b="b1", c="c1 c2")
    source = Texts(texts.folder)
    cached(source, texts.store, split, **options)
    texts.assert_good("a", "b", "c")
    texts.write(b="b7 b8", d="d1")
    texts.remove("a")
    found = cached(source := Texts(texts.folder), texts.store, split, **options)
    assert sorted(set(source.read)) == ["b", "d"]
    assert len(found) == 5
    texts.assert_good("b", "c", "d")
    cached(source := Texts(texts.folder), texts.store, split, **options)
    assert source.read == []


def test_items_behind_the_old_ones_are_added(dest: Path) -> None:
    cached(numbered(*range(50)), dest)
    Items.read.clear()
    assert [sample["number"] for sample in cached(numbered(*range(70)), dest)] == list(range(70))
    assert set(Items.read) == {0, 7, 14, 21, 28, 35, 42, 49, *range(50, 70)}
    Items.read.clear()
    cached(numbered(*range(70)), dest)
    assert Items.read == []


@pytest.mark.parametrize("batch", [1, 4])
@pytest.mark.parametrize(
    ("items", "differs"),
    [
        ([9, *range(1, 30)], "item 0 "),  # another dataset
        ([*range(10), 99, *range(10, 30)], r"item (10|8) "),  # a file that sorts in between
    ],
)
def test_items_that_come_before_the_last_old_one_are_refused(
    dest: Path, batch: int, items: list[int], differs: str
) -> None:
    options: dict[str, Any] = {"transform": lambda sample: sample, "shard_bytes": 100}
    if batch > 1:
        options |= {"batched": True, "batch_size": batch}
    cached(numbered(*range(20)), dest, **options)
    before = files_of(dest)
    with pytest.raises(UsageError, match=f"has {len(items)} items, but {differs}is not the one that .*x.cordwood was"):
        cached(numbered(*items), dest, **options)
    assert files_of(dest) == before
    assert len(cached(numbered(*range(20)), dest, **options)) == 20


def test_items_of_several_samples_and_of_none_are_compared(dest: Path) -> None:
    def copies(sample: dict[str, int]) -> list[dict[str, int]]:
        return [sample] * (sample["number"] % 3)

    cached(numbered(*range(100)), dest, copies, shard_bytes=100)
    expected = [number for number in range(120) for _ in range(number % 3)]
    assert [one["number"] for one in cached(numbered(*range(120)), dest, copies, shard_bytes=100)] == expected


@pytest.mark.parametrize("copies", [1, 3])
def test_batches_that_begin_in_one_shard_and_end_in_another_are_compared(dest: Path, copies: int) -> None:
    def several(batch: dict[str, torch.Tensor]) -> list[dict[str, int]]:
        return [{"number": number} for number in batch["number"].tolist() for _ in range(copies)]

    transform = several if copies > 1 else lambda batch: batch
    options: dict[str, Any] = {"transform": transform, "batched": True, "batch_size": 4, "shard_bytes": 100}
    found = []
    for count in (20, 30):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = [one["number"] for one in cached(numbered(*range(count)), dest, **options)]
    assert found == [number for number in range(30) for _ in range(copies)]


@pytest.mark.parametrize("place", [2, 3])
def test_an_item_between_the_first_and_the_last_that_has_changed_is_refused(dest: Path, place: int) -> None:
    cached(numbered(*range(6)), dest)
    changed = [*range(8)]
    changed[place] = 99
    before = files_of(dest)
    with pytest.raises(UsageError, match=f"item {place} is not the one"):
        cached(numbered(*changed), dest)
    assert files_of(dest) == before


def test_a_grown_dataset_with_other_code_is_refused(dest: Path) -> None:
    def dataset(count: int, text: str) -> Any:
        found: dict[str, Any] = {"Items": Items, "__name__": "made_here"}
        lines = f"class Changes(Items):\n    def __getitem__(self, number):\n        return {text}\n"
        exec(lines, found)
        return found["Changes"](*range(count))

    cached(dataset(20, "number"), dest)
    before = files_of(dest)
    changed = "99 if number == 3 else number"
    with pytest.raises(UsageError, match=r"is not what .*x.cordwood was packed from: its code has changed"):
        cached(dataset(30, changed), dest)
    assert files_of(dest) == before
    assert list(cached(dataset(30, "number"), dest)) == list(range(30))
    assert len(cached(dataset(40, changed), dest, accept_changed_transform=True)) == 40


class Fails(Items):
    """Fails for some items, and records it."""

    def __init__(self, count: int, *fail: int) -> None:
        super().__init__(*range(count))
        self._fail = fail

    def __getitem__(self, number: int) -> Any:
        item = super().__getitem__(number)
        if number in self._fail:
            raise ValueError("out of reach")
        return item


@pytest.mark.filterwarnings("ignore:.*failed and were left out")
def test_items_that_failed_are_not_made_again(dest: Path) -> None:
    failing = (0, 4, 9)
    cached(Fails(10, *failing), dest, on_error="skip")
    assert sorted(Items.read) == sorted([*range(10), *({*range(8)} - {*failing})])  # of the first eight, once more
    Items.read.clear()
    assert len(cached(Fails(12, *failing), dest, on_error="skip")) == 9
    assert not {*failing} & {*Items.read}


def test_an_item_that_fails_now_is_named_with_its_error(dest: Path) -> None:
    cached(Fails(10), dest)
    with pytest.raises(UsageError, match=r"item 9 fails now \(ValueError: out of reach\), although .*x.cordwood was"):
        cached(Fails(12, 9), dest, on_error="skip")


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (range(1, 11), "its code, its arguments or its data are others. Pack to another path, or delete .*x.cordwood"),
        (range(5), "holds 10 inputs, and the source has 5 now.*pack to another path, or delete .*x.cordwood"),
    ],
)
def test_a_dataset_that_is_another_one_or_shorter_is_refused(dest: Path, items: range, words: str) -> None:
    cached(numbered(*range(10)), dest)
    before = files_of(dest)
    with pytest.raises(UsageError, match=words):
        cached(numbered(*items), dest)
    assert files_of(dest) == before


def test_an_update_that_was_interrupted_is_finished(dest: Path) -> None:
    cached(numbered(*range(50)), dest)

    class Stop(Exception):  # noqa: N818 - no error
        pass

    def stop(state: Any) -> None:
        if state.inputs:
            raise Stop

    with pytest.raises(Stop):
        cached(numbered(*range(5000)), dest, progress=stop)
    assert json.loads((dest / "pack.json").read_text())["fingerprint"].startswith("updating:")
    assert [sample["number"] for sample in cached(numbered(*range(5000)), dest)] == list(range(5000))
