"""Rows and arrays by number; shards and plans that are gone, exchanged or damaged cost what is in them, no more."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import CordwoodError, FormatError
from cordwood.store.format.shard_file import shard_name
from cordwood.store.reading.reader import Reader
from tests.store.support.packed import assert_all_same, coded, images, pack
from tests.store.support.samples import assert_same_sample

SAMPLES = images(12)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Six shards of two samples."""
    pack(tmp_path / "s", SAMPLES, "raw", shard_bytes=160)
    assert len(list((tmp_path / "s").glob("*.cws"))) == 6
    return tmp_path / "s"


def test_rows_and_arrays_as_they_are_stored(path: Path) -> None:
    reader = Reader([path])
    image, text = (reader.schema.leaf(name) for name in ("image", "meta.path"))
    rows, (pictures, texts) = reader.fetch(np.array([11, 0, 5]), [image, text], together=True)
    assert isinstance(pictures, torch.Tensor)
    assert_same_sample(pictures, torch.stack([SAMPLES[i]["image"] for i in (11, 0, 5)]))
    assert texts == ["11.jpg", "0.jpg", "5.jpg"]
    label = reader.layout.column(rows, reader.schema.leaf("label").column)
    assert label.tolist() == [2, 0, 2]
    _, (apart,) = reader.fetch(np.array([3, 4]), [image], together=False)
    assert isinstance(apart, list)
    assert_same_sample(apart, [SAMPLES[3]["image"], SAMPLES[4]["image"]])


def test_shapes_without_the_arrays(tmp_path: Path) -> None:
    reader = pack(tmp_path / "s", [{"x": torch.zeros(2, 3)}, {}, {"x": torch.zeros(0)}, {"x": None}]).reader
    assert reader.shapes(np.array([2, 0, 1, 3]), reader.schema.leaf("x")) == [(0,), (2, 3), None, None]


def test_where_a_sample_is(path: Path) -> None:
    reader = Reader([path, path], lengths=[5, 12])
    assert len(reader) == 17
    assert reader.shards.shard_of(4) == (path / shard_name(2), 0)
    assert reader.shards.shard_of(5) == (path / shard_name(0), 0)
    assert reader.shards.shard_of(16) == (path / shard_name(5), 1)


def remove(path: Path) -> None:
    (path / shard_name(2)).unlink()


def cut(path: Path) -> None:
    os.truncate(path / shard_name(2), 100)


def exchange_for_an_alike_one(path: Path) -> None:
    shutil.copy(path / shard_name(3), path / shard_name(2))


def exchange_for_one_of_another_store(path: Path) -> None:
    other = path.parent / "other"
    pack(other, [{"n": number} for number in range(2)], shard_bytes=1 << 20)
    shutil.copy(other / shard_name(0), path / shard_name(2))


def put_a_folder_there(path: Path) -> None:
    remove(path)
    (path / shard_name(2)).mkdir()


def put_a_pipe_there(path: Path) -> None:
    remove(path)
    os.mkfifo(path / shard_name(2))


def put_a_device_there(path: Path) -> None:
    remove(path)
    (path / shard_name(2)).symlink_to("/dev/zero")


def overwrite_its_end(path: Path) -> None:
    shard = path / shard_name(2)
    shard.write_bytes(shard.read_bytes()[:-30] + bytes(30))


HARM: list[Callable[[Path], None]] = [
    remove,
    cut,
    exchange_for_an_alike_one,
    exchange_for_one_of_another_store,
    put_a_folder_there,
    put_a_pipe_there,
    put_a_device_there,
    overwrite_its_end,
]


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("opened", ["before", "after"])
def test_a_shard_that_is_not_as_written_costs_its_samples_only(
    path: Path, harm: Callable[[Path], None], opened: str
) -> None:
    early = cw.open(path)
    early[0]
    harm(path)
    ds = early if opened == "before" else cw.open(path)
    assert len(ds) == 12
    ways: list[Callable[[], Any]] = [
        lambda: ds[4],
        lambda: ds[[0, 5]],
        lambda: ds.__getitems__([11, 4]),
        lambda: ds.column("label"),
        lambda: ds.select("meta.path")[5],
    ]
    for way in ways:
        with pytest.raises(CordwoodError, match="samples 4 to 5 cannot be read") as caught:
            way()
        assert isinstance(caught.value, FormatError) or harm in (
            put_a_folder_there,
            put_a_pipe_there,
            put_a_device_there,
        )
        assert shard_name(2) in str(caught.value)
    rest = [number for number in range(12) if number not in (4, 5)]
    assert_all_same(ds.__getitems__(rest), [SAMPLES[number] for number in rest])


