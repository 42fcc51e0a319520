"""Inputs that take longer than a timeout: they fail by their names, and all others are packed, once, as always."""

import ctypes
import fcntl
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cordwood as cw
from cordwood.packing import PackProgress
from cordwood.packing.workers import engine, pool
from tests.packing.support.forkedworkers import launch
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import Numbers, numbers_of, pack
from tests.packing.support.textfolder import Folder, Texts
from tests.store.support.photos import files_of

COUNT = 400
TIMEOUT = 0.7  # seconds, for inputs that take microseconds or for ever
Sample = dict[str, Any]


@pytest.fixture
def dest() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made / "s"


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool._Worker, "_launch", launch)


def hangs_at(*numbers: int, way: str = "wait", mark: Path | None = None) -> Any:
    """A transform that never comes back from these; `mark` gets a line each time that it is called with one."""

    def hanging(sample: Sample) -> Sample:
        found = sorted({*np.atleast_1d(sample["number"]).tolist()} & {*numbers})
        if found:
            if mark is not None:
                with mark.open("a") as file:
                    file.write(f"{found[0]}\n")
            if way == "wait":
                threading.Event().wait()
            else:
                ctypes.PyDLL(None).pause()  # which keeps the lock of the interpreter
        return sample

    return hanging


class Slowly(Numbers):
    """Some of these cannot be read."""

    def __init__(self, count: int, *numbers: int) -> None:
        super().__init__(count)
        self._numbers = numbers

    def __getitem__(self, number: int) -> dict[str, int]:
        if number in self._numbers:
            threading.Event().wait()
        return super().__getitem__(number)


def failures_of(dest: Path) -> dict[int, dict[str, Any]]:
    lines = dest.with_name(f"{dest.name}.errors.jsonl").read_text("utf-8").splitlines()
    return {one["input"]: one for one in map(json.loads, lines)}


def without(*numbers: int, count: int = COUNT) -> list[int]:
    return [number for number in range(count) if number not in numbers]


