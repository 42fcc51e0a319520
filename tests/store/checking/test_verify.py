"""Verifying finds every damage, says what is lost by it, and never stops or changes anything."""

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.codecs import Goal
from cordwood.errors import CordwoodError
from cordwood.store.checking.verify import Verification, verify
from tests.store.support.small_stores import (
    cut,
    ends_of,
    files_of,
    first_of,
    flip,
    frame_of,
    put_back,
    row_of,
    shard,
    write_planned,
    write_store,
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = write_store(tmp_path / "x.cordwood")
    assert len(list(path.glob("*.cws"))) >= 4
    return path


COUNT = 24  # samples of `store`


def only(result: Verification) -> str:
    """The one damage there is, in words."""
    assert len(result.damages) == 1, str(result)
    return str(result.damages[0])


def samples_of(path: Path, number: int) -> tuple[int, int]:
    """The first and the last sample of a shard."""
    first = first_of(path, number)
    return first, first + ends_of(path, number).count - 1


def test_a_good_store_is_good_and_stays_as_it_is(store: Path) -> None:
    before = files_of(store)
    result = verify(store)
    assert result.ok
    assert (result.damages, result.lost, result.notes) == ([], [], [])
    assert result.samples == 24
    assert result.shards == len(list(store.glob("*.cws")))
    assert result.size == sum(file.stat().st_size for file in store.rglob("*") if file.is_file())
    assert files_of(store) == before
    assert str(result).endswith("all good")


def test_an_empty_store_is_good(tmp_path: Path) -> None:
    cw.Writer(tmp_path / "x.cordwood").close()
    result = verify(tmp_path / "x.cordwood")
    assert result.ok
    assert (result.samples, result.shards) == (0, 0)


def large(number: int) -> dict[str, Any]:
    """A sample each of whose frames is larger than what a row's checksum covers."""
    draw = random.Random(number)
    return {
        "image": torch.frombuffer(bytearray(draw.randbytes(1200)), dtype=torch.uint8),
        "features": torch.frombuffer(bytearray(draw.randbytes(2400)), dtype=torch.float16).clone(),
        "path": "".join(chr(draw.randrange(32, 50000)) for _ in range(900)),
        "tags": [draw.randbytes(1100)],
        "note": draw.randbytes(1300),
        "label": number,
    }


@pytest.mark.parametrize("goal", ["small", "raw"])
@pytest.mark.parametrize("field", ["image", "features", "path", "tags", "note"])
@pytest.mark.parametrize("part", [0, 1, -1])
def test_a_damaged_frame_costs_that_field_of_that_sample(tmp_path: Path, field: str, part: int, goal: Goal) -> None:
    store = tmp_path / "x.cordwood"
    with cw.Writer(store, goal, shard_bytes=20_000) as writer:
        for number in range(9):
            writer.append(large(number))
    number = first_of(store, 1) + 1
    frame = frame_of(store, 1, 1, field)
    assert len(frame) > 1024
    flip(shard(store, 1), frame[part], bit=part % 8)
    (damage,) = verify(store).damages
    assert (damage.file, damage.first, damage.last, damage.field) == ("shard-00000001.cws", number, number, field)
    assert verify(store).lost == [(number, number)]
    others = [name for name in ("image", "features", "path", "tags", "note", "label") if name != field]
    assert cw.open(store).select(*others)[number][-1] == number
    with pytest.raises(cw.FormatError, match=f"sample {number}"):
        cw.open(store).select(field)[number]


@pytest.mark.parametrize("field", ["features", "meta.path", "meta.tags", "note"])
@pytest.mark.parametrize("part", [0, -1])
def test_a_damaged_frame_that_its_row_covers_costs_that_sample(store: Path, field: str, part: int) -> None:
    row = 1
    number = first_of(store, 1) + row
    if number % 3 == 0 or number % 4 == 0:
        row, number = row + 1, number + 1
    flip(shard(store, 1), frame_of(store, 1, row, field)[part])
    (damage,) = verify(store).damages
    assert (damage.file, damage.first, damage.last, damage.field) == ("shard-00000001.cws", number, number, None)
    assert "the row at byte" in damage.what
    assert verify(store).lost == [(number, number)]
    for name in ("image", "label", field):  # those beside it, too: the checksum does not say which one it is
        with pytest.raises(cw.FormatError, match=f"sample {number}"):
            cw.open(store).select(name)[number]


def test_all_damaged_frames_are_found(store: Path) -> None:
    places = [(0, 0, "image"), (0, 1, "meta.path"), (1, 0, "features"), (1, 1, "image"), (2, 1, "image")]
    for number, row, field in places:
        flip(shard(store, number), frame_of(store, number, row, field)[-2])
    found = [(damage.file, damage.first, damage.field) for damage in verify(store).damages]
    told = [(n, row, field if field == "image" else None) for n, row, field in places]
    assert sorted(found, key=str) == sorted(
        ((f"shard-{n:08d}.cws", first_of(store, n) + row, field) for n, row, field in told), key=str
    )


def test_a_damaged_row_costs_its_sample(store: Path) -> None:
    flip(shard(store, 2), row_of(store, 2, 1)[9])
    (damage,) = verify(store).damages
    number = first_of(store, 2) + 1
    assert (damage.first, damage.last, damage.field) == (number, number, None)
    assert "another checksum" in damage.what


def test_a_good_row_of_another_shard_is_found_out(tmp_path: Path) -> None:
    store = tmp_path / "x.cordwood"
    with cw.Writer(store, shard_bytes=60) as writer:
        for number in range(20):
            writer.append({"n": number})
    run = samples_of(store, 1)
    data, row = bytearray(shard(store, 1).read_bytes()), row_of(store, 1, 0)
    data[row.start : row.stop] = shard(store, 2).read_bytes()[row.start : row.stop]
    shard(store, 1).write_bytes(data)
    result = verify(store)
    assert "not all rows are those that were written" in only(result)
    assert result.lost == [run]


def test_a_damaged_header_costs_no_sample_for_good(store: Path) -> None:
    flip(shard(store, 1), 9)
    result = verify(store)
    (damage,) = result.damages
    assert (damage.first, damage.last) == samples_of(store_good(store), 1)
    assert "header" in damage.what
    assert "can be saved" in damage.what
    assert result.lost == []


def store_good(store: Path) -> Path:
    """The same store without damage, for looking things up."""
    path = store.parent / "good.cordwood"
    return path if path.exists() else write_store(path)


@pytest.mark.parametrize("part", ["trailer", "footer and trailer"])
def test_rows_are_found_without_a_trailer(store: Path, part: str) -> None:
    if part == "trailer":
        flip(shard(store, 1), -20)
    else:
        cut(shard(store, 1), ends_of(store, 1).footer_offset + 10)
    result = verify(store)
    (damage,) = result.damages
    assert (damage.first, damage.last) == samples_of(store_good(store), 1)
    assert f"the rows of {damage.samples} of its {damage.samples} samples were found" in damage.what
    assert result.lost == []


def test_a_shard_cut_among_its_rows_keeps_those_in_front(store: Path) -> None:
    first, last = samples_of(store, 1)
    cut(shard(store, 1), row_of(store, 1, 1)[-5])
    result = verify(store)
    assert "the rows of 1 of its" in only(result)
    assert result.lost == [(first + 1, last)]


def test_a_shard_cut_among_its_frames_is_lost(store: Path) -> None:
    run = samples_of(store, 1)
    cut(shard(store, 1), 3000)
    result = verify(store)
    assert "its rows are lost" in only(result)
    assert result.lost == [run]


@pytest.mark.parametrize("size", [0, 10, 60])
def test_hardly_anything_left_of_a_shard(store: Path, size: int) -> None:
    run = samples_of(store, 1)
    cut(shard(store, 1), size)
    assert verify(store).lost == [run]


def test_bytes_behind_the_end_of_a_shard(store: Path) -> None:
    with shard(store, 1).open("ab") as file:
        file.write(bytes(100))
    result = verify(store)
    assert "something was written behind its end" in only(result)
    assert result.lost == []


def test_a_missing_shard(store: Path) -> None:
    run = samples_of(store, 1)
    shard(store, 1).unlink()
    result = verify(store)
    assert only(result) == f"shard-00000001.cws, samples {run[0]} to {run[1]}: the shard is not there"
    assert result.lost == [run]


def test_the_last_shards_are_missing_but_known_of(store: Path) -> None:
    count = len(list(store.glob("*.cws")))
    runs = [samples_of(store, count - 2), samples_of(store, count - 1)]
    shard(store, count - 2).unlink()
    shard(store, count - 1).unlink()
    result = verify(store)
    assert len(result.damages) == 2
    assert result.lost == [(runs[0][0], runs[1][1])]


def test_exchanged_shards_are_not_taken_for_each_other(store: Path) -> None:
    one, other = shard(store, 1).read_bytes(), shard(store, 2).read_bytes()
    shard(store, 1).write_bytes(other)
    shard(store, 2).write_bytes(one)
    result = verify(store)
    assert len(result.damages) == 2
    assert all("this is not the shard that was written here" in damage.what for damage in result.damages)
    assert result.lost == [(samples_of(store_good(store), 1)[0], samples_of(store_good(store), 2)[1])]


def test_a_shard_of_another_schema(store: Path, tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "other.cordwood") as writer:
        writer.append({"a": 1})
    shard(store, 1).write_bytes(shard(tmp_path / "other.cordwood", 0).read_bytes())
    assert "a shard of another schema" in only(verify(store))


def test_a_pipe_in_the_place_of_a_shard(store: Path) -> None:
    shard(store, 1).unlink()
    os.mkfifo(shard(store, 1))
    assert "not a regular file" in only(verify(store))


def test_a_damaged_footer_costs_no_sample(store: Path) -> None:
    flip(shard(store, 1), ends_of(store, 1).footer_offset + 5)
    result = verify(store)
    assert "footer" in only(result)
    assert result.damages[0].samples == 0
    assert result.lost == []


def test_an_index_that_lacks_its_end_is_no_damage(store: Path) -> None:
    cut(store / "shards.bin", -64)
    result = verify(store)
    assert result.ok
    assert result.notes == ["shards.bin lacks its last records; the next writer adds them"]
    (store / "shards.bin").unlink()
    assert verify(store).ok


def test_a_damaged_index_costs_no_sample(store: Path) -> None:
    flip(store / "shards.bin", 32 + 64 + 3)
    result = verify(store)
    assert only(result).startswith("shards.bin: record 1 is damaged; it was made again")
    assert result.lost == []
    assert result.samples == 24


def test_index_and_shard_are_both_lost(store: Path) -> None:
    run = samples_of(store, 1)
    flip(store / "shards.bin", 32 + 64 + 3)
    cut(shard(store, 1), 3000)
    result = verify(store)
    assert {damage.file for damage in result.damages} == {"shards.bin", "shard-00000001.cws"}
    assert result.lost == [run]


def test_shards_that_are_gone_with_the_index_are_missed_by_what_was_packed(store: Path) -> None:
    """Each of these alone is known of by the other."""
    for path in (*store.glob("*.cws"), store / "shards.bin"):
        path.unlink()
    assert verify(store).ok  # a writer may have stopped before its first shard
    job = {"complete": True, "totals": {"samples": COUNT}}
    (store / "pack.json").write_text(json.dumps(job))
    result = verify(store)
    assert (result.samples, result.lost, result.has_good) == (COUNT, [(0, COUNT - 1)], False)
    assert [str(damage) for damage in result.damages] == [
        f"shards.bin, samples 0 to {COUNT - 1}: {COUNT} samples were packed, but the index and the shards have 0"
    ]
    others: list[Any] = [{"samples": -1}, {"samples": "9"}, {"samples": True}, [], None]  # not what packing writes
    for totals in others:
        (store / "pack.json").write_text(json.dumps({**job, "totals": totals}))
        assert verify(store).ok


def test_samples_that_were_added_to_what_was_packed_are_no_damage(store: Path) -> None:
    (store / "pack.json").write_text(json.dumps({"complete": True, "totals": {"samples": COUNT - 1}}))
    assert verify(store).ok
    (store / "pack.json").write_text(json.dumps({"complete": True, "totals": {"samples": 1 << 62}}))
    assert verify(store).lost == [(COUNT, (1 << 62) - 1)]


def test_a_shard_of_which_nobody_knew_how_much_it_holds(store: Path) -> None:
    good = store_good(store)
    (store / "shards.bin").unlink()
    flip(shard(store, 1), -20)
    flip(shard(store, 2), frame_of(store, 2, 1, "image")[-2])
    result = verify(store)
    assert (result.samples, result.lost) == (24, [(first_of(good, 2) + 1, first_of(good, 2) + 1)])


def test_a_gap_in_the_shards_hides_no_shard(store: Path) -> None:
    count = len(list(store.glob("*.cws")))
    (store / "shards.bin").unlink()
    shard(store, 1).unlink()
    result = verify(store)
    assert not result.ok
    told = str(result)
    assert all(f"shard-{number:08d}.cws" in told for number in range(2, count))


@pytest.mark.parametrize("how", ["gone", "damaged", "emptied", "of no samples"])
def test_the_manifest_is_lost_but_shards_have_copies(store: Path, tmp_path: Path, how: str) -> None:
    manifest = store / "store.json"
    if how == "gone":
        manifest.unlink()
    elif how == "damaged":
        flip(manifest, manifest.read_bytes().index(b"image"))
    elif how == "emptied":
        manifest.write_bytes(b"")
    else:
        cw.Writer(tmp_path / "empty.cordwood").close()
        manifest.write_bytes((tmp_path / "empty.cordwood" / "store.json").read_bytes())
    flip(shard(store, 0), -30)  # the first shard has no copy any more either
    result = verify(store)
    assert [damage.file for damage in result.damages] == ["store.json", "shard-00000000.cws"]
    assert (result.damages[0].first, result.damages[0].last) == (0, 23)
    assert result.lost == []


def test_a_lost_plan_is_one_damage_for_all_samples_that_need_it(tmp_path: Path) -> None:
    path = write_planned(tmp_path / "x.cordwood", 200)
    (name,) = [file.name for file in (path / "plans").iterdir()]
    (path / "plans" / name).unlink()
    plan, samples = verify(path).damages
    assert plan.file == f"plans/{name}"
    assert "the plan is not there" in plan.what
    assert (samples.first, samples.last, samples.field) == (0, 199, "codes")
    assert f"needs plans/{name}, which is not there or damaged" in samples.what


def test_what_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(cw.UsageError, match="no such folder"):
        verify(tmp_path / "nothing")
    with pytest.raises(cw.UsageError, match="this is no store"):
        verify(tmp_path)
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(cw.UsageError, match="is a file"):
        verify(tmp_path / "file")


def test_progress_ends_at_the_end(store: Path) -> None:
    cut(shard(store, 1), 3000)
    steps: list[tuple[int, int]] = []
    verify(store, progress=lambda done, total: steps.append((done, total)))
    size = sum(file.stat().st_size for file in store.glob("*.cws"))
    assert {total for _, total in steps} == {size}
    assert [done for done, _ in steps] == sorted(done for done, _ in steps)
    assert steps[-1] == (size, size)


@pytest.mark.slow
def test_no_damage_escapes(tmp_path: Path) -> None:
    """Bits flipped all over the store: what a reader stumbles over is found, and nothing makes it fail."""
    path = write_store(tmp_path / "x.cordwood", count=4, shard_bytes=2500)
    files = files_of(path)
    draw = random.Random(4)
    harmless = 0
    for name, data in files.items():
        for at in sorted(draw.sample(range(len(data)), min(len(data), 30))):
            flip(path / name, at, draw.randrange(8))
            result = verify(path)
            assert result.to_dict()["ok"] is result.ok
            if result.ok:
                harmless += 1
                assert name == "store.json"  # a version that is read, too
                cw.open(path)[3]
            put_back(path, {name: data, **files})
    assert harmless < 5


@pytest.mark.slow
def test_no_cut_escapes(tmp_path: Path) -> None:
    path = write_store(tmp_path / "x.cordwood", count=4, shard_bytes=2500)
    files = files_of(path)
    for name, data in files.items():
        for size in range(0, len(data), max(len(data) // 12, 1)):
            cut(path / name, size)
            result = verify(path)
            if name == "shards.bin":
                assert result.ok or size < 32
            else:
                assert not result.ok, (name, size)
                assert name in str(result)
            put_back(path, files)


def test_the_text_names_what_is_lost(store: Path) -> None:
    flip(shard(store, 1), frame_of(store, 1, 0, "image")[-2])
    number = first_of(store, 1)
    text = str(verify(store))
    assert "1 damaged piece\n" in text
    assert (
        f"damaged   shard-00000001.cws, sample {number}, field 'image': the frame is not the one that was written"
        in text
    )
    assert text.endswith(f"lost      1 of 24 samples: {number}")
    assert all(len(line) <= 100 for line in text.splitlines()[1:])


@pytest.mark.slow
def test_every_error_of_a_reader_is_found(store: Path) -> None:
    """Whatever damage stops reading, verify names the sample that cannot be read."""
    draw = random.Random(8)
    files = files_of(store)
    names = [name for name in files if name.endswith(".cws")]
    for _ in range(40):
        name = draw.choice(names)
        flip(store / name, draw.randrange(len(files[name])), draw.randrange(8))
        dataset = cw.open(store)
        unread = []
        for number in range(len(dataset)):
            try:
                dataset[number]
            except CordwoodError:
                unread.append(number)
        told = {n for d in verify(store).damages if d.first is not None for n in range(d.first, (d.last or 0) + 1)}
        assert told == set(unread)
        put_back(store, files)