def test_a_shard_that_comes_back_is_read(path: Path) -> None:
    ds = cw.open(path)
    (path / shard_name(2)).rename(path / "away")
    with pytest.raises(FormatError, match="the shard is not there"):
        ds[4]
    (path / "away").rename(path / shard_name(2))
    assert_same_sample(ds[4], SAMPLES[4])


def test_a_shard_that_is_replaced_while_it_is_mapped_stays_as_it_was(path: Path) -> None:
    ds = cw.open(path)
    ds[4]
    shutil.copy(path / shard_name(3), path / "new")
    (path / "new").rename(path / shard_name(2))
    assert_all_same(ds[4:6], SAMPLES[4:6])
    with pytest.raises(FormatError, match="samples 4 to 5"):
        cw.open(path)[4]


LARGE = images(4, (3, 20, 30))  # frames that are larger than what the checksum of a row covers


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        (LARGE, r"sample 2 \(row 0 of the shard\), field 'image'.*checksum.*not what was written"),
        (SAMPLES[:4], r"sample 2 \(row 0 of the shard\): the row at byte .*checksum.*the sample is lost"),
    ],
    ids=["large", "covered"],
)
def test_every_short_frame_is_checked_on_every_read(tmp_path: Path, samples: list[Any], told: str) -> None:
    ds = pack(tmp_path / "s", samples, "raw", shard_bytes=2 * samples[0]["image"].numel())
    damaged(tmp_path / "s" / shard_name(1), samples[2]["image"])
    for way in (lambda: ds[2], lambda: ds[[2, 0]], lambda: ds.__getitems__([2]), lambda: ds.select("image")[2]):
        with pytest.raises(FormatError, match=told) as caught:
            way()
        assert caught.value.reason == 15
    assert_same_sample(ds[3], samples[3])
    if samples is LARGE:
        assert ds.select("meta.path")[2] == ("2.jpg",)
    else:  # the row's checksum does not say which of the frames it is
        with pytest.raises(FormatError, match=told):
            ds.select("meta.path")[2]


def damaged(shard: Path, array: torch.Tensor) -> None:
    """Change a bit of an array that is stored as it is, in the very file that is mapped."""
    data = shard.read_bytes()
    at = data.index(array.numpy().tobytes())
    with shard.open("r+b") as file:
        file.seek(at + 7)
        file.write(bytes([data[at + 7] ^ 16]))


def test_every_full_frame_is_checked_on_every_read(tmp_path: Path) -> None:
    samples = images(4, (3, 80, 90))
    ds = pack(tmp_path / "s", samples, "raw", shard_bytes=2 * samples[0]["image"].numel())
    damaged(tmp_path / "s" / shard_name(1), samples[2]["image"])
    for way in (lambda: ds[2], lambda: ds[[2, 0]], lambda: ds.__getitems__([2])):
        with pytest.raises(FormatError, match=r"sample 2 \(row 0 of the shard\), field 'image'.*checksum") as caught:
            way()
        assert caught.value.reason == 15
    assert_same_sample(ds[3], samples[3])
    assert ds.select("meta.path")[2] == ("2.jpg",)


