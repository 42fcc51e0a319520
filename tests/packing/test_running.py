"""Whole jobs: the bytes are the same whoever does the work, and nothing is left behind by it."""

import random
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cordwood as cw
from cordwood.errors import PackError
from cordwood.packing import pool, tasks
from tests.feed.leftovers import Leftovers
from tests.packing.forkedworkers import launch
from tests.packing.memory import folder_in_memory
from tests.packing.numbers import Numbers, numbers_of, pack
from tests.store.photos import files_of, photo

COUNT = 400


@pytest.fixture
def dest() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made / "s"


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool._Worker, "_launch", launch)


class Photos:
    """A dataset of photos."""

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, number: int) -> dict[str, Any]:
        return photo(number)


def noisy(sample: dict[str, Any]) -> list[dict[str, Any]]:
    """Some samples of each, with random numbers from everywhere."""
    image = sample["image"] ^ torch.randint(0, 4, sample["image"].shape, dtype=torch.uint8)
    drawn = (random.random(), np.random.random())
    return [{**sample, "image": image, "drawn": drawn, "copy": copy} for copy in range(sample["label"] % 4)]


@pytest.mark.usefixtures("forked")
def test_the_bytes_do_not_depend_on_the_number_of_workers(dest: Path) -> None:
    found = []
    for workers in (0, 1, 2, 3):
        path = dest.with_name(f"s{workers}")
        pack(Photos(), path, noisy, workers=workers, shard_bytes=20_000, seed=5)
        found.append(files_of(path))
    assert sum(name.startswith("shard-") for name in found[0]) > 3
    assert found[1:] == found[:1] * 3
    pack(Photos(), dest, noisy, shard_bytes=20_000, seed=6)
    assert files_of(dest)["shard-00000000.cws"] != found[0]["shard-00000000.cws"]


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("goal", ["fast", "small"])
def test_shards_are_those_of_a_writer(dest: Path, goal: str) -> None:
    pack(Photos(), dest, workers=2, shard_bytes=20_000, goal=goal)
    with cw.Writer(dest.with_name("written"), goal, shard_bytes=20_000) as writer:
        writer.extend(photo(number) for number in range(COUNT))
    written, packed = files_of(dest.with_name("written")), files_of(dest)
    added = {name for name in packed if name == "pack.json" or name.startswith("inputs/")}
    assert {name: packed[name] for name in packed.keys() - added} == written
    assert len(added) == sum(name.startswith("shard-") for name in written) + 1


def test_every_sample_has_random_numbers_of_its_own(dest: Path) -> None:
    def drawn(sample: dict[str, Any], seed: int, generator: torch.Generator) -> dict[str, Any]:
        return {"seed": seed, "own": torch.rand(1, generator=generator), "common": torch.rand(1)}

    pack(Numbers(50), dest, drawn)
    samples = list(cw.open(dest))
    for name in ("seed", "own", "common"):
        assert len({float(sample[name]) for sample in samples}) == 50


def test_memory_that_a_transform_uses_again_is_copied(dest: Path) -> None:
    memory = torch.zeros(5000)

    def again(sample: dict[str, Any]) -> dict[str, Any]:
        return {"values": memory.fill_(sample["number"])}

    pack(Numbers(300), dest, again)
    assert [int(sample["values"][0]) for sample in cw.open(dest)] == list(range(300))


def test_a_generator_may_use_its_memory_again(dest: Path) -> None:
    def several(sample: dict[str, Any]) -> Iterator[dict[str, Any]]:
        memory = torch.zeros(100)
        for number in range(3):
            yield {"values": memory.fill_(sample["number"] * 3 + number)}

    pack(Numbers(300), dest, several)
    assert [int(sample["values"][0]) for sample in cw.open(dest)] == list(range(900))


def test_an_iterable_without_a_length(dest: Path) -> None:
    packed = pack(({"number": number} for number in range(700)), dest, shard_bytes=3000)
    assert (packed.inputs, packed.samples) == (700, 700)
    assert numbers_of(dest) == list(range(700))


def test_nothing_at_all(dest: Path) -> None:
    packed = pack(iter(()), dest)
    assert (packed.inputs, packed.samples, len(cw.open(dest))) == (0, 0, 0)
    assert any("complete" in note for note in pack(iter(()), dest).notes)


