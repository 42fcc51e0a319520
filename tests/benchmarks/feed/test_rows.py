"""The benchmark of the Loader on tiny data: every part runs to its end, measures all its goals, and can say no."""

import multiprocessing
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cordwood as cw  # noqa: E402
from benchmarks.data.samples import Batch, Epoch, photographs, tokens  # noqa: E402
from benchmarks.feed import cold_rows, memory_rows, photo_rows, small_rows, start_rows, training_rows, turns  # noqa: E402
from benchmarks.feed.cold_rows import let_go, unmap_pages  # noqa: E402
from benchmarks.feed.ours import NORMALIZE, Fed, as_bytes  # noqa: E402
from benchmarks.feed.training import Run, small_net, train  # noqa: E402
from benchmarks.feed.turns import cpu_seconds, take_turns  # noqa: E402
from benchmarks.harness.outcome import Settings  # noqa: E402
from benchmarks.harness.packages import PackageCache  # noqa: E402
from benchmarks.harness.timing import MismatchError, Spread, UnavailableError  # noqa: E402
from benchmarks.store.memory import Job, Look, first, loaded, watch  # noqa: E402
from benchmarks.store.rivals.entrants import FFCV_ARRAYS, FFCV_BYTES, FFCV_FROM_DISK, ZIPPED, Rival, installed  # noqa: E402
from cordwood.store.format.shard_file import shard_name  # noqa: E402
from tests.benchmarks.support.tiny import copies_of, hide_rivals, measured, rows_of, tiny_settings  # noqa: E402

linux = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="this system does not tell what a process used")
pytestmark = [pytest.mark.slow, linux]
RIVALRIES = (photo_rows, small_rows, cold_rows)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    for module in (*RIVALRIES, training_rows, start_rows):
        monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(photo_rows, "LONG_EPOCH", 8)
    monkeypatch.setattr(memory_rows, "EPOCHS", 20)
    monkeypatch.setattr(start_rows, "SAMPLES", 500)
    monkeypatch.setattr(start_rows, "SHARDS", 5)
    monkeypatch.setattr(start_rows, "FEW_STARTS", 1)
    monkeypatch.setattr(training_rows, "WARM", 1)
    monkeypatch.setattr(training_rows, "FEW_STEPS", 2)
    monkeypatch.setattr(training_rows, "WORKERS", (0,))
    return tiny_settings(tmp_path, monkeypatch)


