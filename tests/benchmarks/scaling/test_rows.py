"""The curves on tiny data: every part runs to its end, its table is a chart, and a wrong row ends the run."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cordwood as cw  # noqa: E402
from benchmarks.data.samples import LONGEST, Batch, Epoch, Samples, random_batches  # noqa: E402
from benchmarks.harness.charts import drawn  # noqa: E402
from benchmarks.harness.outcome import Chart, Outcome, Settings  # noqa: E402
from benchmarks.harness.timing import MismatchError, Spread, UnavailableError  # noqa: E402
from benchmarks.scaling import batch_rows, sample_rows, size_rows, thread_rows  # noqa: E402
from benchmarks.scaling.curves import Curves, fastest_ways, samples_a_second  # noqa: E402
from benchmarks.scaling.limits import disk_read, memory_copy  # noqa: E402
from benchmarks.scaling.size_rows import Amount, mosaic, pictures  # noqa: E402
from benchmarks.scaling.thread_rows import thread_counts, with_workers  # noqa: E402
from benchmarks.store.contest import Contest  # noqa: E402
from benchmarks.store.rivals.entrants import FFCV_ARRAYS, FILES, LITDATA, WEBDATASET, ZIPPED  # noqa: E402
from benchmarks.store.rivals.ffcv import FfcvDefault  # noqa: E402
from tests.benchmarks.support.tiny import Copies, measured, rows_of, tiny_settings  # noqa: E402

PARTS = (sample_rows, size_rows, batch_rows, thread_rows)
pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="pages cannot be dropped on this system")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    found = tiny_settings(tmp_path, monkeypatch)
    rivals = (Copies("LMDB"), Copies("TensorDict memmap"), FILES)
    for module in (sample_rows, size_rows, batch_rows):
        monkeypatch.setattr(module, "FOR_CURVES", rivals)

    def made_up(*_: object) -> Any:
        ramp = np.arange(224 * 224 * 3).reshape(224, 224, 3)
        return type("Photographs", (), {"pixels": [(ramp // (i + 50)).astype(np.uint8) for i in range(2)]})

    monkeypatch.setattr(size_rows, "load_photographs", made_up)
    monkeypatch.setattr(size_rows, "SIZES", (1 << 10, 200 << 10))
    monkeypatch.setattr(size_rows, "NAMES", ("1 KiB", "200 KiB"))
    monkeypatch.setattr(size_rows, "QUICK", Amount(1 << 20, 12, 4, 1))
    monkeypatch.setattr(sample_rows, "QUICK", (20, 40))
    monkeypatch.setattr(sample_rows, "SHARD", 10)
    monkeypatch.setattr(sample_rows, "BATCH", 4)
    monkeypatch.setattr(batch_rows, "FEW_BATCHES", (1, 4))
    monkeypatch.setattr(batch_rows, "SLOW", 8)
    monkeypatch.setattr(thread_rows, "BATCH", 2)
    monkeypatch.setattr(thread_rows, "RIVALS", ())
    return found


@pytest.mark.parametrize(
    ("part", "charts", "limits"),
    [
        (sample_rows, ["samples"], ["NumPy, an array in memory"]),
        (size_rows, ["sizes-warm", "sizes-cold"], ["memory copy", "disk read"]),
        (batch_rows, ["batches"], ["memory copy"]),
        (thread_rows, ["threads"], ["memory copy"]),
    ],
    ids=lambda value: getattr(value, "TITLE", ""),
)
def test_every_part_gives_curves(part: ModuleType, charts: list[str], limits: list[str], settings: Settings) -> None:
    outcome: Outcome = measured(part, settings)
    assert [table.chart.name for table in outcome.tables if table.chart] == charts
    for number, (table, limit) in enumerate(zip(outcome.tables, limits, strict=True)):
        rows = rows_of(outcome, number)
        assert {"ours, raw", "ours, balanced", limit} <= set(rows)
        assert list(rows)[-1] == limit
        assert table.chart is not None
        assert len(table.chart.places) == len(table.columns) - 1
        for cells in rows.values():
            assert all(isinstance(cell, Spread) and cell.count == 2 and cell.low > 0 for cell in cells)
        assert "<svg" in drawn(table)


def test_who_cannot_keep_so_many_has_a_gap(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_rows, "REACH", {"LMDB": 20, "one .pt a sample": 100})
    rows = rows_of(measured(sample_rows, settings))
    assert [cell is None for cell in rows["LMDB"]] == [False, True]
    assert [cell is None for cell in rows["one .pt a sample"]] == [False, False]
    assert "TensorDict memmap" not in rows


def test_who_is_not_installed_is_told(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away(Copies):
        def available(self) -> None:
            raise UnavailableError("not here")

    monkeypatch.setattr(batch_rows, "FOR_CURVES", (Away("HDF5"),))
    outcome = measured(batch_rows, settings)
    assert "Not measured: HDF5: not here" in outcome.tables[0].notes
    assert "HDF5" not in rows_of(outcome)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.TITLE)
def test_other_rows_end_the_run(part: ModuleType, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Epoch.__init__

    def spoiled(self: Any, *words: Any, **named: Any) -> None:
        original(self, *words, **named)
        if self.name.startswith("ours"):
            right = self.start
            object.__setattr__(self, "start", lambda: (Batch(b.rows + 1, b.numbers) for b in right()))

    monkeypatch.setattr(Epoch, "__init__", spoiled)
    with pytest.raises(MismatchError, match="ours, "):
        part.measure(settings)


def test_a_store_of_copied_shards_holds_every_number(settings: Settings, tmp_path: Path) -> None:
    samples = sample_rows.numbered(40)
    ours = sample_rows.Copied("raw")
    ours.pack(samples, tmp_path)
    dataset = cw.open(ours.place(tmp_path))
    assert len(dataset) == 40
    assert torch.equal(dataset[list(range(40))]["numbers"], samples.rows)


def test_pictures_are_as_large_as_asked_for() -> None:
    sources = [np.full((10, 10, 3), value, np.uint8) for value in (1, 2, 3)]
    rows = pictures(sources, 3 * 25 * 25, 6).rows
    assert rows.shape == (6, 3, 25, 25)
    assert set(rows.unique().tolist()) <= {1, 2, 3}
    assert len(rows.unique()) > 1  # a mosaic of several
    assert mosaic(sources, 3, np.random.default_rng(0)).shape == (30, 30, 3)
    assert pictures(sources, 3 * 4 * 4, 2).rows.shape == (2, 3, 4, 4)


def test_the_fastest_way_of_each_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = [Epoch(name, lambda: iter([]), 10) for name in ("a slow", "a fast", "b")]
    monkeypatch.setattr(
        "benchmarks.scaling.curves.seconds_a_sample", lambda epoch: {"a slow": 2.0, "a fast": 1.0}[epoch.name]
    )
    contest = Contest(tmp_path, 1, epochs, {"a": ["a slow", "a fast"], "b": ["b"]})
    assert {name: epoch.name for name, epoch in fastest_ways(contest).items()} == {"a": "a fast", "b": "b"}


def test_limits_are_counted_in_bytes(tmp_path: Path) -> None:
    copied = memory_copy(2, 1 << 12)
    copied.run()
    assert copied.work == 1 << 12
    file = tmp_path / "file"
    file.write_bytes(bytes(5000))
    seen: list[str] = []
    disk = disk_read(file, lambda: seen.append("dropped"))
    assert disk.work == 5000
    assert disk.timed(2, lambda: 0.0) == 0.0
    assert seen == ["dropped", "dropped"]


def test_curves_become_a_table_with_the_limits_last() -> None:
    curves = Curves()
    curves.add(0, {"limit": Spread.exact(9.0), "ours": Spread.exact(1.0)})
    curves.add(1, {"ours": Spread.exact(2.0), "limit": Spread.exact(9.0), "late": Spread.exact(3.0)})
    chart = Chart("x", "across", "up", [1.0, 2.0], ["limit"])
    table = curves.table("title", chart, ["1", "2"], "bytes")
    assert [row[0] for row in table.rows] == ["ours", "late", "limit"]
    assert table.rows[1][1] is None
    assert samples_a_second({"ours": Spread(8.0, 4.0, 12.0, 5)}, 4.0) == {"ours": Spread(2.0, 1.0, 3.0, 5)}


@pytest.mark.parametrize(("most", "expected"), [(1, [1]), (2, [1, 2]), (6, [1, 2, 4, 6]), (8, [1, 2, 4, 8])])
def test_threads_go_up_to_the_cores(most: int, expected: list[int]) -> None:
    assert thread_counts(most) == expected


def test_rivals_are_told_how_many_threads() -> None:
    ffcv: Any = with_workers(FFCV_ARRAYS, 3, 7)
    assert isinstance(ffcv, FfcvDefault)
    assert (ffcv.name, ffcv.workers, ffcv.least) == ("FFCV", 3, 7)
    for rival in (LITDATA, WEBDATASET, FILES, ZIPPED):
        told: Any = with_workers(rival, 3, 7)
        assert type(told) is type(rival)
        assert told.workers == (3,)
        assert rival.workers != (3,)


def test_of_very_many_samples_some_are_read() -> None:
    batches = random_batches(LONGEST * 4, 256)
    numbers = [number for batch in batches for number in batch]
    assert len(numbers) == len(set(numbers)) == LONGEST
    assert max(numbers) > LONGEST * 3
    assert sorted(number for batch in random_batches(10, 5) for number in batch) == list(range(10))


def test_samples_of_no_label_are_checked_too() -> None:
    rows = sample_rows.numbered(4)
    assert isinstance(rows, Samples)
    assert rows.rows.shape == (4, 8)
    assert rows.rows[0].nbytes == 64
