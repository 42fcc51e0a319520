"""Merged stores: the same samples in the same order, the same files, and nothing is lost of what is known of inputs."""

import os
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.packing.journal import inputs as inputfiles
from cordwood.packing.journal import job_file as job
from cordwood.packing.journal.inputs import InputEntry, Position, Totals
from cordwood.packing.transfer.merge import merge
from cordwood.store.checking.verify import verify
from cordwood.store.format import shard_index
from tests.packing.support.packed_stores import (
    JOB,
    Inputs,
    assert_samples,
    entries_of,
    named,
    sample,
    write_inputs,
    write_packed,
)
from tests.packing.support.textfolder import Folder
from tests.store.support.small_stores import files_of, flip, write_planned

FIRST: Inputs = [("cats/1.jpg", 1), ("cats/2.jpg", 0), ("cats/3.jpg", 5), ("cats/4.jpg", -1), ("cats/5.jpg", 1)]
SECOND: Inputs = [("dogs/1.jpg", -1), *named([f"dogs/{number}.jpg" for number in range(2, 12)])]
EACH: Inputs = [("birds/1.jpg", 2), ("birds/2.jpg", 3)]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "all.cordwood"


def shards_of(path: Path) -> list[Path]:
    return sorted(path.glob("shard-*.cws"))


def test_the_samples_of_all_stores_in_their_order(tmp_path: Path, out: Path) -> None:
    paths = [write_packed(tmp_path / f"{number}", some) for number, some in enumerate((FIRST, SECOND, EACH))]
    before = [files_of(path) for path in paths]
    result = merge(paths, out)
    assert_samples(out, [*FIRST, *SECOND, *EACH])
    assert verify(out).ok
    assert [files_of(path) for path in paths] == before
    assert (result.samples, result.shards) == (len(cw.open(out)), len(shards_of(out)))
    assert result.shards == sum(len(shards_of(path)) for path in paths) > 5
    assert result.bytes == sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    assert str(result).startswith(f"{out}: {result.samples} samples of 3 stores in {result.shards} shards (linked")


def test_shards_are_linked(tmp_path: Path, out: Path) -> None:
    paths = [write_packed(tmp_path / name, FIRST) for name in "ab"]
    result = merge(paths, out)
    assert (result.linked, result.copied) == (result.shards, 0)
    old = [shard for path in paths for shard in shards_of(path)]
    assert all(one.samefile(other) for one, other in zip(old, shards_of(out), strict=True))