def test_an_input_that_hangs_fails_by_its_name(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    texts = Folder(tmp_path)
    texts.write(**{name: name for name in "abcdef"})

    def hanging(sample: Sample) -> Sample:
        if sample["path"] == "c":
            threading.Event().wait()
        return sample

    options: dict[str, Any] = {"workers": 1, "timeout": TIMEOUT, "progress": False}
    with pytest.raises(cw.PackError, match=r"^input 2 \(c\) failed: TimeoutError: it took longer than timeout=0.7 sec"):
        cw.pack(Texts(texts.folder), texts.store, hanging, **options)
    packed = cw.pack(Texts(texts.folder), texts.store, hanging, on_error="skip", **options)
    assert isinstance(packed, cw.Packed)
    assert (packed.samples, packed.failed) == (5, 1)
    (failure,) = failures_of(texts.store).values()
    assert (failure["input"], failure["name"]) == (2, "c")
    assert failure["error"].startswith("TimeoutError: it took longer than timeout=0.7 seconds")
    assert failure["seconds"] > TIMEOUT
    assert caplog.messages[-1].startswith("c took longer than timeout=0.7: a worker process was killed after ")


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_number_of_workers_that_were_killed(dest: Path) -> None:
    """Before the schema is known and after, two in one task, the first and the last."""
    hang = (0, 7, 300, 302, COUNT - 1)
    found = []
    for workers in (1, 3):
        where = dest / str(workers)
        where.parent.mkdir(exist_ok=True)
        packed = pack(Numbers(COUNT), where, hangs_at(*hang), workers=workers, timeout=TIMEOUT, on_error="skip")
        assert (packed.samples, packed.failed) == (COUNT - len(hang), len(hang))
        assert numbers_of(where) == without(*hang)
        assert sorted(failures_of(where)) == list(hang)
        assert cw.verify(where).ok
        found.append({name: data for name, data in files_of(where).items() if name != ".lock"})

    def fails(sample: Sample) -> Sample:
        if sample["number"] in hang:
            raise ValueError("at once")
        return sample

    pack(Numbers(COUNT), dest / "failed", fails, on_error="skip")
    found.append({name: data for name, data in files_of(dest / "failed").items() if name != ".lock"})
    for files in found[1:]:
        assert [name for name in found[0].keys() | files.keys() if found[0].get(name) != files.get(name)] == (
            ["pack.json"] if files is found[2] else []
        )


def test_a_call_that_keeps_the_interpreter_is_ended_whatever_waits_to_be_sent(dest: Path) -> None:
    """More than a pipe holds: a process that hangs in this way reads nothing."""
    large = ({"number": number, "pixels": np.full(1 << 16, number)} for number in range(8))
    packed = pack(large, dest, hangs_at(2, way="pause"), workers=1, timeout=TIMEOUT, on_error="skip")
    assert (packed.samples, packed.failed) == (7, 1)
    assert numbers_of(dest) == without(2, count=8)


@pytest.mark.slow
def test_processes_that_a_transform_waits_for_end_too(dest: Path, tmp_path: Path) -> None:
    lock, survived = tmp_path / "lock", tmp_path / "survived"
    program = (
        "import fcntl, pathlib, sys, time; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX); "
        "print(flush=True); time.sleep(100); pathlib.Path(sys.argv[2]).touch()"
    )

    def waiting(sample: Sample) -> Sample:
        if sample["number"] == 3:
            with subprocess.Popen([sys.executable, "-c", program, lock, survived], stdout=subprocess.PIPE) as child:
                child.wait()
        return sample

    assert pack(Numbers(5), dest, waiting, workers=1, timeout=3 * TIMEOUT, on_error="skip").failed == 1
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
    assert not survived.exists()


def test_a_batch_that_takes_too_long_fails_as_a_whole(dest: Path) -> None:
    options: dict[str, Any] = {"batched": True, "batch_size": 8, "workers": 2, "timeout": TIMEOUT, "on_error": "skip"}
    packed = pack(Numbers(20), dest, hangs_at(11), **options)
    assert (packed.samples, packed.failed) == (12, 8)
    assert numbers_of(dest) == without(*range(8, 16), count=20)
    failures = failures_of(dest)
    assert list(failures) == list(range(8, 16))
    assert "its batch of 8 inputs took longer" in failures[15]["error"]


def test_an_input_of_a_batch_that_is_not_read_in_time_is_left_out_of_it(dest: Path) -> None:
    options: dict[str, Any] = {"batched": True, "batch_size": 8, "workers": 2, "timeout": TIMEOUT, "on_error": "skip"}

    def counted(batch: Sample) -> Sample:
        return {"number": batch["number"], "size": [len(batch["number"])] * len(batch["number"])}

    packed = pack(Slowly(20, 11, 14), dest, counted, **options)
    assert (packed.samples, packed.failed) == (18, 2)
    assert list(failures_of(dest)) == [11, 14]
    sizes = [sample["size"] for sample in cw.open(dest)]
    assert sizes == [8] * 8 + [6] * 6 + [4] * 4


@pytest.mark.parametrize("on_error", ["skip", "retry"])
def test_it_is_not_tried_again(on_error: str, dest: Path, tmp_path: Path) -> None:
    """Not in the same run, nor by one that resumes."""

    class Stop(Exception):  # noqa: N818 - no error
        pass

    def stop(state: PackProgress) -> None:
        if state.failed:
            raise Stop

    mark = tmp_path / "calls"
    options: dict[str, Any] = {"workers": 1, "timeout": TIMEOUT, "on_error": on_error, "retries": 3}
    with pytest.raises(Stop if on_error == "skip" else cw.PackError):
        pack(Numbers(COUNT), dest, hangs_at(7, mark=mark), progress=stop, **options)
    assert mark.read_text() == "7\n"
    if on_error == "skip":
        packed = pack(Numbers(COUNT), dest, hangs_at(7, mark=mark), **options)
        assert (packed.failed, mark.read_text()) == (1, "7\n")
        assert numbers_of(dest) == without(7)


def test_inputs_that_are_brought_up_to_date_can_hang_too(tmp_path: Path) -> None:
    texts = Folder(tmp_path)
    texts.write(a="a1 a2", b="b1", c="c1")
    texts.pack(update=False, transform=None)
    texts.write(b="hang", d="d1")

    def hanging(sample: Sample) -> Sample:
        if sample["text"] == "hang":
            threading.Event().wait()
        return sample

    texts.pack(transform=hanging, accept_changed_transform=True, workers=1, timeout=TIMEOUT)
    assert [one["path"] for one in cw.open(texts.store)] == ["a", "c", "d"]
    assert [one["name"] for one in failures_of(texts.store).values()] == ["b"]


def test_every_part_of_a_job_looks_past_an_input_that_hangs(dest: Path) -> None:
    """All parts look at the first samples of the whole."""
    options: dict[str, Any] = {"workers": 1, "timeout": TIMEOUT, "on_error": "skip"}
    packed = pack(Numbers(40), dest, hangs_at(3), part="2/2", **options)
    assert (packed.samples, packed.failed) == (20, 0)


# ---- silence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batched", [False, True])
def test_silence_names_the_input_that_is_worked_on(
    batched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_SILENCE", 0.0)
    texts = Folder(tmp_path)
    texts.write(**{name: name for name in "abcdef"})
    release = tmp_path / "release"

    def waits(sample: Sample) -> Sample:
        while "c" in sample["path"] and not release.exists():
            threading.Event().wait(0.001)
        return sample

    named = []

    def progress(state: PackProgress) -> None:
        if state.waiting_for is not None and "c" in state.waiting_for[0]:
            named.append(state.waiting_for)
            if state.waiting_for[1] > 0:
                release.touch()

    options: dict[str, Any] = {"batched": True, "batch_size": 5} if batched else {}
    cw.pack(Texts(texts.folder), texts.store, waits, workers=1, progress=progress, **options)
    assert {name for name, _ in named} == {"a, b, c, ..." if batched else "c"}


def test_as_long_as_results_come_no_input_is_named(dest: Path) -> None:
    states: list[PackProgress] = []
    pack(Numbers(COUNT), dest, workers=1, progress=states.append)
    assert {state.waiting_for for state in states} == {None}


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, "5"])
def test_a_timeout_is_a_number_of_seconds(timeout: Any, dest: Path) -> None:
    with pytest.raises(cw.UsageError, match=r"^timeout must be None or a number of seconds greater than 0, got "):
        pack(Numbers(3), dest, workers=1, timeout=timeout)


