"""Packed column arrays, and frames that lie apart: the same bytes whoever packs, and nothing is lost by updates."""

from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from tests.packing.support.textfolder import Texts

COUNT = 600


class Vectors:
    """Samples with a vector, of another length now and then, and missing in some."""

    def __init__(self, count: int = COUNT) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> dict[str, Any]:
        if number >= self._count:
            raise IndexError(number)
        made = torch.rand(8 if number % 30 else number % 7, generator=torch.Generator().manual_seed(number))
        return {"number": number, "x": None if number % 41 == 40 else made, "y": torch.arange(5) + number * 1_000_003}


def files_of(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in [*path.glob("shard*"), *path.glob("plans/*"), path / "store.json"]}


def packed(path: Path, source: Any = None, **options: Any) -> Path:
    cw.pack(
        source or Vectors(), path, **{"goal": "raw", "workers": 0, "progress": False, "shard_bytes": 6000, **options}
    )
    return path


def assert_holds(path: Path, count: int) -> None:
    assert cw.verify(path).ok, str(cw.verify(path))
    ds, source = cw.open(path), Vectors(count)
    assert len(ds) == count
    assert "in columns of shape (8,)" in str(ds.schema)
    for number, found in enumerate(ds):
        expected = source[number]["x"]
        assert found["number"] == number
        assert torch.equal(found["y"], source[number]["y"])
        assert found["x"] is None if expected is None else torch.equal(found["x"], expected)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(tmp_path_factory.mktemp("whole") / "s")


def test_samples_come_back(whole: Path) -> None:
    assert len(list(whole.glob("shard-*"))) > 5
    assert_holds(whole, COUNT)


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_workers_gives_the_same_bytes(workers: int, whole: Path, tmp_path: Path) -> None:
    assert files_of(packed(tmp_path / "s", workers=workers)) == files_of(whole)


class Stop(Exception):  # noqa: N818 - no error
    """Stops a job from its progress."""


def test_a_stopped_job_goes_on_to_the_same_bytes(whole: Path, tmp_path: Path) -> None:
    def stop(state: Any) -> None:
        if state.inputs >= 400:
            raise Stop

    with pytest.raises(Stop):
        packed(tmp_path / "s", progress=stop)
    assert files_of(packed(tmp_path / "s")) == files_of(whole)


def test_parts_are_merged_to_the_samples_of_one_run(tmp_path: Path) -> None:
    parts = [packed(tmp_path / str(part), part=f"{part}/3") for part in (1, 2, 3)]
    cw.merge(parts, tmp_path / "all")
    assert_holds(tmp_path / "all", COUNT)


def test_an_update_adds_what_is_new(tmp_path: Path) -> None:
    packed(tmp_path / "s", Vectors(500))
    packed(tmp_path / "s", update=True)
    assert_holds(tmp_path / "s", COUNT)


def vectors_of(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """A sample a word, whose vector has as many numbers as the word has letters."""
    return [{"x": torch.arange(float(len(word))), "word": word} for word in sample["text"].split()]


def texts(folder: Path, **changed: str) -> list[str]:
    """Files of 60 words each, the files sorted by name; the words."""
    folder.mkdir(exist_ok=True)
    for number in range(8):
        words = " ".join(f"{number:04}{i:04}" + "x" * (i % 30 == 20) for i in range(60))
        if not (folder / f"{number}.txt").exists():
            (folder / f"{number}.txt").write_text(words)
    for name, text in changed.items():
        (folder / f"{name[1:]}.txt").write_text(text)
    return [word for path in sorted(folder.iterdir()) for word in path.read_text().split()]


def test_an_update_writes_shards_anew_with_frames_that_lie_apart(tmp_path: Path) -> None:
    texts(tmp_path / "texts")
    options: dict[str, Any] = {"transform": vectors_of, "shard_bytes": 3000}
    packed(tmp_path / "s", Texts(tmp_path / "texts"), **options)
    before = files_of(tmp_path / "s")
    words = texts(tmp_path / "texts", f3="12345678 123456789 1")
    packed(tmp_path / "s", Texts(tmp_path / "texts"), update=True, **options)
    assert cw.verify(tmp_path / "s").ok, str(cw.verify(tmp_path / "s"))
    found = list(cw.open(tmp_path / "s"))
    assert [sample["word"] for sample in found] == words
    assert [sample["x"].tolist() for sample in found] == [[*range(len(word))] for word in words]
    assert "in columns of shape (8,)" in str(cw.open(tmp_path / "s").schema)
    assert files_of(tmp_path / "s") != before


def test_a_loader_gives_what_the_dataset_has(whole: Path) -> None:
    ds, source = cw.open(whole), Vectors()
    loader = cw.Loader(ds, batch_size=16, shuffle=True, seed=3, collate={"x": ("pad", -1)})
    seen = []
    for batch in loader:
        for number, row, length, y in zip(
            batch["number"], batch["x"].values, batch["x"].lengths, batch["y"], strict=True
        ):
            expected = source[int(number)]["x"]
            seen.append(int(number))
            assert torch.equal(y, source[seen[-1]]["y"])
            assert int(length) == (0 if expected is None else len(expected))
            assert expected is None or torch.equal(row[: len(expected)], expected)
            assert (row[int(length) :] == -1).all()
    assert sorted(seen) == list(range(COUNT))


def test_a_loader_does_not_take_vectors_for_images(whole: Path) -> None:
    ds = cw.open(whole)
    with pytest.raises(cw.UsageError, match=r"field 'x' has shape \(8,\), but images have three dimensions"):
        cw.Loader(ds, normalize={"x": (0.5, 0.5)})
    assert len(list(cw.Loader(ds.select("y"), batch_size=100, channels_last=True))) == 6
