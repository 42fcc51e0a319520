"""Figures of several processes together."""

from pathlib import Path

import pytest

from cordwood.doctor.evidence.fetch_figures import Figures
from cordwood.doctor.evidence.fetch_stages import Function
from cordwood.doctor.evidence.fetches import merged

DECODE = Function("ImagingDecoder.decode", "", 0, "decode")
READ = Function("_io.BufferedReader.read", "", 0, "read")
TRANSFORM = Function("prepare", "train.py", 12, "transform")
STACK = Function("torch.stack", "", 0, "collate")
MS = 1_000_000


def worker(number: int, **others: object) -> Figures:
    figures = Figures(process=100 + number, worker=number, workers=2, batches=10, get_ns=400 * MS, collate_ns=20 * MS)
    for name, value in others.items():
        setattr(figures, name, value)
    return figures


def test_nothing_gives_none() -> None:
    assert merged([]) is None
    assert merged([Figures(1, received=4, received_ns=9)]) is None


def test_durations_come_from_plain_fetches_and_shares_from_profiles() -> None:
    # A profile makes everything twice as slow here: the shares count, not its milliseconds.
    times = {DECODE: 60 * MS, READ: 10 * MS, TRANSFORM: 10 * MS, STACK: 7 * MS}
    profiled = worker(0, profiled=1, profiled_get_ns=80 * MS, profiled_collate_ns=4 * MS, functions=times)
    fetches = merged([profiled, worker(1)])
    assert fetches is not None
    assert fetches.batches == 20
    assert fetches.batches_profiled == 1
    assert fetches.workers == 2
    assert fetches.get_ms == pytest.approx(40.0)
    assert fetches.stage_ms == pytest.approx(
        {"read": 5.0, "decode": 30.0, "transform": 5.0, "collate": 2.0, "transfer": 0.0}
    )
    assert fetches.slowest_stage == "decode"
    assert [each.name for each in fetches.functions[:2]] == ["ImagingDecoder.decode", "_io.BufferedReader.read"]
    assert fetches.functions[0].own_ms == pytest.approx(30.0)
    assert fetches.total_ms == pytest.approx(42.0)


def test_without_a_profile_stages_of_samples_are_not_made_up() -> None:
    fetches = merged([worker(0, note="the script profiles itself"), worker(1, note="the script profiles itself")])
    assert fetches is not None
    assert fetches.slowest_stage is None
    assert set(fetches.stage_ms) == {"collate", "transfer"}
    assert fetches.functions == []
    assert fetches.notes == ["the script profiles itself"]


def test_transfer_is_what_both_ends_spend() -> None:
    sender = worker(0, sent=10, sent_ns=30 * MS, sent_bytes=5000)
    receiver = Figures(1, received=20, received_ns=20 * MS)
    fetches = merged([sender, receiver])
    assert fetches is not None
    assert fetches.stage_ms["transfer"] == pytest.approx(4.0)
    assert fetches.sent_bytes_per_batch == pytest.approx(500.0)


def test_workers_are_busy_for_a_share_of_their_lives() -> None:
    fetches = merged([worker(0, span_ns=840 * MS), worker(1, span_ns=420 * MS)])
    assert fetches is not None
    assert fetches.worker_busy_share == pytest.approx(840 / 1260)
    alone = merged([Figures(1, batches=5, get_ns=5, span_ns=10)])
    assert alone is not None
    assert alone.worker_busy_share is None


def test_reading_has_a_speed() -> None:
    times = {READ: 10 * MS, TRANSFORM: 30 * MS}
    figures = worker(0, profiled=1, profiled_get_ns=40 * MS, functions=times, watched=2, read_chars=8_000_000)
    fetches = merged([figures])
    assert fetches is not None
    assert fetches.bytes_read_per_batch == pytest.approx(4e6)
    assert fetches.disk_bytes_per_batch == 0
    assert fetches.read_mb_per_s == pytest.approx(400.0)  # 4 MB in the 10 ms of 40 that reading takes
    silent = merged([worker(0)])
    assert silent is not None
    assert silent.bytes_read_per_batch is None
    assert silent.read_mb_per_s is None


def test_lines_carry_their_source_and_their_part_of_a_fetch(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n    image = decode(path)\n")
    lines = {(str(script), 2, "Photos.__getitem__"): 30 * MS, (str(script), 1, "<module>"): 10 * MS}
    fetches = merged([worker(0, lines=lines, sampled_ns=60 * MS, files=[str(script)])])
    assert fetches is not None
    place, ms = fetches.lines[0]
    assert (place.line, place.function, place.source) == (2, "Photos.__getitem__", "image = decode(path)")
    assert ms == pytest.approx(42.0 / 2)
    assert fetches.files == [str(script)]


def test_damaged_figures_are_told_of() -> None:
    fetches = merged([worker(0)], damaged=2)
    assert fetches is not None
    assert fetches.notes == ["what 2 workers of the loader saw could not be read"]
