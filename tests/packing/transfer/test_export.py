"""Exported files: each is the sample, under the name of its input, and no two samples share one."""

from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.packing.journal import inputs as inputfiles
from cordwood.packing.journal.inputs import InputEntry, Position, Totals
from cordwood.packing.transfer import export as exporting
from cordwood.packing.transfer.export import export
from tests.packing.support.packed_stores import Inputs, named, sample, write_packed
from tests.store.support.samples import assert_same_sample
from tests.store.support.small_stores import write_store

Point = namedtuple("Point", ["x", "y"])


def exported(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def names_for(tmp_path: Path, inputs: Inputs) -> dict[str, tuple[str, int]]:
    """For each file that an export of such a store makes, the input and number of the sample in it."""
    store, out = write_packed(tmp_path / "store", inputs), tmp_path / "out"
    result = export(store, out)
    found = exported(out)
    assert result.files == len(found) == sum(max(count, 0) for _, count in inputs)
    samples = {name: cw.load(out / name) for name in found}
    return {name: (one["name"], one["number"]) for name, one in samples.items()}


def test_paths_are_mirrored(tmp_path: Path) -> None:
    inputs = [("cats/1.jpg", 1), ("cats/2.jpg", 0), ("cats/deep/3.tar.gz", 1), ("dogs/4.png", -1), ("5", 1), (".6", 1)]
    assert names_for(tmp_path, inputs) == {
        "cats/1.pt": ("cats/1.jpg", 0),
        "cats/deep/3.tar.pt": ("cats/deep/3.tar.gz", 0),
        "5.pt": ("5", 0),
        ".6.pt": (".6", 0),
    }


def test_several_samples_of_an_input_are_numbered_also_across_shards(tmp_path: Path) -> None:
    found = names_for(tmp_path, [("a.jpg", 1), ("b.jpg", 12), ("c.jpg", 1)])
    assert len(list((tmp_path / "store").glob("*.cws"))) > 3
    expected = {f"b-{number}.pt": ("b.jpg", number) for number in range(12)}
    assert found == {"a.pt": ("a.jpg", 0), "c.pt": ("c.jpg", 0), **expected}


def test_inputs_that_would_collide_keep_their_suffix(tmp_path: Path) -> None:
    inputs = named(["x/1.jpg", "x/2.jpg", "y/1.png", *(f"y/z{number}.png" for number in range(9)), "x/1.png"])
    found = names_for(tmp_path, inputs)
    assert found["x/1.jpg.pt"] == ("x/1.jpg", 0)
    assert found["x/1.png.pt"] == ("x/1.png", 0)
    assert {"x/2.pt", "y/1.pt"} < found.keys()


def test_names_that_collide_with_the_longer_names_get_numbers(tmp_path: Path) -> None:
    inputs = [
        ("1.jpg", 1),
        ("1.png", 1),
        ("1.jpg.gz", 1),
        ("2.jpg", 2),
        ("2-0.jpg", 1),
        ("a.pt/b.jpg", 1),
        ("a.gif", 1),
    ]
    found = names_for(tmp_path, inputs)
    assert sorted(found.values()) == sorted((str(name), each) for name, count in inputs for each in range(count))
    assert found["2.jpg-1.pt"] == ("2.jpg", 1)
    assert found["a.gif.pt"] == ("a.gif", 0)


def test_samples_without_names_are_numbered(tmp_path: Path) -> None:
    found = names_for(tmp_path, [(None, 1), (None, 2), (None, 0), ("00000002.jpg", 1), (None, 1)])
    assert found == {
        "00000000.pt": ("0", 0),
        "00000001.pt": ("1", 0),
        "00000002.pt": ("1", 1),
        "00000004.pt": ("4", 0),
        "00000002.jpg.pt": ("00000002.jpg", 0),
    }


@pytest.mark.filterwarnings("ignore:cw.load will refuse")  # the namedtuple
@pytest.mark.parametrize("to", ["pt", "cord"])
def test_what_is_written_is_the_sample(tmp_path: Path, to: Any) -> None:
    store, out = write_store(tmp_path / "store"), tmp_path / "out"
    result = export(store, out, to, types=[Point])
    dataset = cw.open(store, types=[Point])
    assert exported(out) == [f"{number:08d}.{to}" for number in range(len(dataset))]
    for number in range(len(dataset)):
        assert_same_sample(cw.load(out / f"{number:08d}.{to}", weights_only=False), dataset[number])
    assert result.files == len(dataset)
    assert result.bytes == sum(path.stat().st_size for path in out.iterdir())
    assert "which is not on the list of what may be loaded safely" in result.notes[0]
    assert str(result).startswith(f"{out}: 24 files, {result.bytes:,} bytes, in ")


def test_torch_reads_the_files(tmp_path: Path) -> None:
    store = write_packed(tmp_path / "store", named(["a.jpg"]))
    result = export(store, tmp_path / "out")
    assert_same_sample(torch.load(tmp_path / "out/a.pt"), sample("a.jpg", 0))
    assert result.notes == []


def test_options_of_the_files(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "store") as writer:
        writer.append(torch.zeros(10_000))
    plain = export(tmp_path / "store", tmp_path / "plain")
    assert export(tmp_path / "store", tmp_path / "compressed", compress=True).bytes < plain.bytes / 4
    raw = export(tmp_path / "store", tmp_path / "raw", "cord", goal="raw")
    assert export(tmp_path / "store", tmp_path / "small", "cord", goal="small").bytes < raw.bytes / 4


def test_many_more_samples_than_are_written_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "_AT_ONCE", 7)
    store = write_packed(tmp_path / "store", named([f"{number}.jpg" for number in range(50)]), shard_bytes=10_000)
    told: list[tuple[int, int]] = []
    export(store, tmp_path / "out", threads=2, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (50, 50)
    assert told == sorted(told)
    for number in range(50):
        assert cw.load(tmp_path / "out" / f"{number}.pt")["name"] == f"{number}.jpg"


def test_folders_that_hold_something(tmp_path: Path) -> None:
    store, out = write_packed(tmp_path / "store", named(["a.jpg", "b.jpg"])), tmp_path / "out"
    out.mkdir()
    export(store, out)
    with pytest.raises(UsageError, match=r"holds other things \([ab].pt\).*overwrite=True"):
        export(store, out)
    (out / "a.pt").write_bytes(b"older")
    (out / "mine.txt").write_bytes(b"kept")
    export(store, out, overwrite=True)
    assert cw.load(out / "a.pt")["name"] == "a.jpg"
    assert (out / "mine.txt").read_bytes() == b"kept"
    with pytest.raises(UsageError, match="is a file"):
        export(store, out / "mine.txt")
    for inside in (store, store / "out"):
        with pytest.raises(UsageError, match="in the store itself"):
            export(store, inside)
    with pytest.raises(UsageError, match="'pt' or 'cord'"):
        export(store, tmp_path / "other", "npy")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not exist"):
        export(tmp_path / "nothing", tmp_path / "other")


def test_a_file_system_without_upper_and_lower_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert exporting._folds(tmp_path) == (tmp_path.with_name(tmp_path.name.upper())).exists()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(exporting, "_folds", lambda _: True)
    assert len({name.casefold() for name in names_for(tmp_path, named(["A/1.jpg", "a/1.jpg", "b.jpg"]))}) == 3


@pytest.mark.parametrize("name", ["../outside.jpg", "/outside.jpg", "a/../../outside.jpg"])
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str) -> None:
    store = write_packed(tmp_path / "store", named(["a.jpg"]))
    line = inputfiles.line(InputEntry(name, 1, 1, 1))
    inputfiles.write(store, 0, Position(), Position(1), Totals(), line)
    with pytest.raises(FormatError, match="not a relative path"):
        export(store, tmp_path / "out")
    assert exported(tmp_path / "out") == []


@pytest.mark.parametrize("count", [0, 2, 1 << 60])
def test_the_list_of_another_shard(tmp_path: Path, count: int) -> None:
    store = write_packed(tmp_path / "store", named(["a.jpg"]))
    line = inputfiles.line(InputEntry("a.jpg", 1, 1, count))
    inputfiles.write(store, 0, Position(), Position(1), Totals(), line)
    with pytest.raises(FormatError, match="list of another one"):
        export(store, tmp_path / "out")


def test_a_failure_in_between_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write_packed(tmp_path / "store", named([f"{number}.jpg" for number in range(20)]))

    def full(sample: Any, path: str, **_: Any) -> None:
        if path.endswith("/5.pt"):
            raise StorageError(28, "No space left on device", path)
        Path(path).write_bytes(b"")

    monkeypatch.setattr(exporting, "save", full)
    with pytest.raises(StorageError, match="No space left"):
        export(store, tmp_path / "out")


def test_a_store_of_no_samples(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "store"):
        pass
    result = export(tmp_path / "store", tmp_path / "out")
    assert (result.files, result.bytes, exported(tmp_path / "out")) == (0, 0, [])