@pytest.fixture
def all_here(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = copies_of(RIVALRIES, monkeypatch)
    by_word = {"ffcv": "FFCV", "litdata": "LITDATA", "tensordict": "TENSORDICT", "lmdb": "LMDB"}
    for module in RIVALRIES:
        against = {word: copies[by_word[word]] if word in by_word else one for word, one in module.AGAINST.items()}
        monkeypatch.setattr(module, "AGAINST", against)


@pytest.fixture
def none_here(monkeypatch: pytest.MonkeyPatch) -> None:
    hide_rivals(monkeypatch)


@pytest.mark.usefixtures("all_here")
def test_photographs(settings: Settings) -> None:
    outcome = measured(photo_rows, settings)
    assert outcome.reasons == {}
    floats, pixels = rows_of(outcome), rows_of(outcome, 1)
    assert {"ours, balanced, float32 stored", "ours, balanced, uint8 stored, normalize", "FFCV raw, slow"} < set(floats)
    assert {"ours, raw, uint8 stored", "ours, balanced, uint8 stored", "FFCV raw, fast"} < set(pixels)
    assert "memory to memory" in pixels
    for row in (*floats.values(), *pixels.values()):
        rate, cpu, by_core = row[1:4]
        assert rate.count == cpu.count == by_core.count == 2
    sizes = {name: row[0] for name, row in floats.items()}
    largest = max(sizes["ours, balanced, float32 stored"], sizes["ours, balanced, uint8 stored, normalize"])
    assert outcome.measured["feed-balanced-bytes"].median == largest / sizes["FFCV raw, fast"]
    assert pixels["ours, raw, uint8 stored"][0] > 3 * 224 * 224 > pixels["ours, balanced, uint8 stored"][0]


@pytest.mark.usefixtures("none_here")
def test_photographs_where_no_rival_is_installed(settings: Settings) -> None:
    outcome = measured(photo_rows, settings)
    assert set(outcome.measured) == {"feed-balanced-files", "feed-balanced-zipped"}
    assert outcome.reasons["feed-raw-bytes"] == outcome.reasons["feed-balanced-bytes"] == "FFCV raw: not here"
    assert "Not measured: LMDB: not here" in outcome.tables[0].notes


@pytest.mark.usefixtures("all_here")
def test_small_samples(settings: Settings) -> None:
    outcome = measured(small_rows, settings)
    assert outcome.reasons == {}
    for table in (0, 1):
        rows = rows_of(outcome, table)
        assert rows["ours, raw"][4].median == 1  # itself
        assert rows["ours, fast"][5].median == 1
        assert {"LMDB, slow", "FFCV raw, fast", ".npy memmap", "one .pt a sample, DataLoader with 0 workers"} < set(
            rows
        )


@pytest.mark.usefixtures("none_here")
def test_small_samples_where_no_rival_is_installed(settings: Settings) -> None:
    outcome = measured(small_rows, settings)
    assert set(outcome.measured) == {"feed-images-files", "feed-tokens-files"}
    assert outcome.reasons["feed-tokens-ffcv"] == "FFCV: not here"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A disk that delivers 700 bytes more whenever somebody looks."""
    total = [0]

    def read() -> int:
        total[0] += 700
        return total[0]

    monkeypatch.setattr(turns, "read_from_disk", read)
    return total


@pytest.mark.usefixtures("all_here", "counted")
def test_photographs_from_the_disk(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    dropped: list[set[str]] = []
    monkeypatch.setattr(cold_rows, "let_go", lambda files: dropped.append({file.name for file in files}))
    outcome = measured(cold_rows, settings)
    assert outcome.reasons == {}
    assert outcome.measured["feed-cold-read-ffcv"].median == pytest.approx(7 / 6)  # a rest of one is left out there
    rows = rows_of(outcome)
    assert rows["ours, balanced, float32 stored, memory=mmap"][-1].median == 100  # 700 bytes for 7 photographs
    assert len(dropped) == len(rows) * (2 + 2)  # two passes to warm up, two rounds
    assert all({"rows.npy", shard_name(0)} < names for names in dropped)


@pytest.mark.usefixtures("all_here")
def test_a_store_that_no_disk_delivers_is_told(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "read_from_disk", lambda: 0)
    outcome = measured(cold_rows, settings)
    assert "no disk had to deliver" in outcome.reasons["feed-cold-read-ffcv"]
    assert set(outcome.measured) == {"feed-cold-speed-ffcv", "feed-cold-speed-tensordict"}


@pytest.mark.usefixtures("none_here")
def test_photographs_from_the_disk_where_no_rival_is_installed(settings: Settings) -> None:
    outcome = measured(cold_rows, settings)
    assert set(outcome.reasons) == set(cold_rows.KEYS)


def test_pages_that_are_mapped_are_let_go_too(tmp_path: Path) -> None:
    file, other = tmp_path / "mapped.npy", tmp_path / "other.npy"
    for place in (file, other):
        np.save(place, np.arange(1 << 20))
    maps = [np.load(place, mmap_mode="r") for place in (file, other)]
    assert [int(one.sum()) for one in maps] == [549755289600] * 2
    unmap_pages([file])
    assert resident(file) == 0
    assert resident(other) >= 8192
    let_go([file, other])
    assert [int(one.sum()) for one in maps] == [549755289600] * 2


def resident(file: Path) -> int:
    """KiB of a mapped file that this process has in its tables."""
    at = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ", 1)[0]:
            at = line.endswith(str(file.resolve()))
        elif at and line.startswith("Rss:"):
            return int(line.split()[1])
    raise AssertionError(f"{file} is not mapped")


@pytest.mark.parametrize("part", [photo_rows, small_rows, cold_rows, training_rows])
@pytest.mark.usefixtures("none_here")
def test_a_loader_that_gives_other_rows_ends_the_run(
    part: ModuleType, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(cw.Loader):
        def __iter__(self) -> Any:
            for batch in super().__iter__():
                yield {name: value + 1 for name, value in batch.items()}

    monkeypatch.setattr("benchmarks.feed.ours.cw.Loader", Wrong)
    with pytest.raises(MismatchError, match="ours, "):
        part.measure(settings)


def test_memory(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs: list[Job] = []

    def looked(job: Job) -> list[Look]:
        jobs.append(job)
        return [Look(number, 500_000 + (1 << 30) * number, 7, cpu=0.5 * number) for number in range(21)]

    monkeypatch.setattr(memory_rows, "watch", looked)
    outcome = measured(memory_rows, settings)
    calls = [row[-3] for row in rows_of(outcome).values()]
    assert outcome.measured["feed-memory"].median == (18 * (1 << 30) - min(calls)) / (4 << 20)
    assert [(job.action, job.reads, job.batch) for job in jobs] == [("epochs", 20, size) for size in (64, 64, 256, 256)]
    assert jobs[1].options == NORMALIZE
    assert all(row[-1] == 0.5 for row in rows_of(outcome).values())


@pytest.mark.parametrize("by", [watch, loaded])
def test_a_process_is_watched_while_it_loads(by: Any, settings: Settings, tmp_path: Path) -> None:
    fed = Fed("raw", "uint8", NORMALIZE)
    fed.pack(photographs(settings), tmp_path)
    looks = by(Job("epochs", str(fed.place(tmp_path)), reads=8, batch=2, looks=4, options=NORMALIZE))
    assert [look.samples for look in looks] == [0, 10, 20, 30, 40]
    assert all(look.own > 1 << 20 for look in looks)
    assert looks[-1].cpu > looks[0].cpu


def test_the_first_batch_of_many(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_rows, "watch", first)
    outcome = measured(start_rows, settings)
    assert set(rows_of(outcome)) == {"in the page cache", "on the disk"}
    assert outcome.measured["feed-first-batch"].median > 0


def test_a_store_that_is_loaded_with_another_length_ends_the_run(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(start_rows, "watch", lambda job: [Look(0, 0, 0), Look(499, 0, 0, 0.1, 0.1)])
    with pytest.raises(MismatchError, match="loaded as one of 499"):
        start_rows.measure(settings)


def test_a_first_batch_with_other_bytes_ends_the_run(tmp_path: Path) -> None:
    with cw.Writer(tmp_path / "store.cordwood") as writer:
        writer.append({"bytes": torch.zeros(8, dtype=torch.uint8), "label": 1})
    with pytest.raises(MismatchError, match="not what was stored"):
        first(Job("first", str(tmp_path / "store.cordwood"), batch=1))


@pytest.fixture
def pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two made-up sources of JPEG files."""
    image = pytest.importorskip("PIL.Image")

    def made_up(cache: PackageCache) -> tuple[dict[str, Any], list[str]]:
        ramp = np.arange(320 * 400 * 3).reshape(320, 400, 3)
        return {str(i): image.fromarray((ramp // i).astype(np.uint8)) for i in (300, 500)}, []

    monkeypatch.setattr(training_rows, "open_sources", made_up)


@pytest.mark.usefixtures("pictures")
def test_training(settings: Settings) -> None:
    pytest.importorskip("cv2")
    outcome = measured(training_rows, settings)
    rows = rows_of(outcome)
    assert {name.partition(",")[0] for name in rows} == {"one batch in memory", "ours", "PNG files", "JPEG files"}
    assert all(row[1].count == 2 and 0 <= row[1].median < 1 for row in rows.values())
    waits = [row[1].median for name, row in rows.items() if name.startswith("ours")]
    assert outcome.measured["feed-training-wait"].median == max(waits) / 0.01


def test_training_without_photographs_says_so(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cv2")
    monkeypatch.setattr(training_rows, "open_sources", lambda cache: ({}, ["the index is away"]))
    outcome = measured(training_rows, settings)
    assert "Not measured: no photograph could be opened: the index is away" in outcome.tables[0].notes
    assert set(rows_of(outcome)) >= {one.name for one in training_rows.OURS}


def test_waiting_is_what_the_next_batch_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def batches() -> Any:
        for wait in (100.0, 1.0, 3.0):
            now[0] += wait
            yield Batch(torch.zeros(2, 3, 32, 32), [0, 1])
            now[0] += 0.0

    def stepped(*_: object) -> None:
        now[0] += 2.0

    monkeypatch.setattr("benchmarks.feed.training.time.perf_counter", lambda: now[0])
    monkeypatch.setattr("benchmarks.feed.training.step", stepped)
    monkeypatch.setattr("benchmarks.feed.training.cpu_seconds", lambda: now[0])
    assert train(batches(), small_net(), warm=1) == Run(
        rate=4 / 8, waiting=4 / 8, longest_wait=3.0, step=2.0, cpu=8 / 4
    )


def test_worker_processes_count_while_they_live_and_when_they_have_ended() -> None:
    context = multiprocessing.get_context("fork")
    ready, done = context.Event(), context.Event()

    def work() -> None:
        begin = time.process_time()
        while time.process_time() - begin < 0.3:
            pass
        ready.set()
        done.wait()

    before = cpu_seconds()
    worker = context.Process(target=work)
    worker.start()
    ready.wait()
    living = cpu_seconds() - before
    done.set()
    worker.join()
    ended = cpu_seconds() - before
    assert 0.3 <= living <= ended < living + 0.25


def test_systems_that_do_not_tell_what_workers_use_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    with pytest.raises(UnavailableError, match="living worker process"):
        cpu_seconds()


def test_turns_tell_what_a_sample_took(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr(turns, "cpu_seconds", lambda: next(clock))
    monkeypatch.setattr(turns, "read_from_disk", lambda: 0)
    prepared: list[int] = []
    one = Epoch("one", lambda: iter([Batch(torch.zeros(2, 1))]), 2)
    taken = take_turns(settings, [one], lambda: prepared.append(1))
    assert taken.cpu == {"one": [2.0, 2.0]}
    assert taken.read == {"one": [0.0, 0.0]}
    assert len(taken.seconds["one"]) == 2
    (row,) = taken.table("title", {"one": 7.0}, ["one"]).rows
    assert row[0:2] == ["one", 7.0]
    assert row[3:] == [Spread(2.0, 2.0, 2.0, 2), Spread(0.5, 0.5, 0.5, 2), Spread(1.0, 1.0, 1.0, 2)]
    assert len(prepared) == 4


@pytest.mark.parametrize(
    "rival", [ZIPPED, FFCV_BYTES, FFCV_FROM_DISK, FFCV_ARRAYS], ids=lambda rival: type(rival).__name__
)
@pytest.mark.filterwarnings("ignore")  # a rival's own
def test_a_rival_gives_back_what_it_packed(rival: Rival, settings: Settings, tmp_path: Path) -> None:
    here, missing = installed([rival])
    if not here:
        pytest.skip(missing[rival.name])
    pixels = photographs(settings).first(4)
    samples = tokens(settings) if rival is FFCV_ARRAYS else as_bytes(pixels) if rival is FFCV_BYTES else pixels
    rival.pack(samples, tmp_path)
    for epoch in rival.epochs(samples, tmp_path, 2):
        epoch.check(samples)


def test_samples_that_are_no_pixels_have_no_bytes(settings: Settings) -> None:
    with pytest.raises(MismatchError, match="512-token rows were not made of pixels"):
        as_bytes(tokens(settings))


def test_an_epoch_of_ours_may_be_longer_than_the_store(settings: Settings, tmp_path: Path) -> None:
    fed = Fed("balanced", "uint8", NORMALIZE, least=12)
    samples = photographs(settings)
    fed.pack(samples, tmp_path)
    (epoch,) = fed.epochs(samples, tmp_path, 2)
    assert epoch.name == "ours, balanced, uint8 stored, normalize"
    assert epoch.count == epoch.run() == 15
    epoch.check(samples)
