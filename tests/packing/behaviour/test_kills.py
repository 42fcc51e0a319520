"""Packing jobs that are killed, at any moment and again: the next run goes on, and every byte is as if nobody had come
in their way."""

import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import cordwood as cw
from tests.marks import slow_after
from tests.packing.support.jobhost import Ended, JobHost
from tests.packing.support.memory import folder_in_memory
from tests.sources.photos import encoded
from tests.store.support.photos import files_of

FORMS = ("single", "batched", "photos", "iterable")
KILLED = Ended(-signal.SIGKILL, "")


class Whole(NamedTuple):
    """What a job leaves that nobody disturbs."""

    files: dict[str, bytes]
    errors: bytes | None
    calls: int  # to the file system


@pytest.fixture(scope="module")
def host() -> Iterator[JobHost]:
    with JobHost() as host:
        yield host


@pytest.fixture(scope="module")
def memory() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made


@pytest.fixture(scope="module")
def photos(memory: Path) -> str:
    """Two classes, and a file that is no image."""
    for number in range(300):
        place = memory / "photos" / ("dog" if number % 2 else "cat") / f"{number:03}.png"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(encoded(number) if number % 50 else b"\x89PNG\r\n\x1a\nbroken")
    return str(memory / "photos")


@pytest.fixture(scope="module")
def wholes(host: JobHost, memory: Path, photos: str) -> dict[str, Whole]:
    """By form. A shard ends in the middle of an input's samples, or of a batch's; an iterable is given more plans."""
    found = {}
    for form in FORMS:
        dest = memory / "whole" / form
        dest.parent.mkdir(exist_ok=True)
        told = host.run(dest=str(dest), form=form, workers=0, photos=photos).told
        assert told["samples"] == len(cw.open(dest))
        files = packed_files(dest)
        assert sum(name.startswith("shard-") for name in files) > 5
        assert not any(name.endswith((".open", ".log", ".part")) for name in files)
        if form == "iterable":
            assert sum(name.startswith("plans/") for name in files) > 1
        found[form] = Whole(files, errors_of(dest), told["calls"])
    return found


def packed_files(dest: Path) -> dict[str, bytes]:
    """All that is stored; the lock tells the process that had it last."""
    return {name: data for name, data in files_of(dest).items() if name != ".lock"}


def errors_of(dest: Path) -> bytes | None:
    """The list of inputs that failed, if there is one."""
    path = dest.with_name(f"{dest.name}.errors.jsonl")
    return path.read_bytes() if path.exists() else None


