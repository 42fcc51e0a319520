"""``cw.cached``: packs when it must, opens when it can, and refuses what is another job's."""

import inspect
import logging
import os
import random
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from torch.utils.data import DataLoader, Subset, TensorDataset

import cordwood as cw
from cordwood.errors import FormatError, PackError, StorageError, UsageError
from cordwood.store.format.lock import WriterLock
from tests.packing.support import cached_items
from tests.packing.support.cached_items import Items, cached, numbered, stopped_in
from tests.packing.support.memory import folder_in_memory
from tests.sources import photos
from tests.store.support.photos import files_of
from tests.store.support.samples import assert_same_sample, datasets


@pytest.fixture
def dest() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made / "x.cordwood"


@pytest.fixture(autouse=True)
def nothing_read() -> None:
    Items.read.clear()


class Point(NamedTuple):
    image: torch.Tensor
    label: int


def doubled(sample: dict[str, Any]) -> dict[str, Any]:
    return {**sample, "number": 2 * sample["number"]}


# ---- what comes out ------------------------------------------------------------------------------------------------


def test_it_packs_once_and_opens_from_then_on(dest: Path) -> None:
    found = cached(numbered(*range(20)), dest, doubled)
    assert [sample["number"] for sample in found] == list(range(0, 40, 2))
    before = files_of(dest)
    Items.read.clear()
    assert len(cached(numbered(*range(20)), dest, doubled)) == 20
    assert Items.read == []
    assert files_of(dest) == before
    assert [path.name for path in dest.parent.iterdir()] == [dest.name]


def test_the_store_has_the_bytes_that_pack_gives_it(dest: Path) -> None:
    cached(numbered(*range(300)), dest, doubled, shard_bytes=1000)
    other = dest.with_name("other")
    cw.pack(numbered(*range(300)), other, doubled, shard_bytes=1000, workers=0, progress=False)
    assert files_of(dest) == files_of(other)


@hypothesis_settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(datasets())
def test_samples_keep_their_structure_and_their_bits(samples: list[Any]) -> None:
    with folder_in_memory() as folder:
        found = cached(Items(*samples), folder / "s")
        for sample, expected in zip(found, samples, strict=True):
            assert_same_sample(sample, expected)


@pytest.mark.parametrize(
    "wrap",
    [tuple, Point._make, lambda pair: dict(zip(("image", "label"), pair, strict=True))],
    ids=["tuple", "namedtuple", "dict"],
)
def test_a_data_loader_gives_the_batches_that_it_gives_of_the_dataset(dest: Path, wrap: Callable[[Any], Any]) -> None:
    items: Any = Items(*(wrap((torch.full((3, 4), float(number)), number % 3)) for number in range(10)))
    found = cached(items, dest)
    for batch, expected in zip(DataLoader(found, batch_size=4), DataLoader(items, batch_size=4), strict=True):
        assert type(batch).__name__ == type(expected).__name__
        values, others = (each.values() if isinstance(each, dict) else each for each in (batch, expected))
        assert all(torch.equal(value, other) for value, other in zip(values, others, strict=True))


def test_datasets_of_torch_and_folders_that_look_like_image_folders(dest: Path) -> None:
    columns = TensorDataset(torch.arange(10.0), torch.arange(10) % 3)
    assert cached(columns, dest)[4] == columns[4]
    part = Subset(columns, [7, 2])
    assert list(cached(part, dest.with_name("part"))) == [columns[7], columns[2]]

    class ImageFolder:  # as torchvision's
        classes = ["cat", "dog"]
        samples = [("cat/1.jpg", 0), ("dog/1.jpg", 1)]

        def __len__(self) -> int:
            return len(self.samples)

        def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
            path, label = self.samples[number]
            return torch.full((3, 2, 2), len(path), dtype=torch.uint8), label

    image, label = cached(ImageFolder(), dest.with_name("images"))[1]
    assert image.tolist() == torch.full((3, 2, 2), 9).tolist()
    assert label == 1


def test_it_takes_the_options_of_pack_and_has_their_defaults() -> None:
    ours, theirs = ({**inspect.signature(function).parameters} for function in (cw.cached, cw.pack))
    assert next(iter(ours.values())) == theirs["source"]
    for name in ("update", "limit", "part"):
        del theirs[name]
        with pytest.raises(UsageError, match=rf"cw\.cached has no argument '{name}': that is"):
            cached([1], Path("x"), **{name: 1})
    assert [*ours] == ["path" if name == "dest" else name for name in theirs]
    assert all(ours[name] == theirs[name] for name in ours if name != "path")


def test_what_can_be_gone_through_once_is_not_gone_through_without_need(dest: Path) -> None:
    def stream() -> Iterator[int]:
        yield from range(5)

    assert list(cached(stream(), dest)) == [0, 1, 2, 3, 4]
    again = stream()
    assert len(cached(again, dest)) == 5
    assert next(again) == 0


