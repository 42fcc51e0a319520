"""Creating, appending and resuming; a store that is there, one that is not, and options that differ."""

from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.store.format import manifest as manifests
from cordwood.store.format.folder import MODES
from cordwood.store.format.shard_file import shard_name
from tests.store.support.photos import files_of, photo, write
from tests.store.support.samples import assert_same_sample

SAMPLES = [photo(i) for i in range(40)]
SIZES: dict[str, Any] = {"shard_bytes": 2000, "goal": "raw"}


def test_create_refuses_what_is_there(tmp_path: Path) -> None:
    path = write(tmp_path / "s", SAMPLES)
    before = files_of(path)
    with pytest.raises(cw.UsageError, match=r"is a store already: mode='append'.*mode='resume'"):
        cw.Writer(path)
    assert files_of(path) == before
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_bytes(b"mine")
    for mode in ("create", "resume"):
        with pytest.raises(cw.UsageError, match=r"holds other things \(a\.jpg\)"):
            cw.Writer(tmp_path / "photos", mode=mode)
    assert files_of(tmp_path / "photos") == {"a.jpg": b"mine"}
    (tmp_path / "file").write_bytes(b"mine")
    for mode in MODES:
        with pytest.raises(cw.UsageError, match="is a file, but a store is a folder"):
            cw.Writer(tmp_path / "file", mode=mode)
    with pytest.raises(cw.UsageError, match="cannot be the path of a folder"):
        cw.Writer("a\0b")


def test_shards_without_a_manifest_are_not_written_over(tmp_path: Path) -> None:
    path = write(tmp_path / "s", SAMPLES)
    (path / "store.json").unlink()
    before = files_of(path)
    for mode in ("create", "resume"):
        with pytest.raises(cw.FormatError, match=r"has shards, but its store\.json is missing"):
            cw.Writer(path, mode=mode)
    assert files_of(path) == before


def test_an_empty_folder_and_leftovers_will_do(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.mkdir()
    (path / ".lock").touch()
    left = path / ".shard-00000000.cws.cordwood-123-0123456789ab.part"
    left.write_bytes(b"of a writer that was killed")
    write(path, SAMPLES)
    assert not left.exists()
    assert len(cw.open(path)) == 40


def test_the_folder_above_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(cw.StorageError, match="make the folder above it first"):
        cw.Writer(tmp_path / "no" / "such")
    with pytest.raises(cw.UsageError, match="is not a store, so nothing can be appended"):
        cw.Writer(tmp_path / "missing", mode="append")
    assert list(tmp_path.iterdir()) == []


def test_append_goes_on_with_the_same_schema_and_plans(tmp_path: Path) -> None:
    path = write(tmp_path / "s", SAMPLES[:25], goal="small", shard_bytes=2000)
    before = files_of(path)
    with cw.Writer(path, mode="append") as writer:
        assert writer.committed == len(writer) == 25
        writer.extend(SAMPLES[25:])
    after = files_of(path)
    assert all(after[name] == data for name, data in before.items() if name != "shards.bin")
    assert after["shards.bin"].startswith(before["shards.bin"])
    assert {name.split("/")[0] for name in after} == {name.split("/")[0] for name in after if name in before} | {
        shard_name(number) for number in range(len(list(path.glob("shard-*"))))
    }
    dataset = cw.open(path)
    for number, sample in enumerate(SAMPLES):
        assert_same_sample(dataset[number], sample)


def test_a_sample_of_another_kind_cannot_be_appended(tmp_path: Path) -> None:
    path = write(tmp_path / "s", [{"x": 1}])
    with cw.Writer(path, mode="append") as writer:
        with pytest.raises(cw.UsageError, match="field 'x': expected int"):
            writer.append({"x": 1.5})
        writer.append({"x": 2})
    assert [cw.open(path)[i] for i in range(2)] == [{"x": 1}, {"x": 2}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"goal": "small"}, "goal is given as 'small', but .* was made with 'balanced'"),
        ({"shard_bytes": 1000}, "shard_bytes is given as 1000, but .* was made with 67108864"),
        ({"fields": {"x": cw.Field(goal="raw")}}, "the goal of field 'x' is given as 'raw', .* with 'fast'"),
        ({"fields": {"x": cw.Field(store_as="bfloat16")}}, "the store_as of field 'x' is given as 'bfloat16'"),
        ({"fields": {"y": cw.Field(store_as="float16")}}, "the store_as of field 'y' .* made with None"),
        ({"fields": {"z": cw.Field(classes=["a"])}}, "the classes of field 'z'"),
        ({"fields": {"y": cw.Field(varies=True)}}, "the varies of field 'y' is given as True, .* with False"),
        ({"fields": {"new": cw.Field()}}, "fields names 'new', but .* has 'x', 'y', 'z'"),
    ],
)
@pytest.mark.parametrize("mode", ["append", "resume"])
def test_options_that_differ_are_shown(mode: Any, options: dict[str, Any], said: str, tmp_path: Path) -> None:
    fields = {"x": cw.Field(goal="fast", store_as="float16"), "z": cw.Field(classes=["a", "b"])}
    path = write(tmp_path / "s", [{"x": torch.ones(3), "y": torch.ones(3), "z": 1}], fields=fields)
    with pytest.raises(cw.UsageError, match=said):
        cw.Writer(path, mode=mode, **options)
    with cw.Writer(path, "balanced", mode=mode, fields=fields, shard_bytes=64 << 20) as writer:
        assert writer.committed == 1