def test_shards_are_copied_where_there_are_no_links(tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", refuse)
    paths = [write_packed(tmp_path / name, FIRST) for name in "ab"]
    result = merge(paths, out)
    assert (result.linked, result.copied) == (0, result.shards)
    assert "0 linked" in str(result)
    assert not shards_of(paths[0])[0].samefile(shards_of(out)[0])
    assert_samples(out, [*FIRST, *FIRST])


def test_what_is_known_of_inputs_goes_on(tmp_path: Path, out: Path) -> None:
    paths = [write_packed(tmp_path / f"{number}", some) for number, some in enumerate((FIRST, SECOND))]
    merge(paths, out)
    assert entries_of(out) == [entry for path in paths for entry in entries_of(path)]
    headers = [inputfiles.read_header(out, shard) for shard in range(len(shards_of(out)))]
    assert headers[0].first == (0, 0)
    assert headers[-1].after == (len(FIRST) + len(SECOND), 0)
    assert all(one.after == other.first for one, other in pairwise(headers))
    samples = [header.totals.samples for header in headers]
    assert samples == (shard_index.read(out).records["first"] + shard_index.read(out).records["count"]).tolist()
    totals = headers[-1].totals
    assert (totals.inputs, totals.dropped, totals.failed) == (len(FIRST) + len(SECOND), 1, 2)


def test_a_merged_store_can_be_merged_and_appended_to(tmp_path: Path, out: Path) -> None:
    paths = [write_packed(tmp_path / f"{number}", some) for number, some in enumerate((FIRST, SECOND, EACH))]
    merge(paths[:2], tmp_path / "two")
    merge([tmp_path / "two", paths[2]], out)
    assert_samples(out, [*FIRST, *SECOND, *EACH])
    with cw.Writer(out, mode="append") as writer:
        writer.append(sample("more", 0))
    assert_samples(out, [*FIRST, *SECOND, *EACH, ("more", 1)])


def test_plans_of_all_stores_are_there(tmp_path: Path, out: Path) -> None:
    write_planned(tmp_path / "a", 40)
    palette = torch.randn(90)
    with cw.Writer(tmp_path / "b") as writer:
        for number in range(40):
            writer.append({"codes": palette[torch.randint(0, 90, (500,))].numpy(), "number": number})
    assert {path.name for path in (tmp_path / "a/plans").iterdir()} != {
        path.name for path in (tmp_path / "b/plans").iterdir()
    }
    result = merge([tmp_path / "a", tmp_path / "b"], out)
    assert verify(out).ok
    dataset = cw.open(out)
    for index in range(80):
        old = cw.open(tmp_path / "ab"[index // 40])[index % 40]
        assert (dataset[index]["codes"] == old["codes"]).all()
    assert not (out / "inputs").exists()
    assert result.notes == []


def test_stores_that_do_not_tell_their_inputs(tmp_path: Path, out: Path) -> None:
    write_packed(tmp_path / "a", named(["1", "2"]))
    with cw.Writer(tmp_path / "b", shard_bytes=1200) as writer:
        for number in range(10):
            writer.append(sample("b", number))
    result = merge([tmp_path / "a", tmp_path / "b"], out)
    assert [entry.name for entry in entries_of(out)][:2] == ["1", "2"]
    assert sum(entry.inputs for entry in entries_of(out)) == 12
    last = inputfiles.read_header(out, result.shards - 1)
    assert (last.after, last.totals.samples, last.totals.inputs) == (Position(12), 12, 12)
    assert not (out / "pack.json").exists()


def test_stores_without_samples_are_passed_over(tmp_path: Path, out: Path) -> None:
    with cw.Writer(tmp_path / "empty"):
        pass
    write_packed(tmp_path / "a", FIRST)
    merge([tmp_path / "empty", tmp_path / "a"], out)
    assert_samples(out, FIRST)
    with pytest.raises(UsageError, match="no samples to merge"):
        merge([tmp_path / "empty"], tmp_path / "other")


# ---- parts of one job ------------------------------------------------------------------------------------------------

PARTS: list[Inputs] = [FIRST, [("cats/6.jpg", 0)], SECOND, EACH]


def write_parts(folder: Path) -> list[Path]:
    start, paths = 0, []
    for number, inputs in enumerate(PARTS, 1):
        part = replace(JOB, part=(number, len(PARTS)))
        paths.append(write_packed(folder / f"part{number}", inputs, start=start, packed=part))
        start += len(inputs)
    return paths


def test_all_parts_make_the_whole_job(tmp_path: Path, out: Path) -> None:
    merge(write_parts(tmp_path), out)
    everything = [one for inputs in PARTS for one in inputs]
    assert_samples(out, everything)
    whole = job.read(out)
    assert whole is not None
    assert (whole.part, whole.complete) == (None, True)
    assert whole.totals == write_inputs(write_packed(tmp_path / "whole", everything), everything)
    assert whole == replace(JOB, complete=True, totals=whole.totals)
    last = inputfiles.read_header(out, len(shards_of(out)) - 1)
    assert (last.after, last.totals) == (Position(len(everything)), whole.totals)


def test_parts_that_are_missing_are_named(tmp_path: Path, out: Path) -> None:
    paths = write_parts(tmp_path)
    with pytest.raises(UsageError, match=r"2 of 4 parts are here, missing: 2, 3\. .*--part 2/4"):
        merge([paths[0], paths[3]], out)
    assert not out.exists()


def test_parts_may_be_named_in_any_order(tmp_path: Path, out: Path) -> None:
    paths = write_parts(tmp_path)
    right = merge(paths, out)
    for number, order in enumerate(permutations(paths)):
        other = tmp_path / f"other{number}"
        merged = merge(order, other)
        assert merged.stores == right.stores == [str(path) for path in paths]
        assert files_of(other) == files_of(out)


def test_stores_that_are_no_parts_are_joined_as_they_are_named(tmp_path: Path, out: Path) -> None:
    for name in "ab":
        write_packed(tmp_path / name, named([name]))
    merge([tmp_path / "b", tmp_path / "a"], out)
    assert_samples(out, named(["b", "a"]))


def test_a_part_that_is_there_twice(tmp_path: Path, out: Path) -> None:
    paths = write_parts(tmp_path)
    again = write_packed(tmp_path / "again", FIRST, packed=replace(JOB, part=(1, 4)))
    for twice in ([*paths, again], [*paths[1:], paths[0], again]):
        with pytest.raises(UsageError, match=r"part1 and .*again are both part 1 of 4"):
            merge(twice, out)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"part": (2, 3)}, "one is of 4 parts, the other of 3"),
        ({"options": {"seed": 1}}, "the options's seed is 0 of one, 1 of the other"),
        ({"source": {"kind": "tensors"}}, "the source's kind"),
        ({"fingerprint": "beef"}, "lists of inputs differ"),
        ({"transform": {**JOB.transform, "version": "2"}}, "version"),
        ({"part": None}, "merge the parts of the job first"),
    ],
)
def test_parts_of_different_jobs(tmp_path: Path, out: Path, change: dict[str, Any], told: str) -> None:
    paths = write_parts(tmp_path)
    found = job.read(paths[1])
    assert found is not None
    job.write(paths[1], replace(found, **change))
    with pytest.raises(UsageError, match=told):
        merge(paths, out)


