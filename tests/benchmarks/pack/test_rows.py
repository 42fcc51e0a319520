"""The benchmark of packing on tiny data: every part runs to its end, measures all its goals, and can say no."""

import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest

from cordwood.codecs import Goal

torch = pytest.importorskip("torch")

from PIL import Image  # noqa: E402

from benchmarks.data.photographs import Photographs  # noqa: E402
from benchmarks.harness.outcome import Outcome, Settings  # noqa: E402
from benchmarks.harness.packages import PackageCache  # noqa: E402
from benchmarks.harness.timing import MismatchError, UnavailableError  # noqa: E402
from benchmarks.pack import data, decoder_rows, decoders, many_rows, overhead_rows, photo_rows, rivals, story_rows  # noqa: E402
from benchmarks.pack.data import Counts, Entry, PhotographFolder, Preparing, listed, prepare  # noqa: E402
from benchmarks.pack.decoders import Way  # noqa: E402
from benchmarks.pack.overhead_rows import Cost, Prepared, five_milliseconds  # noqa: E402
from benchmarks.pack.photo_rows import by_cordwood  # noqa: E402
from benchmarks.pack.process import Job, Look, Numbers, Run, stored_bytes  # noqa: E402
from benchmarks.store.rivals.loaders import optimize  # noqa: E402
from tests.benchmarks.support.tiny import measured, rows_of  # noqa: E402

pytestmark = pytest.mark.slow

linux = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell what is held")
TINY = Counts(made=7, files=11, decoded=4, burned=8, tiny=1000, story=10, batch=4)
MIB = 1 << 20


