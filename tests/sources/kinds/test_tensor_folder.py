"""Folders of tensor files, and one file that holds everything."""

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pytest
import torch

import cordwood.tensors
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.sources import Source, SourceOptions, find


def samples(source: Source, start: int = 0) -> list[Any]:
    reader = cloudpickle.loads(cloudpickle.dumps(source.reader()))
    return [reader(pickle.loads(pickle.dumps(given.handle))) for given in source.inputs(start)]


def same(found: Any, expected: Any) -> None:
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


class TestFolder:
    def test_every_format_by_its_content(self, tmp_path: Path) -> None:
        sample = {"x": torch.arange(3), "y": torch.ones(2)}
        (tmp_path / "deep").mkdir()
        torch.save(sample, tmp_path / "a.pt")
        torch.save(sample, tmp_path / "b.pth", _use_new_zipfile_serialization=False)
        cordwood.tensors.save(sample, tmp_path / "c.cord")
        np.savez(tmp_path / "d.npz", x=sample["x"].numpy(), y=sample["y"].numpy())
        torch.save(sample, tmp_path / "e.bin")
        buffer = io.BytesIO()
        torch.save(sample, buffer)
        with zipfile.ZipFile(tmp_path / "deep" / "f.pt.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("f.pt", buffer.getvalue())
        (tmp_path / "readme.md").write_text("text")
        source = find(tmp_path)
        assert source.kind == "tensors"
        names = [given.name for given in source.inputs()]
        assert names == ["a.pt", "b.pth", "c.cord", "d.npz", "e.bin", "deep/f.pt.zip"]
        assert source.count == 6
        for found in samples(source):
            same(found, sample)
        assert source.notes == ["left out, of another kind: readme.md"]

    def test_safetensors(self, tmp_path: Path) -> None:
        save_file = pytest.importorskip("safetensors.torch").save_file
        save_file({"x": torch.arange(3)}, tmp_path / "a.safetensors")
        same(samples(find(tmp_path)), [{"x": torch.arange(3)}])

    def test_a_lone_tensor_gets_a_name_and_its_path(self, tmp_path: Path) -> None:
        torch.save(torch.arange(3), tmp_path / "a.pt")
        np.save(tmp_path / "b.npy", np.arange(3))
        first, second = samples(find(tmp_path))
        assert (first["path"], second["path"]) == ("a.pt", "b.npy")
        same([first["tensor"], second["tensor"]], [torch.arange(3)] * 2)

    def test_other_objects_stay_what_they_are(self, tmp_path: Path) -> None:
        torch.save((torch.arange(3), "name", 5), tmp_path / "a.pt")
        ((tensor, name, number),) = samples(find(tmp_path))
        assert (tensor.tolist(), name, number) == ([0, 1, 2], "name", 5)

    def test_names_sizes_dates_and_fingerprint(self, tmp_path: Path) -> None:
        torch.save(torch.arange(3), tmp_path / "a.pt")
        source = find(tmp_path)
        (only,) = source.inputs()
        status = (tmp_path / "a.pt").stat()
        assert (only.name, only.size, only.stamp) == ("a.pt", status.st_size, status.st_mtime_ns)
        assert source.describe() == {"kind": "tensors", "path": str(tmp_path.resolve())}
        os.utime(tmp_path / "a.pt", ns=(1, 1))
        assert find(tmp_path).fingerprint() != source.fingerprint()

    def test_no_code_of_a_file_runs(self, tmp_path: Path) -> None:
        torch.save({"x": torch.ones(1)}, tmp_path / "a.pt")
        torch.save({"x": Evil()}, tmp_path / "b.pt")
        source = find(tmp_path)
        with pytest.raises(FormatError, match=r"^b\.pt: .*system"):
            samples(source, 1)

    @pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"text", b"\x93NUMPY"])
    def test_broken_files_are_named(self, tmp_path: Path, content: bytes) -> None:
        torch.save(torch.ones(1), tmp_path / "a.pt")
        (tmp_path / "b.pt").write_bytes(content)
        with pytest.raises(FormatError, match=r"^b\.pt: "):
            samples(find(tmp_path), 1)

    def test_what_vanished_or_became_a_pipe_is_named(self, tmp_path: Path) -> None:
        torch.save(torch.ones(1), tmp_path / "a.pt")
        source = find(tmp_path)
        (tmp_path / "a.pt").unlink()
        with pytest.raises(StorageError, match=r"a\.pt: there is no such file"):
            samples(source)
        os.mkfifo(tmp_path / "a.pt")
        with pytest.raises(StorageError, match=r"a\.pt: there is no such file"):
            samples(source)

    def test_links_out_of_the_folder_if_they_are_allowed(self, tmp_path: Path) -> None:
        (tmp_path / "in").mkdir()
        torch.save({"x": torch.arange(3)}, tmp_path / "elsewhere.pt")
        (tmp_path / "in" / "a.pt").symlink_to("../elsewhere.pt")
        with pytest.raises(FormatError, match=r"^a\.pt: it is a link .*outside of .*follow_links=True"):
            samples(find(tmp_path / "in"))
        same(samples(find(tmp_path / "in", options=SourceOptions(follow_links=True))), [{"x": torch.arange(3)}])

    def test_a_folder_without_tensors_says_what_it_holds(self, tmp_path: Path) -> None:
        (tmp_path / "a.txt").write_text("text")
        with pytest.raises(UsageError, match=r"holds no tensor files: found 1 \*\.txt"):
            find(tmp_path, "tensors")