def test_every_row_is_checked_on_every_read(path: Path) -> None:
    ds = cw.open(path)
    label = ds.column("label")
    with (path / shard_name(2)).open("r+b") as file:
        data = file.read()
        ends = Reader([path]).layout.row_size
        file.seek(data.index(b'{"fields"') - ends + 40)  # in the second row
        file.write(b"\xff")
    for way in (lambda: ds[5], lambda: ds[[5]], lambda: ds.column("label")):
        with pytest.raises(FormatError, match=r"sample 5 \(row 1 of the shard\).*checksum.*the sample is lost"):
            way()
    assert ds[:5].column("label").tolist() == label[:5].tolist()
    assert_same_sample(ds[4], SAMPLES[4])


@pytest.fixture
def planned(tmp_path: Path) -> Path:
    """Frames that need a plan, beside a number that needs none."""
    pack(tmp_path / "p", [{"x": one, "n": i} for i, one in enumerate(coded(300))], "small")
    return tmp_path / "p"


def test_a_plan_is_looked_for_when_a_frame_needs_it(planned: Path) -> None:
    (plan,) = (planned / "plans").iterdir()
    plan.rename(planned / "away")
    ds = cw.open(planned)
    assert ds.column("n").tolist() == list(range(300))
    assert ds.select("n")[[7, 9]][0].tolist() == [7, 9]
    for asked in (7, [7, 9]):
        with pytest.raises(FormatError, match=rf"sample 7 .*field 'x'.*{plan.name}"):
            ds[asked]
    (planned / "away").rename(plan)
    assert_same_sample(cw.open(planned)[7]["x"], coded(300)[7])


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b'{"goal": "small"}'])
def test_a_plan_that_is_damaged(planned: Path, damaged: bytes) -> None:
    (plan,) = (planned / "plans").iterdir()
    plan.write_bytes(damaged)
    ds = cw.open(planned)
    with pytest.raises(FormatError, match=rf"sample 3 .*{plan.name}"):
        ds[3]
    assert ds.select("n")[3] == (3,)


def test_a_shard_may_move_to_another_store_with_its_plan(planned: Path, tmp_path: Path) -> None:
    pack(tmp_path / "q", [{"x": -one, "n": i} for i, one in enumerate(coded(300))], "small")
    target = tmp_path / "q" / shard_name(1)
    shutil.copy(planned / shard_name(0), target)
    ds = cw.open(tmp_path / "q")
    assert len(ds) == 600
    assert_same_sample(ds[299]["x"], -coded(300)[299])
    with pytest.raises(FormatError, match=r"sample 304 .*plans"):
        ds[304]
    shutil.copytree(planned / "plans", tmp_path / "q" / "plans", dirs_exist_ok=True)
    assert_same_sample(cw.open(tmp_path / "q")[[304, 4]]["x"], torch.stack([coded(300)[4], -coded(300)[4]]))


def test_input_of_any_layout_is_stored_by_its_values(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(2, 3, 4)
    values: dict[str, Any] = {
        "transposed": base.permute(2, 0, 1),
        "every second": base[..., ::2],
        "a row": base[1],
        "expanded": torch.tensor([[7]]).expand(3, 5),
        "channels last": torch.arange(48).reshape(1, 3, 4, 4).to(memory_format=torch.channels_last),
        "with a gradient": torch.ones(3, requires_grad=True),
        "conjugate": torch.tensor([1 + 2j, 3j]).conj(),
        "negative bit": torch.tensor([1 + 2j]).conj().imag,
        "backwards": np.arange(5)[::-1],
        "columns first": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "big-endian": np.arange(3, dtype=">i4"),
        "read-only": np.frombuffer(b"abcd", np.uint8),
    }
    found = pack(tmp_path / "s", [values, values])[1]
    for name, given in values.items():
        if isinstance(given, torch.Tensor):
            plain = given.detach().resolve_conj().resolve_neg().contiguous()
            assert_same_sample(found[name], plain)
            assert found[name].untyped_storage().nbytes() == plain.numel() * plain.itemsize
        else:
            assert_same_sample(found[name], np.ascontiguousarray(given, given.dtype.newbyteorder("=")))
            assert found[name].flags.writeable
