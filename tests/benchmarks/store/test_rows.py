"""The benchmark of stores on tiny data: every part runs to its end, measures all its goals, and can say no."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cordwood as cw  # noqa: E402
from benchmarks.data.samples import Batch, Epoch, Samples, nbytes, photographs, random_batches, tokens  # noqa: E402
from benchmarks.data.tensors import require_same  # noqa: E402
from benchmarks.harness.outcome import Settings  # noqa: E402
from benchmarks.harness.timing import MismatchError, Spread  # noqa: E402
from benchmarks.store import memory_rows, photo_rows, single_rows, small_rows, write_rows  # noqa: E402
from benchmarks.store.contest import Contest  # noqa: E402
from benchmarks.store.memory import Job, Look, opened, read, watch  # noqa: E402
from benchmarks.store.ours import Ours  # noqa: E402
from benchmarks.store.rivals.entrants import (  # noqa: E402
    FFCV,
    FILES,
    HDF5,
    LITDATA,
    LMDB,
    NUMPY,
    TENSORDICT,
    WEBDATASET,
    ZIPPED,
    Rival,
    installed,
)
from benchmarks.store.rivals.ffcv import Pairs  # noqa: E402
from benchmarks.store.write_rows import repeated  # noqa: E402
from tests.benchmarks.support.tiny import copies_of, hide_rivals, measured, rows_of, tiny_settings  # noqa: E402

pytestmark = pytest.mark.slow

PARTS = (photo_rows, small_rows, write_rows)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for module in PARTS:
        monkeypatch.setattr(module, "BATCH", 2)
        monkeypatch.setattr(module, "GOALS", ("balanced", "fast", "raw"))
    return tiny_settings(tmp_path, monkeypatch)


@pytest.fixture
def all_here(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = copies_of(PARTS, monkeypatch)
    monkeypatch.setattr(photo_rows, "FOR_PHOTOGRAPHS", (copies["FFCV"], NUMPY, FILES))
    small = (FILES, copies["LMDB"], copies["TENSORDICT"], copies["LITDATA"], NUMPY)
    monkeypatch.setattr(small_rows, "FOR_SMALL_SAMPLES", small)


@pytest.fixture
def none_here(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_rivals(monkeypatch)


@pytest.mark.usefixtures("all_here")
def test_photographs(settings: Settings) -> None:
    outcome = measured(photo_rows, settings)
    assert outcome.reasons == {}
    sizes = {name: row[0] for name, row in rows_of(outcome).items()}
    assert sizes["ours, balanced"] < sizes["ours, raw"] < 1.02 * sizes["FFCV raw"]
    assert outcome.measured["store-size-ffcv"].median == sizes["ours, balanced"] / sizes["FFCV raw"]
    assert outcome.measured["store-size-pt"].median == sizes["one .pt a sample"] / sizes["ours, balanced"]
    assert {"FFCV raw, fast", "FFCV raw, slow", "ours, balanced"} < set(rows_of(outcome, 1))
    assert outcome.measured["store-batch-ffcv"].count == 2


@pytest.mark.usefixtures("none_here")
def test_photographs_where_no_rival_is_installed(settings: Settings) -> None:
    outcome = measured(photo_rows, settings)
    assert set(outcome.measured) == {"store-size-pt"}
    assert outcome.reasons["store-batch-ffcv"] == "FFCV raw: not here"
    assert "Not measured: LMDB: not here" in outcome.tables[1].notes
    assert rows_of(outcome, 1)["ours, raw"][-1] is None


def test_single_samples(settings: Settings) -> None:
    outcome = measured(single_rows, settings)
    assert set(rows_of(outcome)) == {"torch.load of one .pt", *(f"ours, {goal}" for goal in single_rows.GOALS)}
    assert outcome.measured["store-single-raw"].count == 2


@pytest.mark.usefixtures("all_here")
def test_small_samples(settings: Settings) -> None:
    outcome = measured(small_rows, settings)
    assert outcome.reasons == {}
    for table in (0, 1):
        rows = rows_of(outcome, table)
        assert rows["ours, raw"][2].median == 1  # itself
        assert rows["ours, fast"][3].median == 1
        assert {"LMDB, slow", "TensorDict memmap, fast", "one .pt a sample, DataLoader with 0 workers"} < set(rows)
    assert outcome.tables[1].notes[0].startswith("30 samples; one .pt a sample: 10 of them at most.")


@pytest.mark.usefixtures("none_here")
def test_small_samples_where_no_rival_is_installed(settings: Settings) -> None:
    outcome = measured(small_rows, settings)
    assert set(outcome.measured) == {"store-images-files", "store-tokens-files"}
    assert outcome.reasons["store-tokens-litdata"] == "LitData: not here"


@pytest.mark.usefixtures("all_here")
def test_packing(settings: Settings) -> None:
    outcome = measured(write_rows, settings)
    assert outcome.reasons == {}
    rows = rows_of(outcome)
    assert {"LitData, in order", "LitData, as it comes", "FFCV raw", "one .pt a sample"} < set(rows)
    assert all(row[1].count == row[3].count == 2 for row in rows.values())
    assert rows["ours, balanced"][0] < rows["ours, raw"][0]


@pytest.mark.usefixtures("none_here")
def test_packing_where_no_rival_is_installed(settings: Settings) -> None:
    outcome = measured(write_rows, settings)
    assert outcome.reasons == {"store-write-litdata": "LitData: not here", "store-write-ffcv": "FFCV raw: not here"}


@pytest.mark.parametrize("part", [photo_rows, single_rows, small_rows, write_rows])
@pytest.mark.usefixtures("none_here")
def test_a_store_that_gives_other_rows_ends_the_run(
    part: ModuleType, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(cw.Writer):
        def append(self, sample: Any) -> None:
            super().append({name: 1 - value for name, value in sample.items()})

    monkeypatch.setattr("benchmarks.store.ours.cw.Writer", Wrong)
    with pytest.raises(MismatchError, match="ours, "):
        part.measure(settings)


def test_memory(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_rows, "SHARDS", 50)
    monkeypatch.setattr(memory_rows, "ALL_SAMPLES", 5000)
    monkeypatch.setattr(memory_rows, "OPENINGS", 1)
    jobs: list[Job] = []

    def looked(job: Job) -> list[Look]:
        jobs.append(job)
        if job.action == "open":
            assert len(cw.open(job.store)) == 5000
            assert cw.open(job.store)[99] == {"value": 99}
            return [Look(0, 1000, 0), Look(5000, 1000 + (4 << 20), 7, 0.025)]
        return [Look(number, 500_000 + 1024 * number, 7) for number in range(21)]

    monkeypatch.setattr(memory_rows, "watch", looked)
    outcome = measured(memory_rows, settings)
    assert outcome.measured["store-memory"].median == 18 * 1024 / (4 << 20)
    assert outcome.measured["store-open-time"].median == 0.5
    assert outcome.measured["store-open-memory"].median == 0.5
    assert [(job.action, job.reads, job.batch) for job in jobs[:2]] == [("batches", 64, 256), ("singles", 64, 1)]


def test_a_store_that_opens_with_another_length_ends_the_run(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_rows, "SHARDS", 5)
    monkeypatch.setattr(memory_rows, "ALL_SAMPLES", 5000)
    monkeypatch.setattr(memory_rows, "watch", lambda job: [Look(0, 0, 0), Look(4999, 0, 0)])
    with pytest.raises(MismatchError, match="opened as one of 4999"):
        memory_rows.measure_opening(tmp_path)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell what a process holds")
@pytest.mark.parametrize(("action", "by"), [("batches", watch), ("batches", read), ("singles", read), ("open", opened)])
def test_a_process_is_watched_while_it_reads(action: str, by: Any, settings: Settings, tmp_path: Path) -> None:
    Ours("raw").pack(photographs(settings), tmp_path)
    looks = by(Job(action, str(Ours("raw").place(tmp_path)), reads=8, batch=4, looks=2))
    assert [look.samples for look in looks] == ([0, 5] if action == "open" else [0, 4, 8])
    assert all(look.own > 1 << 20 for look in looks)


def test_a_process_that_fails_is_told_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MismatchError, match="that was to read batches ended with 1"):
        watch(Job("batches", str(tmp_path / "nothing"), 8, 4))
    assert "does not exist" in capfd.readouterr().err


@pytest.mark.parametrize(
    "rival", [FFCV, LITDATA, WEBDATASET, TENSORDICT, LMDB, HDF5, FILES, ZIPPED, NUMPY], ids=lambda rival: rival.name
)
@pytest.mark.filterwarnings("ignore")  # a rival's own
def test_a_rival_gives_back_what_it_packed(rival: Rival, settings: Settings, tmp_path: Path) -> None:
    here, missing = installed([rival])
    if not here:
        pytest.skip(missing[rival.name])
    samples = photographs(settings).first(4)
    rival.pack(samples, tmp_path)
    assert nbytes(tmp_path) > 4 * 1000
    for epoch in rival.epochs(samples, tmp_path, 2):
        epoch.check(samples)


def test_ffcv_is_given_images_alone(settings: Settings) -> None:
    pairs = Pairs(photographs(settings), times=2)
    assert len(pairs) == 10
    pixels, label = pairs[8]
    assert (pixels.shape, label) == ((224, 224, 3), 3)
    with pytest.raises(MismatchError, match="512-token rows are none"):
        Pairs(tokens(settings))


SAMPLES = Samples("numbers", "x", torch.arange(12.0).view(6, 2))


def epoch_of(*rows: Any, numbers: Any = None, tolerance: float = 0.0) -> Epoch:
    def start() -> Any:
        for at, row in enumerate(rows):
            yield Batch(row, None if numbers is None else numbers[at])

    return Epoch("reader", start, sum(len(row) for row in rows), tolerance)


def test_an_epoch_is_checked_by_number_or_by_content() -> None:
    first, second = SAMPLES.rows[[3, 1, 2]], SAMPLES.rows[[0, 5, 4]]
    epoch_of(first, second, numbers=[[3, 1, 2], [0, 5, 4]]).check(SAMPLES)
    epoch_of(first, second).check(SAMPLES)
    assert epoch_of(first, second).run() == 6


@pytest.mark.parametrize(
    ("epoch", "message"),
    [
        (epoch_of(SAMPLES.rows[[0, 1]], numbers=[[1, 0]]), "reader, numbers: not what was packed"),
        (epoch_of(SAMPLES.rows[[0, 1]] + 1e-3, numbers=[[0, 1]], tolerance=1e-4), "not what was packed"),
        (epoch_of(SAMPLES.rows[[0, 1]].double(), numbers=[[0, 1]]), r"torch.float64 \(2, 2\)"),
        (epoch_of(SAMPLES.rows[[0, 1]].view(2, 2, 1), numbers=[[0, 1]]), r"torch.float32 \(2, 2, 1\)"),
        (epoch_of(SAMPLES.rows[[0, 1]] + 0.5), "a row that was never packed"),
        (Epoch("reader", lambda: iter(()), 6), "0 samples were read, 6 were expected"),
    ],
)
def test_what_differs_from_the_source_is_seen(epoch: Epoch, message: str) -> None:
    with pytest.raises(MismatchError, match=message):
        epoch.check(SAMPLES)


def test_another_rounding_is_let_pass_where_it_is_allowed() -> None:
    epoch_of(SAMPLES.rows[[0, 1]] + 1e-5, numbers=[[0, 1]], tolerance=1e-4).check(SAMPLES)


def test_random_batches_hold_every_sample_once() -> None:
    batches = random_batches(10, 3)
    assert [len(batch) for batch in batches] == [3, 3, 3]
    assert len({number for batch in batches for number in batch}) == 9
    assert batches != [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


def test_the_best_of_a_rival_is_taken_in_each_round_and_the_slowest_of_ours() -> None:
    contest = Contest(Path(), 2, ways={"rival": ["a", "b"]})
    times = {"a": [1.0, 4.0], "b": [2.0, 3.0], "c": [0.5, 1.5], "d": [0.1, 0.3]}
    assert contest.best(times, "rival") == [1.0, 3.0]
    assert contest.ratio(times, "rival", ["c", "d"]) == Spread(2.0, 2.0, 2.0, 2)


def test_samples_are_repeated_with_numbers_of_their_own(settings: Settings) -> None:
    samples = photographs(settings)
    many = repeated(samples, 7)
    assert len(many) == 7
    assert many[6]["label"] == 6
    assert torch.equal(many[6]["image"], samples[1]["image"])
    assert many.pixels is not None
    assert samples.pixels is not None
    assert np.array_equal(many.pixels[6], samples.pixels[1])
    assert len(repeated(samples, 3)) == 3


def test_photographs_are_normalised_as_torch_does(settings: Settings) -> None:
    from benchmarks.data.photographs import normalise

    samples = photographs(settings)
    assert samples.pixels is not None
    require_same(samples.rows[2], torch.from_numpy(normalise(samples.pixels[2])), "rows")