class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor


class TestOneFile:
    @pytest.mark.parametrize(
        ("held", "third"),
        [
            ([{"x": torch.tensor(n), "y": n} for n in range(4)], {"x": torch.tensor(2), "y": 2}),
            (
                {"x": torch.arange(8).view(4, 2), "y": torch.arange(4)},
                {"x": torch.tensor([4, 5]), "y": torch.tensor(2)},
            ),
            ((torch.arange(8).view(4, 2), torch.arange(4)), (torch.tensor([4, 5]), torch.tensor(2))),
            ((torch.arange(4), [5, 6, 7, 8]), (torch.tensor(2), 7)),
            (torch.arange(8).view(4, 2), torch.tensor([4, 5])),
        ],
    )
    @pytest.mark.parametrize("ending", ["pt", "cord"])
    def test_samples(self, tmp_path: Path, held: Any, third: Any, ending: str) -> None:
        cordwood.tensors.save(held, tmp_path / f"all.{ending}")
        source = find(tmp_path / f"all.{ending}")
        assert (source.kind, source.count) == ("file", 4)
        same(samples(source, 2)[0], third)

    @pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
    def test_numpy_archives(self, tmp_path: Path, save: Any) -> None:
        save(tmp_path / "all.npz", x=np.arange(6).reshape(3, 2), names=np.array(["a", "b", "c"]))
        found = samples(find(tmp_path / "all.npz"))
        assert [(sample["x"].tolist(), sample["names"]) for sample in found] == [
            ([0, 1], "a"),
            ([2, 3], "b"),
            ([4, 5], "c"),
        ]

    def test_compressed_and_old_files(self, tmp_path: Path) -> None:
        cordwood.tensors.save([1, 2], tmp_path / "new.pt", compress=True)
        torch.save([1, 2], tmp_path / "old.pt", _use_new_zipfile_serialization=False)
        for name in ("new.pt", "old.pt"):
            assert samples(find(tmp_path / name)) == [1, 2]

    def test_a_sample_has_memory_of_its_own(self, tmp_path: Path) -> None:
        torch.save(torch.zeros(1000, 100), tmp_path / "all.pt")
        reader = find(tmp_path / "all.pt").reader()
        row = reader(3)
        row += 1
        assert row.untyped_storage().nbytes() == 400
        assert reader(3).sum() == 0

    def test_the_reader_travels_without_what_it_loaded(self, tmp_path: Path) -> None:
        torch.save(torch.zeros(1000, 100), tmp_path / "all.pt")
        reader = find(tmp_path / "all.pt").reader()
        reader(0)
        assert len(cloudpickle.dumps(reader)) < 1000

    def test_sizes_add_up_to_the_file(self, tmp_path: Path) -> None:
        torch.save(torch.zeros(7), tmp_path / "all.pt")
        source = find(tmp_path / "all.pt")
        sizes = [given.size for given in source.inputs()]
        assert sum(size or 0 for size in sizes) == (tmp_path / "all.pt").stat().st_size
        assert [given.size for given in source.inputs(3)] == sizes[3:]

    def test_the_fingerprint_is_of_the_file(self, tmp_path: Path) -> None:
        torch.save(torch.zeros(7), tmp_path / "all.pt")
        before = find(tmp_path / "all.pt").fingerprint()
        assert find(tmp_path / "all.pt").fingerprint() == before
        torch.save(torch.zeros(8), tmp_path / "all.pt")
        assert find(tmp_path / "all.pt").fingerprint() != before

    @pytest.mark.parametrize(
        ("held", "message"),
        [
            (
                torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 5)).state_dict(),
                r"all\.pt holds 0\.weight: Tensor\[4, 3\].*no first dimension in common.*checkpoint",
            ),
            ({"x": torch.zeros(3), "version": 1}, r"version: int, with no first dimension"),
            ({"x": torch.zeros(())}, "no first dimension"),
            ({1: torch.zeros(3)}, "holds dict of 1, and a file of samples holds a list"),
            ((torch.zeros(3), torch.zeros(4)), "no first dimension"),
            ({}, "holds dict of 0"),
            ([], "an empty list"),
            (torch.zeros(()), "holds one number"),
            (torch.zeros(0, 3), "without rows"),
            ("text", "holds str"),
        ],
    )
    def test_what_has_no_samples_says_what_it_holds(self, tmp_path: Path, held: Any, message: str) -> None:
        torch.save(held, tmp_path / "all.pt")
        with pytest.raises(UsageError, match=message):
            find(tmp_path / "all.pt")

    def test_no_code_of_the_file_runs(self, tmp_path: Path) -> None:
        torch.save([Evil()], tmp_path / "all.pt")
        with pytest.raises(FormatError, match=r"^all\.pt: .*system"):
            find(tmp_path / "all.pt")

    def test_a_broken_file_is_named(self, tmp_path: Path) -> None:
        torch.save(torch.zeros(100), tmp_path / "all.pt")
        content = (tmp_path / "all.pt").read_bytes()
        (tmp_path / "all.pt").write_bytes(content[: len(content) // 2])
        with pytest.raises(FormatError, match=r"^all\.pt: "):
            find(tmp_path / "all.pt")

    def test_named_tuples_of_columns_stay_named(self) -> None:
        source = find(Pair(torch.arange(3), torch.arange(3) * 2))
        (last,) = source.inputs(2)
        assert source.reader()(last.handle).y == 4
