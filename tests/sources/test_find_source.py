"""`find`: which source is meant."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from cordwood.errors import StorageError, UsageError
from cordwood.sources import DatasetSource, IterableSource, find
from cordwood.sources.files.sniff import survey
from tests.sources import photos


class ByNumber(Dataset[int]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> int:
        return number


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter((1, 2))

    def __len__(self) -> int:
        return 2


def numbers() -> Iterator[int]:
    yield 1


def images(root: Path) -> Path:
    photos.write(root, "cat/1.png")
    return root


def tensors(root: Path) -> Path:
    torch.save({"x": torch.ones(2)}, root / "1.pt")
    return root


def one_file(root: Path) -> Path:
    np.savez(root / "all.npz", x=np.ones((3, 2)))
    return root / "all.npz"


def manifest(root: Path) -> Path:
    (root / "list.csv").write_text("path,label\n1.png,2\n")
    return root / "list.csv"


class TestObjects:
    @pytest.mark.parametrize(
        ("found", "kind"),
        [
            (ByNumber(), "dataset"),
            (TensorDataset(torch.zeros(2, 3)), "dataset"),
            ([1, 2], "dataset"),
            (torch.zeros(2), "dataset"),
            ({"x": torch.zeros(2)}, "dataset"),
            (Stream(), "iterable"),
            (iter([1]), "iterable"),
            (numbers, "iterable"),
            (numbers(), "iterable"),
            ({1, 2}, "iterable"),
        ],
    )
    def test_told_by_what_they_can_do(self, found: Any, kind: str) -> None:
        assert find(found).kind == kind

    def test_two_tensors_are_columns_not_samples(self) -> None:
        assert find((torch.zeros(5, 2), torch.zeros(5))).count == 5

    def test_a_dataset_is_iterated_where_that_is_asked_for(self) -> None:
        assert isinstance(find([1, 2], "iterable"), IterableSource)

    def test_what_samples_come_from_is_what_was_given(self) -> None:
        """It is compared by a job that goes on."""
        found: Any
        for found in ([1, 2], {"x": torch.zeros(2)}, torch.zeros(2), ByNumber(), Stream(), numbers, numbers()):
            assert find(found).origin() is found

    def test_a_source_passes(self) -> None:
        source = DatasetSource([1])
        assert find(source) is source

    @pytest.mark.parametrize(
        ("found", "kind", "message"),
        [
            (DataLoader(ByNumber()), None, r"pack its dataset \(loader.dataset\)"),
            (3, None, "builtins.int cannot be packed"),
            (len, None, "builtins.len cannot be packed"),
            ([1], "images", "kind 'images' is for paths"),
            (iter("a"), "dataset", "is no dataset"),
            ({"w": torch.zeros(3), "b": torch.zeros(4)}, None, "no first dimension in common"),
        ],
    )
    def test_refused(self, found: Any, kind: str | None, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            find(found, kind)


class TestNames:
    @pytest.fixture(autouse=True)
    def module(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "found_by_name.py").write_text(
            "import torch\n"
            "samples = [1, 2, 3]\n"
            "def stream(): yield from samples\n"
            "def listed(): return samples\n"
            "def needs(path): return samples\n"
            "def a_path(): return '.'\n"
            "class Data(torch.utils.data.Dataset):\n"
            "    def __len__(self): return 4\n"
            "    def __getitem__(self, number): return number\n"
        )
        monkeypatch.syspath_prepend(tmp_path)

    @pytest.mark.parametrize(
        ("name", "kind", "count"),
        [("samples", "dataset", 3), ("stream", "iterable", None), ("listed", "dataset", 3), ("Data", "dataset", 4)],
    )
    def test_imported_and_called(self, name: str, kind: str, count: int | None) -> None:
        source = find(f"found_by_name:{name}")
        assert (source.kind, source.count) == (kind, count)
        assert source.describe()["object"] == f"found_by_name:{name}"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("found_by_name:needs", r"needs arguments \(path\)"),
            ("found_by_name:nothing", "has no 'nothing'"),
            ("not_a_module_here:x", "finds no 'not_a_module_here'"),
            ("found_by_name:a_path", "give that path itself"),
            ("nowhere", "there is no 'nowhere'"),
            ("", "there is no ''"),
        ],
    )
    def test_refused(self, text: str, message: str) -> None:
        with pytest.raises(UsageError, match=message):
            find(text)

    def test_a_generator_function_can_be_gone_through_again(self) -> None:
        source = find("found_by_name:stream")
        assert [len(list(source.inputs())), len(list(source.inputs(1)))] == [3, 2]


class TestPaths:
    @pytest.mark.parametrize(
        ("make", "kind"),
        [(images, "images"), (tensors, "tensors"), (one_file, "file"), (manifest, "manifest")],
    )
    def test_told_by_content(self, make: Any, kind: str, tmp_path: Path) -> None:
        made = make(tmp_path)
        for form in (made, str(made), os.fsencode(made)):
            assert find(form).kind == kind

    def test_two_kinds_in_one_folder_are_counted_and_one_must_be_named(self, tmp_path: Path) -> None:
        photos.write(tmp_path, "1.png", "2.png")
        tensors(tmp_path)
        with pytest.raises(UsageError, match=r"2 of images, 1 of tensors\) may be images or tensors: say which by sou"):
            find(tmp_path)
        assert find(tmp_path, "images").count == 2

    @pytest.mark.parametrize(
        ("files", "message"),
        [
            ([], "has no files in it; hidden ones"),
            (["a.txt", "b.txt", "C.TXT", "README"], "(3 *.txt, 1 without an ending) is of no kind"),
            (["store.json"], "is a packed store already"),
        ],
    )
    def test_a_folder_of_nothing_known_is_told_of(self, files: list[str], message: str, tmp_path: Path) -> None:
        for name in files:
            (tmp_path / name).write_text("text")
        with pytest.raises(UsageError) as caught:
            find(tmp_path)
        assert message in str(caught.value)

    def test_a_folder_that_cannot_be_listed_is_not_called_empty(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(folder: str) -> NoReturn:
            raise PermissionError(13, "Permission denied", folder)

        assert survey(tmp_path).is_empty
        monkeypatch.setattr("cordwood.sources.files.sniff.os.scandir", refuse)
        assert not survey(tmp_path).is_empty

    def test_an_unknown_kind_names_those_there_are(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="no kind of source 'tfrecord'; known are images, unlabelled, manifest"):
            find(tmp_path, "tfrecord")

    def test_a_kind_of_objects_is_not_for_paths(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="is for Python objects"):
            find(tmp_path, "dataset")

    def test_what_is_neither_file_nor_folder_is_not_opened(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(UsageError, match="neither file nor folder"):
            find(tmp_path / "pipe")

    def test_a_path_that_cannot_be_looked_at(self) -> None:
        with pytest.raises(StorageError, match="cannot be looked at"):
            find("a" * 5000)