@pytest.mark.parametrize(("options", "told"), [({}, "needs a worker process"), ({"workers": 1, "limit": 2}, "limit")])
def test_it_needs_a_process_that_can_be_killed(options: dict[str, Any], told: str, dest: Path) -> None:
    with pytest.raises(cw.UsageError, match=told):
        pack(Numbers(3), dest, timeout=5, **options)
    assert not dest.exists()


class HangsAt:
    """A dataset some items of which never come."""

    def __init__(self, count: int, *hangs: int) -> None:
        self._count, self._hangs = count, hangs

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> int:
        if number in self._hangs:
            threading.Event().wait()
        return number


@pytest.mark.filterwarnings("ignore:.*failed and were left out")
def test_items_that_timed_out_are_not_waited_for_when_a_dataset_has_grown(dest: Path) -> None:
    options: dict[str, Any] = {"workers": 1, "timeout": TIMEOUT, "on_error": "skip"}
    for count, hangs in ((10, (0, 9)), (12, (0, 9))):
        found = cw.cached(HangsAt(count, *hangs), dest, progress=False, **options)
        assert len(found) == count - 2


def test_an_old_item_that_hangs_when_a_dataset_has_grown_fails_and_is_named(
    dest: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_SILENCE", 0.1)
    waited: list[PackProgress] = []
    cw.cached(HangsAt(10), dest, workers=1, progress=False)
    with pytest.raises(cw.UsageError, match=r"item 9 fails now \(TimeoutError: it took longer than timeout=0\.7 "):
        cw.cached(HangsAt(12, 9), dest, workers=1, timeout=TIMEOUT, progress=waited.append)
    assert "input 9" in [state.waiting_for[0] for state in waited if state.waiting_for]


@pytest.mark.parametrize(("timeout", "told"), [(None, True), (60.0, False)])
def test_nobody_is_advised_to_do_without_the_workers_that_a_time_limit_needs(
    dest: Path, monkeypatch: pytest.MonkeyPatch, timeout: float | None, told: bool
) -> None:
    monkeypatch.setattr("cordwood.packing.pack_run.advice", lambda *_: "sooner in one process")
    packed = pack(Numbers(3), dest, workers=1, timeout=timeout)
    assert ("sooner in one process" in packed.notes) == told