def test_left_out_inputs_are_told_each_time(dest: Path) -> None:
    class Odd(Items):
        def __getitem__(self, number: int) -> Any:
            if number == 3:
                raise ValueError("out of reach")
            return super().__getitem__(number)

    for _ in range(2):
        with pytest.warns(UserWarning, match="1 of 5 inputs failed and were left out") as caught:
            assert len(cached(Odd(*range(5)), dest, on_error="skip")) == 4
        assert caught[0].filename == cached_items.__file__


def test_a_failure_is_that_of_pack_and_what_is_done_is_kept(dest: Path) -> None:
    def fails(sample: dict[str, int]) -> dict[str, int]:
        if os.environ.get("CACHED_FAILS"):
            raise ValueError("broken")
        return sample

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CACHED_FAILS", "1")
        with pytest.raises(PackError, match="broken"):
            cached(numbered(*range(5)), dest, fails)
    assert len(cached(numbered(*range(5)), dest, fails)) == 5


# ---- what is another job's -----------------------------------------------------------------------------------------


OTHERS: list[tuple[dict[str, Any], str]] = [
    ({"goal": "small"}, 'the options had goal "balanced", and have "small" now'),
    ({"seed": 3}, "the options had seed 0, and have 3 now"),
    ({"batched": True, "batch_size": 5}, "the options had batch_size null, and have 5 now"),
    ({"fields": {"x": cw.Field(store_as="bfloat16")}}, 'fields.x.store_as "float16", and have "bfloat16" now'),
    ({"transform": lambda sample: sample}, "the transform was .*doubled and is .*lambda.* now"),
    ({"transform": None}, "the transform was .*doubled and is none now"),
    ({"version": "2"}, "the transform's version was None and is '2' now"),
]


@pytest.mark.parametrize("complete", [True, False], ids=["complete", "begun"])
@pytest.mark.parametrize(("other", "words"), OTHERS)
def test_other_options_are_refused_with_both_values_and_the_place(
    dest: Path, other: dict[str, Any], words: str, complete: bool
) -> None:
    items = Items(*({"number": number, "x": torch.tensor([0.5, number])} for number in range(300)))
    options: dict[str, Any] = {"transform": doubled, "fields": {"x": cw.Field(store_as="float16")}}
    if complete:
        cached(items, dest, **options)
    else:
        stopped_in(items, dest, **options)
    before = files_of(dest)
    with pytest.raises(UsageError, match=words) as caught:
        cached(items, dest, **{**options, **other})
    assert str(dest) in str(caught.value)
    assert f"another path, or delete {dest} to pack it anew" in str(caught.value)
    assert files_of(dest) == before
    assert len(cached(items, dest, **options)) == 300


def test_another_folder_and_images_that_are_decoded_otherwise_are_refused(tmp_path: Path) -> None:
    photos.write(tmp_path / "photos", "cat/1.png", "dog/1.png")
    assert cached(tmp_path / "photos", tmp_path / "s").classes == ["cat", "dog"]
    shutil.copytree(tmp_path / "photos", tmp_path / "others")
    with pytest.raises(UsageError, match=r'the source had path ".*photos", and has ".*others" now'):
        cached(tmp_path / "others", tmp_path / "s")
    with pytest.raises(UsageError, match='the source had decode "tensor", and has "none" now'):
        cached(tmp_path / "photos", tmp_path / "s", decode="none")


def writer(dest: Path) -> None:
    with cw.Writer(dest) as store:
        store.append({"number": 1})


def salvaged(dest: Path) -> None:
    cached(numbered(1), dest.with_name("whole"))
    cw.salvage(dest.with_name("whole"), dest)


def merged(dest: Path) -> None:
    for name in ("one", "two"):
        writer(dest.with_name(name))
    cw.merge([dest.with_name("one"), dest.with_name("two")], dest)


def exported(dest: Path) -> None:
    cached(numbered(1), dest.with_name("whole"))
    cw.export(dest.with_name("whole"), dest, to="pt")


def part(dest: Path) -> None:
    cw.pack(numbered(1), dest, part="1/1", workers=0, progress=False)


