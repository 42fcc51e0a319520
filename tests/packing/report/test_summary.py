"""What a run tells at its end, and what torch.save would have taken."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import cordwood as cw
from cordwood.packing.report.summary import SAVED_SAMPLES, Packed, saved_bytes, torch_save_bytes
from cordwood.store import inspect_store
from cordwood.store.writing.first_samples import snapshot

PACKED = Packed(
    "train.cordwood",
    samples=10_000,
    inputs=10_003,
    dropped=2,
    failed=1,
    bytes_in=104_200_000,
    raw_bytes=6_021_120_000,
    stored_bytes=412_000_000,
    shards=7,
    seconds=192.0,
    torch_save_bytes=6_036_890_000,
    resumed_inputs=400,
    resumed_samples=400,
    errors="train.cordwood.errors.jsonl",
    part=(3, 16),
    notes=("12 files are no images",),
)
PLAIN = Packed("a b.cordwood", 1, 1, 0, 0, 0, 80, 100, 1, 0.0)


def test_the_table() -> None:
    assert str(PACKED).splitlines() == [
        "train.cordwood, part 3 of 16",
        "samples                        10,000  400 by earlier runs",
        "inputs                         10,003",
        "dropped                             2  the transform returned nothing",
        "failed                              1  told in train.cordwood.errors.jsonl",
        "bytes in                     104.2 MB",
        "bytes of the values            6.0 GB",
        "torch.save would have taken    6.0 GB  counted by the first 16 samples, saved one by one",
        "bytes out                    412.0 MB  7 shards, 14.6x smaller than the values",
        "                                       4.0x the bytes of the source files",
        "time                             3:12  50.0 samples/s",
        "note: 12 files are no images",
        "next: ds = cw.open('train.cordwood')",
    ]


def test_a_notebook_shows_the_table() -> None:
    shown = replace(PACKED, path="<b>.cordwood")._repr_html_()
    assert shown.split(">", 2)[2].startswith("&lt;b&gt;.cordwood, part 3 of 16\nsamples ")
    widths = [float(width) for width in re.findall(r"width:([\d.]+)em", shown)]
    sizes = [PACKED.bytes_in, PACKED.torch_save_bytes or 0, PACKED.raw_bytes, PACKED.stored_bytes]
    assert widths == pytest.approx([16 * size / max(sizes) for size in sizes], abs=0.001)


def test_what_is_not_known_is_left_out() -> None:
    assert str(PLAIN).splitlines() == [
        "a b.cordwood",
        "samples                  1",
        "inputs                   1",
        "bytes of the values   80 B",
        "bytes out            100 B  1 shard, 1.2x the bytes of the values",
        "time                  0:00",
        "next: ds = cw.open('a b.cordwood')",
    ]


@pytest.mark.parametrize(
    ("stored", "values", "source"),
    [
        (500, "2.0x smaller than the values", "4.0x smaller than the source files"),
        (990, "about as large as the values", "2.0x smaller than the source files"),
        (4000, "4.0x the bytes of the values", "2.0x the bytes of the source files"),
    ],
)
def test_it_is_told_what_the_store_is_compared_with(stored: int, values: str, source: str) -> None:
    lines = str(replace(PLAIN, bytes_in=2000, raw_bytes=1000, stored_bytes=stored)).splitlines()
    (place,) = (place for place, line in enumerate(lines) if line.startswith("bytes out"))
    assert lines[place].endswith(f"  1 shard, {values}")
    assert lines[place + 1].strip() == source
    assert lines[place].index("1 shard") == lines[place + 1].index(source)


def test_nothing_is_compared_with_nothing() -> None:
    for nothing in (replace(PACKED, stored_bytes=0), replace(PLAIN, raw_bytes=0)):
        assert "smaller" not in str(nothing)
        assert "the bytes of" not in str(nothing)


def test_rates_are_those_of_this_run() -> None:
    assert PACKED.samples_per_second == 50.0
    nothing_left = replace(PACKED, resumed_samples=PACKED.samples)
    assert nothing_left.samples_per_second is None
    assert "samples/s" not in str(nothing_left)
    assert PLAIN.samples_per_second is None
    assert replace(PLAIN, stored_bytes=0).ratio is None


def test_the_start_of_workers_is_told_apart_from_the_rate() -> None:
    slow = replace(PLAIN, samples=160, seconds=6.0, starting_seconds=4.0)
    assert slow.samples_per_second == 80.0
    assert "\ntime                  0:06  80.0 samples/s, behind 0:04 in which workers started\n" in str(slow)
    assert slow.to_dict()["starting_seconds"] == 4.0
    lost = replace(slow, seconds=100.0)
    assert lost.samples_per_second == 160 / 96
    assert "started" not in str(lost)


def test_as_json() -> None:
    found = json.loads(json.dumps(PACKED.to_dict()))
    assert found["samples"] == 10_000
    assert found["part"] == [3, 16]
    assert found["ratio"] == pytest.approx(14.614, abs=0.001)
    assert found["samples_per_second"] == 50.0
    assert found["notes"] == ["12 files are no images"]


def write(path: Path, samples: list[Any], **options: Any) -> list[int]:
    with cw.Writer(path, **options) as writer:
        for sample in samples:
            writer.append(sample)
    return [len(saved(sample)) for sample in samples]


def saved(sample: Any) -> bytes:
    file = io.BytesIO()
    torch.save(snapshot(sample), file)
    return file.getvalue()


def test_torch_save_is_counted_exactly_where_samples_are_alike(tmp_path: Path) -> None:
    samples = [{"image": torch.full((3, 40), float(n)), "label": n, "path": f"{n:04}.jpg"} for n in range(40)]
    sizes = write(tmp_path / "s", samples)
    raw = 40 * (3 * 40 * 4 + 8 + 8)
    assert torch_save_bytes(tmp_path / "s", 40, raw) == sum(sizes)


def test_torch_save_of_samples_of_any_length_is_near(tmp_path: Path) -> None:
    samples = [torch.arange(float(100 * n + 5)) for n in range(2 * SAVED_SAMPLES)]
    sizes = write(tmp_path / "s", samples)
    found = torch_save_bytes(tmp_path / "s", len(samples), sum(4 * len(sample) for sample in samples))
    assert found == pytest.approx(sum(sizes), rel=0.01)


def test_a_field_that_is_stored_narrower_counts_as_it_was_given(tmp_path: Path) -> None:
    samples = [{"x": torch.full((1000,), float(n))} for n in range(4)]
    sizes = write(tmp_path / "s", samples, fields={"x": cw.Field(store_as="float16")})
    assert torch_save_bytes(tmp_path / "s", 4, 4 * 2000) == sum(sizes)


def test_a_row_of_a_batch_counts_by_itself(tmp_path: Path) -> None:
    batch = torch.arange(4000.0).reshape(4, 1000)
    write(tmp_path / "s", list(batch))
    assert torch_save_bytes(tmp_path / "s", 4, 16_000) == 4 * len(saved(batch[0]))
    assert saved_bytes(batch[0].clone()) == len(saved(batch[0]))


def test_where_nothing_is_stored_nothing_is_said(tmp_path: Path) -> None:
    cw.Writer(tmp_path / "s").close()
    assert torch_save_bytes(tmp_path / "s", 0, 0) is None


def test_images_kept_as_they_came_have_no_such_figure(tmp_path: Path) -> None:
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, "PNG")
    write(tmp_path / "s", [{"image": file.getvalue()}], fields={"image": cw.Field(keep_encoded=True)})
    assert torch_save_bytes(tmp_path / "s", 1, 100) is None


def test_the_size_of_a_store_is_the_same_whatever_tells_it(tmp_path: Path) -> None:
    """All files of its folder, as `du` would count them."""
    rows = [{"x": torch.arange(9)}] * 20
    packed = cw.pack(rows, tmp_path / "s", workers=0, shard_bytes=300, progress=False)
    parts = [tmp_path / "part1", tmp_path / "part2"]
    for number, part in enumerate(parts, 1):
        cw.pack(rows, part, workers=0, shard_bytes=300, part=(number, 2), progress=False)
    merged = cw.merge(parts, tmp_path / "merged")
    assert isinstance(packed, Packed)
    for store, told in ((tmp_path / "s", packed.stored_bytes), (tmp_path / "merged", merged.bytes)):
        size = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        assert told == inspect_store(store).size == cw.verify(store).size == size
