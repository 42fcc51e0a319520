"""Inputs that fail, and processes that die of them: the input is named, and what happens then is the caller's wish."""

import ctypes
import json
import logging
import os
import shutil
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.errors import FormatError, PackError, UsageError
from cordwood.packing.journal.failure import Failure
from cordwood.packing.journal.failure_policy import Failures
from cordwood.packing.workers import pool, work
from cordwood.sources import Input
from tests.packing.support.forkedworkers import launch
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import Numbers, numbers_of, pack
from tests.sources import photos as images

Sample = dict[str, Any]


@pytest.fixture(autouse=True)
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool._Worker, "_launch", launch)


@pytest.fixture
def dest() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made / "s"


def told(dest: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in dest.with_name("s.errors.jsonl").read_text().splitlines()]


def fails_at(*numbers: int) -> Callable[[Sample], Sample]:
    def fails(sample: Sample) -> Sample:
        if sample["number"] in numbers:
            raise LookupError(f"no {sample['number']}")
        return sample

    return fails


@pytest.mark.parametrize("workers", [0, 2])
def test_a_failure_names_its_input_and_shows_where(dest: Path, workers: int) -> None:
    with pytest.raises(
        PackError, match=r'^input 300 failed: LookupError: no 300; .*on_error="skip" \(--on-error skip\)'
    ) as caught:
        pack(Numbers(400), dest, fails_at(300), workers=workers)
    assert isinstance(caught.value.__cause__, LookupError)
    lines = "".join(traceback.format_exception(caught.value)).splitlines()
    assert lines[-1].endswith(str(caught.value))  # the line to read is the last one
    assert any("in fails" in line for line in lines)
    assert not dest.with_name("s.errors.jsonl").exists()
    # What comes before it is packed, and the same call goes on there.
    again = pack(Numbers(400), dest, fails_at(), workers=workers, accept_changed_transform=True)
    assert (again.resumed_inputs, again.samples) == (300, 400)