def pictures(cache: PackageCache) -> tuple[dict[str, Any], list[str]]:
    """Two made-up ones, and one that could not be had."""
    ramp = np.arange(400 * 500 * 3).reshape(400, 500, 3)
    found = {f"{name}.png": Image.fromarray((ramp // divisor).astype(np.uint8)) for name, divisor in NAMES}
    return found, ["bus.jpg: the index is away"]


NAMES = (("hills", 701), ("lakes", 333))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Nothing is downloaded, nobody waits for the disk, and nobody for workers to start."""
    monkeypatch.setattr("os.sync", lambda: None)
    monkeypatch.setattr(data, "QUICK", TINY)
    monkeypatch.setattr(data, "open_sources", pictures)
    monkeypatch.setattr(decoder_rows, "GOALS", ("raw", "balanced"))
    monkeypatch.setattr(story_rows, "GOALS", ("balanced",))
    monkeypatch.setattr(story_rows, "WORKERS", 0)
    monkeypatch.setattr(story_rows, "SLICES", 2)
    monkeypatch.setattr(overhead_rows, "WORKERS", 0)
    our_pack = photo_rows.our_pack

    def in_this_process(source: Path, workers: int, goal: Goal, entries: Sequence[Entry], folder: Path) -> None:
        our_pack(source, 0, goal, entries, folder)

    monkeypatch.setattr(photo_rows, "our_pack", in_this_process)
    return Settings(True, PackageCache(tmp_path), 2, 0.0, 2, None, 0, 0, 0, 0)


def without_ordered(
    write: Callable[..., None], preparing: Preparing, entries: Sequence[Entry], folder: Path, *, ordered: bool
) -> None:
    write(preparing, entries, folder)


@pytest.fixture
def litdata_is_a_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photo_rows, "need", lambda module: None)
    monkeypatch.setattr(photo_rows, "optimize", partial(without_ordered, rivals.plain_loop))
    monkeypatch.setattr(photo_rows, "require_chunks", rivals.require_files)


def test_the_folder_has_classes_and_every_file_a_name(settings: Settings, tmp_path: Path) -> None:
    folder = PhotographFolder.made(settings, tmp_path / "photographs", 7, 11)
    assert [entry.label for entry in folder.entries] == [0] * 6 + [1] * 5
    assert len({entry.name for entry in folder.entries}) == 11
    assert len({Path(entry.path).read_bytes() for entry in folder.entries}) == 7
    assert folder.missing == ["bus.jpg: the index is away"]
    for entry in folder.entries:
        with Image.open(entry.path) as image:
            assert min(image.size) == 375
    assert folder.mean_bytes() == sum(Path(entry.path).stat().st_size for entry in folder.entries) / 11


def test_a_folder_without_photographs_is_unavailable(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "open_sources", lambda cache: ({}, ["all are away"]))
    with pytest.raises(UnavailableError, match="all are away"):
        PhotographFolder.made(settings, tmp_path / "photographs", 1, 1)


def test_the_transform_is_the_usual_one() -> None:
    image = torch.full((3, 300, 512), 255, dtype=torch.uint8)
    prepared = prepare(image)
    assert prepared.shape == (3, 224, 224)
    assert prepared.is_contiguous()
    assert torch.allclose(
        prepared[:, 7, 9], torch.tensor([(1 - 0.485) / 0.229, (1 - 0.456) / 0.224, (1 - 0.406) / 0.225])
    )


@pytest.mark.usefixtures("litdata_is_a_loop")
def test_photographs(settings: Settings) -> None:
    outcome = measured(photo_rows, settings)
    assert outcome.reasons == {}
    rows = rows_of(outcome)
    assert {photo_rows.LITDATA, photo_rows.PLAIN, photo_rows.POOL, photo_rows.SMALL} < set(rows)
    ours, loop, small = (rows[name] for name in (photo_rows.TWO, photo_rows.PLAIN, photo_rows.SMALL))
    assert outcome.measured["pack-size"].median == loop[0] / ours[0] > 5
    assert small[2] is None
    assert ours[2].count == loop[2].count == 2
    assert ours[3].median == 1


def test_photographs_without_litdata(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str) -> None:
        raise UnavailableError("not here")

    monkeypatch.setattr(photo_rows, "need", missing)
    outcome = measured(photo_rows, settings)
    assert outcome.reasons == {"pack-litdata": "LitData: not here"}
    assert any("LitData: not here" in note for note in outcome.tables[0].notes)


def test_goals_are_ratios_round_by_round() -> None:
    times = {
        photo_rows.ONE: [9.0, 8.0, 9.0],
        photo_rows.TWO: [4.0, 4.0, 4.0],
        photo_rows.LITDATA: [8.0, 6.0, 9.0],
        photo_rows.PLAIN: [16.0, 16.0, 16.0],
    }
    found = photo_rows.judge({photo_rows.PLAIN: 600.0, photo_rows.TWO: 50.0}, times)
    assert {key: spread.median for key, spread in found.items()} == {
        "pack-workers": 2.25,
        "pack-litdata": 2.0,
        "pack-plain": 4.0,
        "pack-size": 12.0,
    }


def test_other_samples_than_the_transform_gives_are_refused(settings: Settings, tmp_path: Path) -> None:
    folder = PhotographFolder.made(settings, tmp_path / "photographs", 3, 3)
    preparing = Preparing(by_cordwood)
    out = tmp_path / "out"
    out.mkdir()
    rivals.pool_loop(preparing, folder.entries, out)
    rivals.require_files(folder.entries, out, preparing)
    torch.save(preparing(folder.entries[1]), out / folder.entries[0].name.replace(".jpg", ".pt"))
    with pytest.raises(MismatchError, match="not what the transform gives"):
        rivals.require_files(folder.entries, out, preparing)
    (out / folder.entries[2].name.replace(".jpg", ".pt")).unlink()
    with pytest.raises(MismatchError, match=r"no \.pt file"):
        rivals.require_files(folder.entries[2:], out, preparing)


@pytest.mark.filterwarnings("ignore")  # LitData's own
def test_litdata_gives_back_what_it_packed(settings: Settings, tmp_path: Path) -> None:
    pytest.importorskip("litdata")
    folder = PhotographFolder.made(settings, tmp_path / "photographs", 3, 3)
    preparing = Preparing(by_cordwood)
    out = tmp_path / "out"
    out.mkdir()
    optimize(preparing, folder.entries, out, ordered=True)
    rivals.require_chunks(folder.entries, out, preparing)
    with pytest.raises(MismatchError, match="3 samples of 2"):
        rivals.require_chunks(folder.entries[:2], out, preparing)


def test_decoders(settings: Settings) -> None:
    outcome = measured(decoder_rows, settings)
    rows = rows_of(outcome)
    assert {"JPEG, Pillow", "JPEG, OpenCV", "BMP, OpenCV", "a store, raw", "a store, balanced"} < set(rows)
    pillow, bmp, raw = rows["JPEG, Pillow"], rows["BMP, OpenCV"], rows["a store, raw"]
    assert pillow[2].median == 1
    assert pillow[3] is not None
    assert bmp[3] is raw[3] is None
    assert rows["a store, balanced"][0] < raw[0]
    assert bmp[0] > 375 * 375 * 3
    assert {row[4] for name, row in rows.items() if name.startswith(("BMP", "a store"))} == {0}


def test_a_decoder_that_is_not_here_is_a_line(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def by_nobody() -> Way:
        raise UnavailableError("not installed")

    monkeypatch.setattr(decoders, "JPEG_WAYS", (decoders.by_pillow, by_nobody))
    outcome = measured(decoder_rows, settings)
    assert "Not measured: by nobody: not installed" in outcome.tables[0].notes


def test_a_decoder_that_gives_other_sizes_is_refused(settings: Settings, tmp_path: Path) -> None:
    folder = PhotographFolder.made(settings, tmp_path / "photographs", 1, 1)
    path = folder.entries[0].path
    pillow = decoders.by_pillow()
    with pytest.raises(MismatchError, match="half of"):
        decoder_rows.require_half(Way("whole", pillow.read, pillow.read), path)
    assert pillow.half is not None
    with pytest.raises(MismatchError, match="Pillow"):
        decoder_rows.largest_difference(Way("half", pillow.half), [path], [pillow.read(path)])
    with pytest.raises(UnavailableError, match="could not read"):
        decoders.as_pixels(None)


def test_overhead(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = [np.full((224, 224, 3), value, np.uint8) for value in (7, 200)]
    monkeypatch.setattr(
        overhead_rows, "load_photographs", lambda cache, count: Photographs(pixels, ["made up"] * 2, [])
    )
    outcome = measured(overhead_rows, settings)
    rows = rows_of(outcome)
    assert list(rows) == ["cw.pack", "transform and encoding alone", "what pack adds"]
    assert rows["transform and encoding alone"][1].median >= overhead_rows.TRANSFORM
    worst = max(rows["what pack adds"], key=lambda spread: float(spread.median))
    assert outcome.measured["pack-overhead"].median == pytest.approx(worst.median / 0.0005)


def test_the_transform_takes_its_time_and_its_samples_travel(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    source = Prepared(tmp_path / "rows.npy", 5)
    start = time.thread_time()
    sample = five_milliseconds(source[3])
    assert time.thread_time() - start >= overhead_rows.TRANSFORM
    assert sample["image"].tolist() == [3.0, 4.0, 5.0]
    assert sample["label"] == 3
    assert source.__getstate__()["rows"] is None
    assert (Cost(6.0, 8.0) - Cost(2.0, 2.0)) / 2 == Cost(2.0, 3.0)


@linux
def test_a_process_that_packs_is_watched(tmp_path: Path) -> None:
    job = Job(str(tmp_path / "tiny.cordwood"), str(tmp_path / "counter"), samples=2000, workers=0)
    run = Run.start(job)
    assert run.first_written() > 0
    looks = run.watched(until=job.samples)
    assert run.finish() == 0
    assert all(look.own > MIB for look in looks)
    assert run.reached() == 1984
    assert stored_bytes(Path(job.store)) > 0
    with pytest.raises(MismatchError, match="ended with 0"):
        run.first_written()


@linux
def test_a_process_that_cannot_begin_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    with pytest.raises(MismatchError, match="ended with 1"):
        Run.start(Job(str(tmp_path / "tiny.cordwood"), str(tmp_path / "counter"), 10, 0))


def test_the_counter_tells_the_highest_number(tmp_path: Path) -> None:
    np.zeros(1, np.int64).tofile(tmp_path / "counter")
    numbers = Numbers(500, str(tmp_path / "counter"))
    assert [numbers[number] for number in (1, 128, 64)][2] == {"number": 64, "half": 32.0}
    assert np.fromfile(tmp_path / "counter", np.int64)[0] == 128
    assert numbers.__getstate__()["noted"] is None


class PretendedRun:
    """Writes a store of ten bytes, of which a run that is killed leaves nine."""

    wrong = False
    held = (50, 70, 71, 90, 80)  # MiB, looked at after every twentieth of the samples

    def __init__(self, job: Job) -> None:
        self.job, self.store = job, Path(job.store)

    @classmethod
    def start(cls, job: Job) -> Self:
        return cls(job)

    def watched(self, until: int) -> list[Look]:
        self.store.mkdir(exist_ok=True)
        content = b"123456789" if until < self.job.samples else b"1234567890"
        if self.wrong and (self.store / "shard-0.cws").exists():
            content = b"0123456789"
        (self.store / "shard-0.cws").write_bytes(content)
        return [Look(self.job.samples * turn // 20, own * MIB) for turn, own in enumerate(self.held)]

    def first_written(self) -> float:
        assert (self.store / "shard-0.cws").read_bytes() == b"123456789"
        return 2.0

    def kill(self) -> None:
        """It is not there."""

    def finish(self) -> int:
        return 0


def many(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setattr(many_rows, "Run", PretendedRun)
    return measured(many_rows, settings)


def test_many_samples_are_judged_by_growth_and_by_the_time_to_resume(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = many(settings, monkeypatch)
    assert outcome.tables[0].rows == [[71 * MIB, 90 * MIB, 80 * MIB, 19 * MIB]]
    assert outcome.measured["pack-memory"].median == 19 / 16
    assert outcome.measured["pack-resume"].median == 2.0 / 5.0


def test_a_resumed_run_that_leaves_other_bytes_ends_the_benchmark(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PretendedRun, "wrong", True)
    with pytest.raises(MismatchError, match="other bytes"):
        many(settings, monkeypatch)


def test_a_run_that_fails_ends_the_benchmark(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PretendedRun, "finish", lambda self: 1)
    with pytest.raises(MismatchError, match="did not come to its end"):
        many(settings, monkeypatch)


def test_the_story(settings: Settings) -> None:
    outcome = measured(story_rows, settings)
    rows = rows_of(outcome)
    tensor = 3 * 224 * 224 * 4
    slices, clones = rows["torch.save(batch[b])"], rows["torch.save(batch[b].clone())"]
    # 10 images in batches of 4, 4 and 2.
    assert slices[0] == pytest.approx((8 * 4 + 2 * 2) * tensor, rel=0.01)
    assert clones[0] == pytest.approx(10 * tensor, rel=0.01)
    assert slices[3] is None
    assert clones[4].median == 1
    assert rows["cw.pack, balanced"][0] < rows["the clones, zipped"][0] < clones[0]
    assert rows["cw.pack, balanced"][2] == pytest.approx(rows["cw.pack, balanced"][0] / 1e6)
    assert rows["cw.pack, keep_encoded"][0] < 2 * rows["the JPEG files, prepared again"][0]


def test_the_story_compares_what_is_read(settings: Settings, tmp_path: Path) -> None:
    folder = PhotographFolder.made(settings, tmp_path / "photographs", 1, 1)
    wrong = story_rows.Kept("wrong", 1.0, lambda number: torch.zeros(3, 224, 224))
    with pytest.raises(MismatchError, match="wrong does not give image 0 back"):
        story_rows.require_same([wrong], folder)
    assert listed(folder.path) == folder.entries
    shutil.rmtree(folder.path)