def test_a_store_without_samples(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with cw.Writer(path, "raw", shard_bytes=500):
        assert len(cw.open(path)) == 0  # it can be read from the beginning
    assert manifests.read(path) == manifests.Manifest(goal="raw", shard_bytes=500)
    for mode in ("append", "resume"):
        with cw.Writer(path, mode=mode):
            pass
        assert manifests.read(path) == manifests.Manifest(goal="raw", shard_bytes=500)
    with cw.Writer(path, "small", mode="append", fields={"x": cw.Field(store_as="float16")}) as writer:
        writer.append({"x": torch.ones(3)})  # nothing was stored: schema and options may still change
    found = manifests.read(path)
    assert (found.goal, found.shard_bytes, found.fields[0].store_as) == ("small", 500, "float16")


def test_resume_begins_where_nothing_is(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s", mode="resume", **SIZES) as writer:
        assert writer.committed == 0
        writer.extend(SAMPLES)
    assert files_of(tmp_path / "s") == files_of(write(tmp_path / "t", SAMPLES, **SIZES))


def test_the_index_is_mended_when_the_store_is_opened_for_writing(tmp_path: Path) -> None:
    whole = files_of(write(tmp_path / "whole", SAMPLES, **SIZES))
    path = write(tmp_path / "s", SAMPLES, **SIZES)
    for damage in (b"", whole["shards.bin"][:-70], whole["shards.bin"][:100] + b"\0" + whole["shards.bin"][101:]):
        (path / "shards.bin").write_bytes(damage)
        with cw.Writer(path, mode="resume") as writer:
            assert writer.committed == 40
        assert files_of(path) == whole


def test_nothing_is_added_to_a_store_with_a_strange_shard(tmp_path: Path) -> None:
    path = write(tmp_path / "s", SAMPLES, **SIZES)
    other = write(tmp_path / "other", [{"x": 1}])
    (path / "shards.bin").unlink()
    last = len(list(path.glob("shard-*"))) - 1
    (path / shard_name(last)).write_bytes((other / shard_name(0)).read_bytes())
    with pytest.raises(cw.FormatError, match=f"{shard_name(last)}: this shard is damaged or has other fields"):
        cw.Writer(path, mode="append")


def test_shards_beside_a_manifest_without_a_schema(tmp_path: Path) -> None:
    path = write(tmp_path / "s", SAMPLES, **SIZES)
    manifests.write(path, manifests.Manifest())
    with pytest.raises(cw.FormatError, match=r"shard-00000000\.cws"):
        cw.Writer(path, mode="append")


def test_a_plan_that_is_lost_or_another(tmp_path: Path) -> None:
    path = write(tmp_path / "s", SAMPLES)
    plans = list((path / "plans").iterdir())
    for plan in plans:
        plan.rename(plan.with_suffix(".gone"))
    with pytest.raises(cw.FormatError, match="the plan is not there"):
        cw.Writer(path, mode="append")
    with pytest.raises(cw.FormatError, match="the plan is not there"):  # the lock was given back
        cw.Writer(path, mode="append")


def test_two_writers(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "s") as writer:
        for mode in ("append", "resume"):
            with pytest.raises(cw.StorageError, match="is writing to this store"):
                cw.Writer(tmp_path / "s", mode=mode)
        writer.append({"x": 1})
    with cw.Writer(tmp_path / "s", mode="append") as writer:
        assert writer.committed == 1


def test_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with cw.Writer("s", **SIZES) as writer:
        writer.extend(SAMPLES[:20])
        monkeypatch.chdir("/")
        writer.extend(SAMPLES[20:])
    assert writer.path == tmp_path / "s"
    assert len(cw.open(tmp_path / "s")) == 40