def damaged(dest: Path) -> None:
    cached(numbered(1), dest)
    (dest / "pack.json").write_text("{}")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (writer, r"was not made by cw\.pack: .*pack to another place"),
        (salvaged, r"was not made by cw\.pack: .*pack to another place"),
        (merged, r"was not made by cw\.pack: .*pack to another place"),
        (exported, "holds other things .*choose another name"),
        (part, "holds part 1 of 1, and the whole is asked for"),
        (damaged, r"pack\.json: .*cordwood_pack"),
        (lambda dest: dest.write_text("hello"), "is a file, but a store is a folder: choose another name"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_not_a_packed_store_is_refused_and_left_alone(
    dest: Path, make: Callable[[Path], object], words: str
) -> None:
    make(dest)
    before = files_of(dest) if dest.is_dir() else {"": dest.read_bytes()}
    with pytest.raises(cw.CordwoodError, match=words):
        cached(numbered(1), dest)
    assert (files_of(dest) if dest.is_dir() else {"": dest.read_bytes()}) == before


def test_parts_that_are_merged_are_the_job(dest: Path) -> None:
    for number in (1, 2):
        cw.pack(numbered(*range(10)), dest.with_name(f"{number}"), part=(number, 2), workers=0, progress=False)
    cw.merge([dest.with_name("1"), dest.with_name("2")], dest)
    Items.read.clear()
    assert len(cached(numbered(*range(10)), dest)) == 10
    assert Items.read == []


def test_a_place_in_a_folder_that_is_missing(dest: Path) -> None:
    place = dest / "below"
    with pytest.raises(StorageError, match="the store's folder cannot be made; make the folder above it first") as ours:
        cached(numbered(1), place)
    with pytest.raises(StorageError) as theirs:
        cw.pack(numbered(1), place, workers=0, progress=False)
    assert str(ours.value) == str(theirs.value)
    assert not dest.exists()


def test_a_store_without_one_of_its_shards_is_damaged(dest: Path) -> None:
    cached(numbered(*range(50)), dest, shard_bytes=100)
    (dest / "shard-00000001.cws").unlink()
    with pytest.raises(FormatError, match=r"x.cordwood is damaged: shard-00000001.cws is missing.*or delete .* anew"):
        cached(numbered(*range(50)), dest, shard_bytes=100)


def test_the_index_that_was_made_again_is_the_callers_warning(dest: Path) -> None:
    cached(numbered(*range(50)), dest, shard_bytes=100)
    (dest / "shards.bin").unlink()
    with pytest.warns(
        UserWarning, match=r"the file is missing or empty \(and \d+ more problems\); the index"
    ) as caught:
        cached(numbered(*range(50)), dest, shard_bytes=100)
    assert [one.filename for one in caught] == [cached_items.__file__]


def test_the_environment_is_left_as_it_was(dest: Path) -> None:
    before = dict(os.environ)
    cached(numbered(1), dest)
    assert dict(os.environ) == before


# ---- random samples ------------------------------------------------------------------------------------------------


class Augmented(Items):
    """Flips its items by chance, as datasets with augmentation do."""

    def __getitem__(self, number: int) -> Any:
        item = super().__getitem__(number)
        return item.flip(0) if random.random() < 0.5 else item


@pytest.mark.parametrize("batched", [False, True])
def test_random_samples_are_reported_when_they_are_packed(dest: Path, batched: bool) -> None:
    items = Augmented(*(torch.arange(4) + number for number in range(20)))
    options: dict[str, Any] = {"transform": lambda batch: batch, "batched": True} if batched else {}
    with pytest.warns(UserWarning, match=r"different when they are made again: .*x\.cordwood holds") as caught:
        cached(items, dest, **options)
    assert caught[0].filename == cached_items.__file__
    cached(items, dest, **options)  # without a warning: nothing is made


def test_a_transform_that_writes_to_its_sample_is_not_random_and_is_not_applied_twice(dest: Path) -> None:
    samples = [{"x": torch.zeros(3)} for _ in range(4)]

    def adds(sample: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        sample["x"] += 1
        return sample

    assert [sample["x"].tolist() for sample in cached(samples, dest, adds)] == [[1.0] * 3] * 4


class Counting(Items):
    """Has a state that each read changes."""

    def __init__(self, *items: Any) -> None:
        super().__init__(*items)
        self._reads = 0

    def __getitem__(self, number: int) -> Any:
        self._reads += 1
        return self._reads


def test_the_check_for_random_samples_does_not_change_what_is_stored(dest: Path) -> None:
    with pytest.warns(UserWarning, match="come out different"):
        assert list(cached(Counting(*range(20)), dest)) == list(range(1, 21))


# ---- another writer ------------------------------------------------------------------------------------------------


class Released(logging.Handler):
    """Releases a lock when a process says that it waits for it."""

    def __init__(self, lock: WriterLock) -> None:
        super().__init__()
        self.said: list[str] = []
        self._lock = lock

    def emit(self, record: logging.LogRecord) -> None:
        if "waiting" in record.getMessage():
            self.said.append(record.getMessage())
            self._lock.release()


@pytest.mark.parametrize("whose", ["cached", "pack"])
@pytest.mark.parametrize("progress", [None, False])
def test_the_lock_of_another_writer_is_waited_for(
    dest: Path, whose: str, progress: bool | None, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "cordwood.pack")
    if whose == "cached":
        lock = WriterLock(dest.parent, f".{dest.name}.turn")
    else:
        dest.mkdir()
        lock = WriterLock(dest)
    handler = Released(lock)
    logger = logging.getLogger("cordwood.pack")
    logger.addHandler(handler)
    try:
        assert len(cached(numbered(1, 2), dest, progress=progress)) == 2
    finally:
        logger.removeHandler(handler)
    (said,) = handler.said
    assert re.fullmatch(rf"waiting for process {os.getpid()} on \S+, which packs {re.escape(str(dest))}", said)
    assert capsys.readouterr().err == ("" if progress is False else f"cordwood: {said}\n")
    assert [path.name for path in dest.parent.iterdir()] == [dest.name]