def test_the_name_of_an_input_is_told(dest: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        torch.save({"x": torch.arange(3)}, tmp_path / f"{name}.pt")
    (tmp_path / "b.pt").write_bytes(b"nothing of the kind")
    with pytest.raises(PackError, match=r"^input 1 \(b\.pt\) failed: FormatError: begins with") as caught:
        pack(tmp_path, dest, source_kind="tensors")
    assert str(caught.value).count("b.pt") == 1
    assert str(caught.value.__cause__).startswith("b.pt: begins with")


def test_the_name_of_a_file_that_is_missing_is_told_once(dest: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list.csv"
    listed.write_text("path,label\nmissing.png,3\n")
    with pytest.raises(PackError, match=r"^input 0 \(missing\.png\) failed: StorageError: it cannot be read: No such"):
        pack(listed, dest)


@pytest.mark.parametrize("workers", [0, 2])
def test_skipped_inputs_are_listed(dest: Path, workers: int) -> None:
    packed = pack(Numbers(400), dest, fails_at(0, 7, 299, 399), workers=workers, on_error="skip")
    assert (packed.failed, packed.samples, packed.inputs) == (4, 396, 400)
    assert packed.errors == str(dest.with_name("s.errors.jsonl"))
    assert [(one["input"], one["name"], one["error"]) for one in told(dest)] == [
        (number, None, f"LookupError: no {number}") for number in (0, 7, 299, 399)
    ]
    assert all("in fails" in one["traceback"] for one in told(dest))
    assert numbers_of(dest) == [number for number in range(400) if number not in (0, 7, 299, 399)]


def test_a_caller_is_warned_of_what_was_left_out(dest: Path) -> None:
    told_of = r"^2 of 10 inputs failed and were left out: .*s\.errors\.jsonl tells why$"
    for _ in range(2):  # the second call finds the store complete, and the samples are missing all the same
        with pytest.warns(UserWarning, match=told_of) as caught:
            cw.pack(Numbers(10), dest, fails_at(3, 5), workers=0, on_error="skip", progress=False)
        assert [one.filename for one in caught] == [__file__]


def test_many_failures_in_a_row_are_no_accident(dest: Path) -> None:
    odd = fails_at(1, 2, 4, 5, 7, 8)
    assert pack(Numbers(10), dest, odd, on_error="skip", max_errors=2).failed == 6
    other = dest.with_name("other")
    with pytest.raises(PackError, match=r"input 8 failed, as 2 inputs before it did: LookupError: no 8; .*max_errors"):
        pack(Numbers(10), other, fails_at(1, 2, 4, 6, 7, 8), on_error="skip", max_errors=2)


def test_a_job_all_of_whose_inputs_fail_is_not_complete(dest: Path) -> None:
    with pytest.raises(PackError, match=r"nothing was packed: 5 of 5 inputs failed, .*s\.errors\.jsonl tells why each"):
        pack(Numbers(5), dest, fails_at(*range(5)), on_error="skip")
    assert [one["input"] for one in told(dest)] == [0, 1, 2, 3, 4]
    again = pack(Numbers(5), dest, fails_at(3), on_error="skip", accept_changed_transform=True)
    assert (again.samples, again.failed) == (4, 1)
    assert [one["input"] for one in told(dest)] == [3]


def test_the_commonest_reason_is_told_where_nothing_was_packed(dest: Path) -> None:
    def fails(sample: Sample) -> None:
        if sample["number"]:
            raise LookupError("nowhere")
        raise ValueError("the first one")

    often = r"5 of 5 inputs failed, most often with LookupError: nowhere \(4 of them, such as input 1\); "
    with pytest.raises(PackError, match=often):
        pack(Numbers(5), dest, fails, on_error="skip")

    def drops(sample: Sample) -> None:
        if sample["number"] == 2:
            fails(sample)

    with pytest.raises(PackError, match=r"1 of 5 .*LookupError: nowhere .*; and the others gave no samples; "):
        pack(Numbers(5), dest.with_name("dropped"), drops, on_error="skip")


@pytest.mark.parametrize("workers", [0, 1])
def test_a_field_that_images_without_class_folders_lack(dest: Path, tmp_path: Path, workers: int) -> None:
    images.write(tmp_path, "1.png", "2.png")
    label: Callable[[Sample], Sample] = lambda sample: {"label": sample["label"]}  # noqa: E731 - sent by value
    told_of = (
        r"^input 0 \(1\.png\) failed: KeyError: 'label' \(the sample has the fields 'image', 'path'; .* no class fol"
    )
    for options in ({}, {"batched": True, "batch_size": 2}, {"update": True}):
        with pytest.raises(PackError, match=told_of):
            pack(tmp_path, dest, label, workers=workers, **options)
        shutil.rmtree(dest)
    often = r"most often with KeyError: 'label' \(.* no class folders: .*\) \(2 of them, such as input 0 \(1\.png\)\); "
    with pytest.raises(PackError, match=often):
        pack(tmp_path, dest, label, on_error="skip", workers=workers)
    with pytest.raises(PackError, match=r"'label' \(the sample has .* the source's kind is 'unlabelled'"):
        pack(tmp_path, dest.with_name("plain"), label, source_kind="unlabelled", workers=workers)


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_shown_is_short_and_ends_with_what_to_read(dest: Path, tmp_path: Path, workers: int) -> None:
    """Broken data need no traceback of ours, and nothing is told twice."""
    images.write(tmp_path, "1.png")
    (tmp_path / "1.png").write_bytes((tmp_path / "1.png").read_bytes()[:40])
    with pytest.raises(PackError) as caught:
        pack(tmp_path, dest, workers=workers)
    shown = "".join(traceback.format_exception(caught.value))
    assert isinstance(caught.value.__cause__, FormatError)
    assert shown.count("Traceback (most recent call last)") == 1
    assert "engine.py" not in shown
    assert "images/" not in shown
    with pytest.raises(PackError) as caught:
        pack(Numbers(3), dest.with_name("other"), fails_at(1), workers=workers)
    shown = "".join(traceback.format_exception(caught.value))
    assert shown.count("in fails") == 1
    assert "packing/workers/work.py" not in shown


def test_all_of_a_traceback_is_there_for_who_asks(dest: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "cordwood.pack")
    with pytest.raises(PackError) as caught:
        pack(Numbers(3), dest, fails_at(1))
    assert "packing/workers/work.py" in "".join(traceback.format_exception(caught.value))


def test_names_are_listed_as_people_write_them(tmp_path: Path) -> None:
    """Also names that are no UTF-8, and texts with what some take for the end of a line."""
    log = tmp_path / "x.errors.jsonl"
    failures = Failures("skip", 100, log)
    strange = os.fsdecode(b"caf\xe9.jpg")
    names = ["小猫.jpg", strange, "a\u2028b\x85c\nd.jpg"]
    for number, name in enumerate(names):
        failures(number, Input(None, name), Failure(f"E: {name}", "somewhere"))
    assert "小猫.jpg".encode() in log.read_bytes()
    lines = log.read_text("utf-8").splitlines()
    assert [json.loads(line)["name"] for line in lines] == names
    assert [json.loads(line)["error"] for line in lines] == [f"E: {name}" for name in names]
    failures.forget_from(2)
    assert log.read_text("utf-8").splitlines() == lines[:2]


@pytest.mark.parametrize("workers", [0, 1])
def test_retried_until_it_works(dest: Path, workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is its memory, since it may be tried by another process."""
    monkeypatch.setattr(work, "FIRST_PAUSE", 0)

    def third_time(sample: Sample) -> Sample:
        tried = tmp_path / str(sample["number"])
        before = len(tried.read_bytes()) if tried.exists() else 0
        tried.write_bytes(bytes(before + 1))
        if sample["number"] == 3 and before < 2:
            raise OSError("the network is down")
        return {**sample, "noise": torch.rand(2)}

    assert pack(Numbers(6), dest, third_time, workers=workers, on_error="retry").failed == 0
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {
        str(number): 3 if number == 3 else 1 for number in range(6)
    }
    # The third time it had the same random numbers as the first.
    pack(Numbers(6), dest.with_name("again"), third_time)
    assert all(
        torch.equal(one["noise"], other["noise"])
        for one, other in zip(cw.open(dest), cw.open(dest.with_name("again")), strict=True)
    )


def test_retried_in_vain(dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "FIRST_PAUSE", 0)
    tried = []

    def never(sample: Sample) -> Sample:
        tried.append(sample["number"])
        raise OSError("the network is down")

    with pytest.raises(PackError, match="input 0 failed: OSError: the network is down"):
        pack(Numbers(3), dest, never, on_error="retry", retries=3)
    assert tried == [0, 0, 0, 0]


class UnpicklableError(Exception):
    """Holds what cannot be pickled."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


class MadeDifferentlyError(Exception):
    """Is pickled, and cannot be made again."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(f"{one} and {other}")


class MuteError(Exception):
    """Cannot tell its text."""

    def __str__(self) -> str:
        raise RuntimeError("mute")


def raises(error: Callable[[], BaseException]) -> Callable[[Sample], Sample]:
    def raising(sample: Sample) -> Sample:
        if sample["number"] == 2:
            raise error()
        return sample

    return raising


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (lambda: UnpicklableError("held"), "UnpicklableError: held"),
        (lambda: MadeDifferentlyError(1, 2), "MadeDifferentlyError: 1 and 2"),
        (MuteError, "MuteError: (its text cannot be told)"),
        (lambda: StopIteration(5), "RuntimeError: the transform raised StopIteration"),
        (lambda: ExceptionGroup("some", [ValueError("a")]), "ExceptionGroup: some (1 sub-exception)"),
        (lambda: AssertionError(), "AssertionError: "),
        (lambda: SystemExit("enough"), "SystemExit: enough"),
    ],
)
def test_exceptions_of_every_kind_are_told(
    dest: Path, workers: int, error: Callable[[], BaseException], text: str
) -> None:
    pack(Numbers(4), dest, raises(error), workers=workers, on_error="skip")
    assert [(one["input"], one["error"]) for one in told(dest)] == [(2, text)]
    assert numbers_of(dest) == [0, 1, 3]


def segfault(sample: Sample) -> Sample:
    if sample["number"] == 130:
        ctypes.string_at(0)
    return sample


def out_of_memory(sample: Sample) -> Sample:
    if sample["number"] == 130:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


def exits_at_once(sample: Sample) -> Sample:
    if sample["number"] == 130:
        os._exit(7)
    return sample


def interrupts(sample: Sample) -> Sample:
    if sample["number"] == 130:
        raise KeyboardInterrupt
    return sample


DEATHS = [
    (segfault, r"was killed by signal 11 \(SIGSEGV\)"),
    (out_of_memory, r"was killed by signal 9 \(SIGKILL\).* fewer workers"),
    (exits_at_once, r"ended with exit code \d+"),
    (interrupts, r"ended with exit code \d+"),
]


@pytest.mark.parametrize(("deadly", "how"), DEATHS)
def test_a_worker_that_dies_twice_of_an_input_is_its_failure(
    dest: Path, deadly: Callable[[Sample], Sample], how: str
) -> None:
    with pytest.raises(PackError, match=f"input 130 failed: the worker process that did it {how}") as caught:
        pack(Numbers(400), dest, deadly, workers=2)
    assert "for the second time" in str(caught.value)


def test_inputs_that_workers_die_of_are_skipped(dest: Path) -> None:
    packed = pack(Numbers(400), dest, out_of_memory, workers=2, on_error="skip")
    assert (packed.failed, packed.samples) == (1, 399)
    assert [one["input"] for one in told(dest)] == [130]
    assert numbers_of(dest) == [number for number in range(400) if number != 130]


def test_a_worker_that_dies_once_costs_nothing(dest: Path, tmp_path: Path) -> None:
    def dies_once(sample: Sample) -> Sample:
        mark = tmp_path / f"{sample['number']}"
        if sample["number"] % 100 == 50 and not mark.exists():
            mark.touch()
            os._exit(1)
        return sample

    assert pack(Numbers(400), dest, dies_once, workers=2).failed == 0
    assert len(list(tmp_path.iterdir())) == 4
    assert numbers_of(dest) == list(range(400))


def test_a_batch_that_a_worker_dies_of_fails_as_a_whole(dest: Path) -> None:
    def deadly(batch: Sample) -> Sample:
        if 130 in batch["number"]:
            os._exit(1)
        return batch

    packed = pack(Numbers(400), dest, deadly, workers=2, batched=True, batch_size=8, on_error="skip")
    assert packed.failed == 8
    assert [one["input"] for one in told(dest)] == list(range(128, 136))


class DiesWhenItArrives:
    """Ends every process that gets it."""

    def __call__(self, sample: Sample) -> Sample:
        return sample

    def __reduce__(self) -> Any:
        return os._exit, (3,)


class CannotArrive:
    """Can be pickled, but not made again."""

    def __call__(self, sample: Sample) -> Sample:
        return sample

    def __reduce__(self) -> Any:
        return int, ("no number",)


def test_workers_that_die_before_they_do_anything(dest: Path) -> None:
    with pytest.raises(PackError, match=r"3 worker processes in a row died before .* exit code 3"):
        pack(Numbers(4), dest, DiesWhenItArrives(), workers=2)
    with pytest.raises(PackError, match=r"(?s)a worker process cannot take .*invalid literal for int.*workers=0"):
        pack(Numbers(4), dest, CannotArrive(), workers=2, accept_changed_transform=True)
    assert pack(Numbers(4), dest, CannotArrive()).samples == 4


class WithLock(Numbers):
    """Cannot be sent to another process."""

    lock = None

    def __init__(self, count: int) -> None:
        super().__init__(count)
        self.lock = threading.Lock()


def test_a_dataset_that_cannot_be_sent_is_refused(dest: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot be sent to worker processes .*lock.*workers=0"):
        pack(WithLock(4), dest, workers=1)
    assert pack(WithLock(4), dest).samples == 4


def locks() -> Iterator[Any]:
    for number in range(3):
        yield {"number": number}
    yield threading.Lock()


def test_samples_that_cannot_be_sent_are_refused(dest: Path) -> None:
    with pytest.raises((UsageError, PackError), match=r"(?i)lock"):
        pack(locks, dest, workers=1)


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("number", [2, 300])
def test_a_sample_that_cannot_be_stored_fails_alone(dest: Path, workers: int, number: int) -> None:
    """Before the schema is known, and after."""

    def odd(sample: Sample) -> Sample:
        return {"number": threading.Lock() if sample["number"] == number else sample["number"]}

    packed = pack(Numbers(400), dest, odd, workers=workers, on_error="skip")
    assert packed.failed == 1
    assert [one["input"] for one in told(dest)] == [number]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_sample_that_does_not_fit_the_others_fails_alone(dest: Path, workers: int) -> None:
    """All samples of an input, or none."""

    def odd(sample: Sample) -> list[Sample]:
        return [sample, {"number": "many"} if sample["number"] == 300 else sample]

    packed = pack(Numbers(400), dest, odd, workers=workers, on_error="skip")
    assert (packed.failed, packed.samples) == (1, 798)
    assert [one["input"] for one in told(dest)] == [300]


def test_what_is_listed_of_inputs_that_are_done_again_is_taken_back(tmp_path: Path) -> None:
    log = tmp_path / "x.errors.jsonl"
    failures = Failures("skip", 100, log)
    failures.forget_from(0)
    for number in (1, 4, 6):
        failures(number, Input(None, f"{number}.jpg"), Failure("E: x", "somewhere"))
    lines = log.read_bytes().splitlines(keepends=True)
    with log.open("ab") as file:
        file.write(lines[2][:10])  # cut short by a kill
    for first, left in ((7, 3), (6, 2), (4, 1), (2, 1), (1, 0)):
        failures.forget_from(first)
        assert (log.read_bytes() if log.exists() else b"") == b"".join(lines[:left])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"on_error": "ignore"}, "on_error must be 'fail', 'skip' or 'retry', got 'ignore'"),
        ({"max_errors": -1}, "max_errors must be a whole number, 0 or more, got -1"),
        ({"on_error": "retry", "retries": -1}, "retries must be a whole number from 0 to 2147483647, got -1"),
        ({"workers": -1}, "workers must be a whole number from 0 to 1024, got -1"),
        ({"batch_size": 0}, "batch_size must be a whole number from 1 to 1048576, got 0"),
        ({"seed": 0.5}, "seed must be .*, got 0.5"),
        ({"part": "0/3"}, "parts are counted from 1"),
        ({"part": "3"}, "like '3/16'"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_made(dest: Path, options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        pack(Numbers(4), dest, **options)
    assert not dest.exists()