def assert_whole(dest: Path, whole: Whole) -> None:
    """Fail unless nothing differs, and nothing else is there."""
    found = packed_files(dest)
    assert {name for name in found.keys() | whole.files.keys() if found.get(name) != whole.files.get(name)} == set()
    assert errors_of(dest) == whole.errors
    listed = set() if whole.errors is None else {f"{dest.name}.errors.jsonl"}
    assert {path.name for path in dest.parent.iterdir()} == {dest.name, *listed}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_killed_before_or_in_any_call_to_the_file_system(
    form: str, host: JobHost, wholes: dict[str, Whole], folder: Path, photos: str
) -> None:
    """Checkpoints are written all the time. From a job's beginning to its end, and the job that goes on again."""
    whole, rounds = wholes[form], 8
    chance = random.Random(form)
    for number in range(rounds):
        dest = folder / str(number) / "s"
        dest.parent.mkdir()
        job: dict[str, Any] = {"dest": str(dest), "form": form, "workers": 0, "photos": photos}
        at = chance.randint(whole.calls * number // rounds, whole.calls * (number + 1) // rounds - 20)
        assert host.run(**job, at_call=max(at, 1), torn=chance.random() < 0.5) == KILLED
        host.run(**job, at_call=chance.randint(1, 80), torn=chance.random() < 0.5)
        assert host.run(**job).code == 0
        assert_whole(dest, whole)


@pytest.mark.parametrize("form", slow_after(1, FORMS))
def test_killed_again_and_again_with_workers(
    form: str, host: JobHost, wholes: dict[str, Whole], folder: Path, photos: str
) -> None:
    """Each run gets a little further. Checkpoints come when their time is, and so a run may end where it began."""
    chance = random.Random(form)
    job: dict[str, Any] = {"dest": str(folder / "s"), "form": form, "workers": 2, "photos": photos}
    place = 0
    for _ in range(4):
        place += chance.randint(20, 70)
        hits = [{"whom": "self", "signal": signal.SIGKILL, "inputs": place}]
        assert host.run(**job, hits=hits, checkpoints=chance.choice((0, 5))) == KILLED
    assert host.run(**job).told["resumed"] > 0
    assert_whole(folder / "s", wholes[form])


def test_workers_killed_in_one_run(host: JobHost, wholes: dict[str, Whole], folder: Path) -> None:
    """By the system that is out of memory, or by somebody who is in a hurry."""
    kinds = (signal.SIGKILL, signal.SIGTERM)
    chance = random.Random(1)
    hits = [
        {"whom": "worker", "worker": chance.randrange(3), "signal": chance.choice(kinds), "inputs": inputs}
        for inputs in range(45, 300, 50)
    ]
    ended = host.run(dest=str(folder / "s"), form="single", workers=3, hits=hits)
    assert ended.told["hits"] == len(hits)
    assert_whole(folder / "s", wholes["single"])


@pytest.mark.slow
def test_parent_and_workers_killed_in_turns(host: JobHost, wholes: dict[str, Whole], folder: Path) -> None:
    """With workers that start as they do for everybody."""
    job: dict[str, Any] = {"dest": str(folder / "s"), "form": "batched", "workers": 2, "fork": False}
    for place in (110, 220):
        hits = [
            {"whom": "worker", "worker": 1, "signal": signal.SIGKILL, "inputs": place - 60},
            {"whom": "self", "signal": signal.SIGKILL, "inputs": place},
        ]
        assert host.run(**job, hits=hits) == KILLED
    assert host.run(**job).code == 0
    assert_whole(folder / "s", wholes["batched"])


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_stops_where_another_run_goes_on(
    workers: int, host: JobHost, wholes: dict[str, Whole], folder: Path
) -> None:
    """A terminal sends it to the whole group; nothing is lost that was packed."""
    dest = folder / "s"
    job: dict[str, Any] = {"dest": str(dest), "form": "single", "workers": workers, "checkpoints": 1000}
    packed = 0
    for place in (120, 121, 250):
        told = host.run(**job, hits=[{"whom": "group", "signal": signal.SIGINT, "inputs": place}]).told
        (note,) = told["interrupted"]
        assert str(dest) in note
        before, packed = packed, int(note.split()[0])
        assert packed >= max(place, before)
        assert {path.suffix for path in dest.glob(".shard-*")} == {".open", ".log"}
    assert host.run(**job).told["resumed"] == packed
    assert_whole(dest, wholes["single"])


def test_a_second_ctrl_c_does_not_wait(host: JobHost, wholes: dict[str, Whole], folder: Path) -> None:
    job: dict[str, Any] = {"dest": str(folder / "s"), "form": "single", "workers": 2}
    twice = [{"whom": "group", "signal": signal.SIGINT, "inputs": 150}] * 2
    assert host.run(**job, hits=twice).told["hits"] == 2
    assert host.run(**job).code == 0
    assert_whole(folder / "s", wholes["single"])


def test_a_job_in_the_background_is_immune_to_ctrl_c(host: JobHost, wholes: dict[str, Whole], folder: Path) -> None:
    job: dict[str, Any] = {"dest": str(folder / "s"), "form": "single", "workers": 2, "ignores_interrupts": True}
    told = host.run(**job, hits=[{"whom": "group", "signal": signal.SIGINT, "inputs": 150}]).told
    assert (told["hits"], told["resumed"]) == (1, 0)
    assert_whole(folder / "s", wholes["single"])