def test_progress_is_told(dest: Path) -> None:
    told: list[Any] = []

    def drops(sample: dict[str, Any]) -> dict[str, Any] | None:
        return None if sample["number"] % 4 == 0 else sample

    pack(Numbers(COUNT), dest, drops, progress=told.append)
    last = told[-1]
    assert (last.inputs, last.of_inputs, last.samples, last.dropped) == (COUNT, COUNT, 300, 100)
    assert [state.inputs for state in told] == sorted(state.inputs for state in told)
    assert told[0].inputs < COUNT


def fails_late(sample: dict[str, Any]) -> dict[str, Any]:
    if sample["number"] == 350:
        raise ValueError("late")
    return sample


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("workers", [0, 2])
def test_nothing_is_left_behind(dest: Path, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(dest.parent))
    pack(Numbers(5), dest.with_name("warm"))
    before = Leftovers.now()
    pack(Numbers(COUNT), dest, workers=workers, shard_bytes=2000)
    assert [path.name for path in dest.glob(".*")] == [".lock"]
    with pytest.raises(PackError):
        pack(Numbers(COUNT), dest.with_name("failed"), fails_late, workers=workers, shard_bytes=2000)
    assert Leftovers.now() == before

    def stop(state: Any) -> None:
        if state.inputs > 300:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(Numbers(COUNT), dest.with_name("stopped"), workers=workers, shard_bytes=2000, progress=stop)
    assert Leftovers.now() == before
    assert {path.name for path in dest.parent.iterdir()} == {"s", "warm", "failed", "stopped"}


@pytest.mark.parametrize("kept", [True, False])
def test_memory_is_flat(dest: Path, kept: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many samples through an iterable, all of them stored, or dropped."""
    monkeypatch.setattr(tasks, "_MOST_INPUTS", 64)  # else the memory of a task would depend on how quick it is
    peaks: list[int] = []

    def samples() -> Iterator[dict[str, Any]]:
        for number in range(4000):
            if number % 1000 == 999:
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.reset_peak()
            yield {"number": number, "values": np.full(500, number)}

    def chosen(sample: dict[str, Any]) -> dict[str, Any] | None:
        return {"number": sample["number"]} if kept else None

    tracemalloc.start()
    try:
        pack(samples, dest, chosen, goal="raw", shard_bytes=20_000)
    finally:
        tracemalloc.stop()
    assert peaks[3] - peaks[1] < 1_000_000  # the values of 2000 samples are 8 MB


SCRIPT = """
import sys
from pathlib import Path
import torch
import cordwood as cw

print("begun")
sys.path.insert(0, {modules!r})
import preparing_module

class Numbers:
    def __init__(self, factor):
        self.factor = factor
    def __len__(self):
        return 300
    def __getitem__(self, number):
        return {{"number": number * self.factor}}

class Adder:
    def __init__(self, what):
        self.what = what
    def __call__(self, sample):
        return {{"number": helper(sample["number"], self.what)}}

def helper(one, other):
    return one + other

def make(what):
    def closure(sample):
        if sample["number"] == 0:
            print("printed by a worker")
        return {{"number": sample["number"] + what}}
    return closure

for number, transform in enumerate({transforms}):
    packed = cw.pack(Numbers(2), Path({dest!r}) / str(number), transform, workers=1, progress=False)
    print(packed.samples)
"""


def test_scripts_without_a_guard(dest: Path, tmp_path: Path) -> None:
    """Classes, closures and lambdas of the script, and a module that it alone can import. It runs once."""
    dest.mkdir()
    (tmp_path / "preparing_module.py").write_text("def prepare(sample):\n    return {'number': sample['number'] + 3}\n")
    transforms = "[Adder(0), make(1), lambda sample: {'number': sample['number'] + 2}, preparing_module.prepare]"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(dest=str(dest), modules=str(tmp_path), transforms=transforms))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.stderr == "printed by a worker\n"
    assert done.stdout.splitlines() == ["begun", "300", "300", "300", "300"]
    for added in range(4):
        assert numbers_of(dest / str(added)) == [2 * number + added for number in range(300)]


def test_module_and_name(dest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "named_module.py").write_text(
        "def samples():\n    return [{'number': number} for number in range(5)]\n\n"
        "def negative(sample):\n    return {'number': -sample['number']}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    pack("named_module:samples", dest, "named_module:negative", workers=1)
    assert numbers_of(dest) == [0, -1, -2, -3, -4]