def test_the_source_may_have_another_path_on_another_machine(tmp_path: Path, out: Path) -> None:
    paths = write_parts(tmp_path)
    found = job.read(paths[1])
    assert found is not None
    job.write(paths[1], replace(found, source={**JOB.source, "path": "/mnt/photos"}))
    merge(paths, out)
    whole = job.read(out)
    assert whole is not None
    assert whole.source == JOB.source


def test_a_part_that_somebody_else_has_written_to(tmp_path: Path, out: Path) -> None:
    paths = write_parts(tmp_path)
    with cw.Writer(paths[2], mode="append") as writer:
        writer.append(sample("more", 0))
    with pytest.raises(UsageError, match="part3 was packed with 10 samples and has 11"):
        merge(paths, out)


def test_parts_that_were_packed_are_what_one_run_packs(tmp_path: Path, out: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(**{f"t{number:02d}": " ".join("x" * (number % 4)) for number in range(30)})
    texts.pack(update=False)
    paths = [tmp_path / f"part{number}" for number in (1, 2, 3)]
    for number, path in enumerate(paths, 1):
        texts.store = path
        texts.pack(update=False, part=f"{number}/3")
    merge(paths, out)
    texts.store = out
    texts.assert_good(*(f"t{number:02d}" for number in range(30)))
    assert texts.lines == [(one["path"], one["line"]) for one in cw.open(tmp_path / "x.cordwood")]
    assert job.read(out) == job.read(tmp_path / "x.cordwood")
    texts.write(t05="new", t30="newer")
    assert texts.pack() == ["t05", "t30"]
    texts.assert_good(*(f"t{number:02d}" for number in range(31)))


# ---- what is refused -------------------------------------------------------------------------------------------------


def test_a_job_that_is_not_finished(tmp_path: Path, out: Path) -> None:
    path = write_packed(tmp_path / "a", FIRST)
    job.write(path, JOB)
    with pytest.raises(UsageError, match="not packed to its end: run the same `cordwood pack` again"):
        merge([path], out)


def test_a_store_that_is_being_written(tmp_path: Path, out: Path) -> None:
    path = write_packed(tmp_path / "a", FIRST)
    with cw.Writer(path, mode="append"), pytest.raises(StorageError, match="is writing to this store"):
        merge([path], out)
    merge([path], out)


def test_fields_that_differ_are_named(tmp_path: Path, out: Path) -> None:
    write_packed(tmp_path / "a", FIRST)
    with cw.Writer(tmp_path / "b") as writer:
        writer.append({"pixels": torch.zeros(3), "name": "b", "more": 1})
    with pytest.raises(UsageError, match=r"'pixels' is tensor of int64 .*float32.*'number' .*'more' is not there"):
        merge([tmp_path / "a", tmp_path / "b"], out)
    assert not list(tmp_path.glob(".*"))


def test_classes_that_differ(tmp_path: Path, out: Path) -> None:
    for name, classes in (("a", ["cat", "dog"]), ("b", ["dog", "cat"])):
        with cw.Writer(tmp_path / name, fields={"label": cw.Field(classes=classes)}) as writer:
            writer.append({"label": 1})
    with pytest.raises(UsageError, match="'label' has the classes"):
        merge([tmp_path / "a", tmp_path / "b"], out)


def test_paths_that_cannot_be_meant(tmp_path: Path, out: Path) -> None:
    path = write_packed(tmp_path / "a", FIRST)
    out.mkdir()
    with pytest.raises(UsageError, match="exists already"):
        merge([path], out)
    with pytest.raises(UsageError, match="inside of"):
        merge([path], path / "all")
    with pytest.raises(UsageError, match="named twice"):
        merge([path, tmp_path / "." / "a"], tmp_path / "other")
    with pytest.raises(UsageError, match="list of stores"):
        merge([], tmp_path / "other")
    with pytest.raises(UsageError, match="list of stores"):
        merge(str(path), tmp_path / "other")
    with pytest.raises(UsageError, match="no such folder"):
        merge([path, tmp_path / "nothing"], tmp_path / "other")


def test_a_shard_that_was_cut_short_is_found(tmp_path: Path, out: Path) -> None:
    path = write_packed(tmp_path / "a", FIRST)
    shard = shards_of(path)[1]
    shard.write_bytes(shard.read_bytes()[:-10])
    with pytest.raises(FormatError, match="shard-00000001"):
        merge([path], out)
    assert not out.exists()
    assert not list(tmp_path.glob(".*"))


def test_a_damaged_plan_is_found(tmp_path: Path, out: Path) -> None:
    path = write_planned(tmp_path / "a", 40)
    flip(next((path / "plans").iterdir()), 20)
    with pytest.raises(FormatError, match="plan"):
        merge([path], out)


def test_the_list_of_another_shard(tmp_path: Path, out: Path) -> None:
    path = write_packed(tmp_path / "a", FIRST)
    lines = inputfiles.line(InputEntry("cats/9.jpg", 1, 1, 99))
    inputfiles.write(path, 0, Position(), Position(1), Totals(), lines)
    with pytest.raises(FormatError, match=r"00000000.jsonl: its inputs have 99 samples, but the shard has"):
        merge([path], out)
