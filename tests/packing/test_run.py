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
from cordwood.codecs import Goal
from cordwood.errors import PackError, UsageError
from cordwood.packing import run
from cordwood.packing.report.estimate import Estimate
from cordwood.packing.workers import pool, tasks
from tests.feed.support.leftovers import Leftovers
from tests.packing.support.forkedworkers import launch
from tests.packing.support.memory import folder_in_memory
from tests.packing.support.numbers import Numbers, numbers_of, pack
from tests.sources import photos as images
from tests.store.support.photos import files_of, photo

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
def test_shards_are_those_of_a_writer(dest: Path, goal: Goal) -> None:
    few = [photo(number) for number in range(200)]  # so that the packing job, too, looks at the first ones alone
    pack(few, dest, workers=2, shard_bytes=4_000, goal=goal)
    with cw.Writer(dest.with_name("written"), goal, shard_bytes=4_000) as writer:
        writer.extend(few)
    written, packed = files_of(dest.with_name("written")), files_of(dest)
    added = {name for name in packed if name == "pack.json" or name.startswith("inputs/")}
    assert {name: packed[name] for name in packed.keys() - added} == written
    assert len(added) == sum(name.startswith("shard-") for name in written) + 1 > 3


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


@pytest.mark.parametrize("options", [{}, {"workers": 1}, {"update": True}, {"limit": 5}, {"on_error": "skip"}])
@pytest.mark.parametrize("source", [Numbers(0), lambda: iter(())])
def test_an_empty_source_is_refused_and_leaves_nothing(dest: Path, source: Any, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"has no inputs, but a store needs at least one: there is nothing to pack; "):
        cw.pack(source, dest, progress=False, **options)
    assert list(dest.parent.iterdir()) == []
    assert pack(Numbers(3), dest).samples == 3  # another one at the same place


def test_an_empty_folder_that_was_there_stays(dest: Path) -> None:
    dest.mkdir()
    with pytest.raises(UsageError, match="nothing to pack"):
        pack(iter(()), dest)
    assert list(dest.iterdir()) == []


def test_an_empty_part_of_something_is_a_part_and_one_of_nothing_is_not(dest: Path) -> None:
    for number in (1, 2, 3):
        pack(Numbers(2), dest.with_name(f"part{number}"), part=(number, 3))
    cw.merge([dest.with_name(f"part{number}") for number in (1, 2, 3)], dest)
    assert numbers_of(dest) == [0, 1]
    with pytest.raises(UsageError, match="nothing to pack"):
        pack(Numbers(0), dest.with_name("none"), part=(1, 2))
    assert not dest.with_name("none").exists()


def test_a_source_that_has_become_empty_harms_no_store(dest: Path) -> None:
    pack(Numbers(3), dest)
    before = files_of(dest)
    for options in ({}, {"update": True}):
        with pytest.raises(UsageError):
            pack(Numbers(0), dest, **options)
        assert files_of(dest) == before


def test_a_job_that_was_begun_is_not_completed_by_nothing(dest: Path) -> None:
    """The process before came to nothing, so that other inputs may follow; but not none at all."""
    source: list[dict[str, int]] = [{"number": 1}]

    def samples() -> Iterator[dict[str, int]]:
        return iter(source)

    def stop(sample: Any) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(samples, dest, stop)
    source.clear()
    for _ in range(2):
        with pytest.raises(UsageError, match="nothing to pack"):
            pack(samples, dest, stop, accept_changed_transform=True)
    source.append({"number": 4})
    pack(samples, dest, accept_changed_transform=True)
    assert numbers_of(dest) == [4]


@pytest.mark.usefixtures("forked")
def test_the_start_of_workers_is_measured(dest: Path) -> None:
    alone = pack(Numbers(5), dest.with_name("alone"))
    assert alone.starting_seconds == 0
    for options in ({}, {"part": (2, 2)}):
        packed = pack(Numbers(5), dest.with_name(f"s{len(options)}"), workers=2, **options)
        assert 0 < packed.starting_seconds <= packed.seconds


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(
    ("source", "options", "workers"),
    [
        (Numbers(3), {}, 3),
        (Numbers(100), {}, 4),
        (Numbers(100), {"batched": True, "batch_size": 64, "transform": dict}, 2),
        (({"number": number} for number in range(2)), {}, 4),  # nobody knows how many there are
        (Numbers(3), {"workers": 5}, 5),
    ],
)
def test_by_default_no_worker_is_started_that_has_nothing_to_do(
    dest: Path, monkeypatch: pytest.MonkeyPatch, source: Any, options: dict[str, Any], workers: int
) -> None:
    monkeypatch.setattr(run, "default_threads", lambda: 4)
    told: list[Any] = []
    cw.pack(source, dest, progress=told.append, **options)
    assert {state.workers for state in told} == {workers}


def test_a_dry_run_counts_the_start_of_workers(dest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def measured(job: Any, workers: int) -> float:
        asked.append(workers)
        return 500.0

    monkeypatch.setattr(run, "measured", measured)
    found = cw.pack(Numbers(50), dest, limit=5, workers=2)
    assert isinstance(found, Estimate)
    assert found.all_seconds is not None
    assert (asked, found.starting_seconds) == ([2], 500.0)
    assert found.all_seconds > 500
    assert ", 8:20 of it to start" in str(found)
    assert "is done sooner in one process: workers=0 (--workers 0), about" in str(found)
    cw.pack(Numbers(50), dest, limit=5, workers=0)
    assert asked == [2]


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


@pytest.mark.slow
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


@pytest.mark.slow
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


# ---- what is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "s", "cat/s", "link/s", "../in/s"])
def test_a_destination_in_the_folder_that_is_packed_is_refused(tmp_path: Path, name: str) -> None:
    """Its files would be inputs of the next run."""
    images.write(tmp_path / "in", "cat/1.png", "dog/2.png")
    (tmp_path / "link").symlink_to("in")
    dest = tmp_path / name if name.startswith("link") else tmp_path / "in" / name
    before = files_of(tmp_path / "in")
    with pytest.raises(UsageError, match=r" is inside of .*in, which is packed: name a place outside of it"):
        pack(tmp_path / "in", dest)
    assert files_of(tmp_path / "in") == before


def test_a_destination_beside_the_source_is_not(tmp_path: Path) -> None:
    """Also one whose name begins with the source's, or beside a manifest and the images that it names."""
    images.write(tmp_path / "in", "cat/1.png", "dog/2.png")
    assert pack(tmp_path / "in", tmp_path / "in.cordwood").samples == 2
    (tmp_path / "in" / "list.csv").write_text("path\ncat/1.png\n")
    assert pack(tmp_path / "in" / "list.csv", tmp_path / "in" / "s.cordwood").samples == 1


def test_pil_images_without_a_transform_are_refused(tmp_path: Path) -> None:
    """A store cannot hold them."""
    images.write(tmp_path / "in", "1.png", "2.png")
    with pytest.raises(UsageError, match="decode='pil' is for a transform that takes PIL images, and there is none"):
        pack(tmp_path / "in", tmp_path / "s", decode="pil")
    assert not (tmp_path / "s").exists()
    pack(tmp_path / "in", tmp_path / "s", {"image": lambda image: image.width}, decode="pil")
    assert [sample["image"] for sample in cw.open(tmp_path / "s")] == [7, 7]
    # Where there are no images it says nothing.
    assert pack(Numbers(3), tmp_path / "numbers", decode="pil").samples == 3


def test_how_large_images_may_be(tmp_path: Path) -> None:
    images.write(tmp_path / "in", "1.png", "2.png")
    (tmp_path / "in" / "list.csv").write_text("path\n2.png\n")
    for source in (tmp_path / "in", tmp_path / "in" / "list.csv"):
        dest = tmp_path / f"{source.name}.cordwood"
        with pytest.raises(PackError, match=r"input 0 \([12]\.png\) failed: .* 7 x 6, 42 pixels; 41 are allowed"):
            pack(source, dest, max_pixels=41)
        pack(source, dest, max_pixels=42)  # and it goes on: what is stored does not depend on it
        assert cw.open(dest)[0]["image"].shape == (3, 6, 7)


def test_links_out_of_the_folder(tmp_path: Path) -> None:
    images.write(tmp_path / "elsewhere", "1.png")
    torch.save({"x": torch.arange(3)}, tmp_path / "elsewhere" / "1.pt")
    for name, ending in (("images", "png"), ("tensors", "pt"), ("listed", "png")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"link.{ending}").symlink_to(tmp_path / "elsewhere" / f"1.{ending}")
    (tmp_path / "listed" / "list.csv").write_text("path\nlink.png\n")
    for source in ("images", "tensors", "listed/list.csv"):
        dest = tmp_path / f"{source.partition('/')[0]}.cordwood"
        with pytest.raises(PackError, match=r"link\.\w+\) failed: .* is a link to .*follow_links=True"):
            pack(tmp_path / source, dest)
        assert pack(tmp_path / source, dest, follow_links=True).samples == 1


def test_numbers_may_be_numpys(dest: Path) -> None:
    """People compute them."""
    options: dict[str, Any] = {"seed": 3, "batch_size": 5, "part": (1, 2), "on_error": "retry", "retries": 1}
    numpys = {
        "seed": np.int64(3),
        "batch_size": np.int32(5),
        "part": (np.int64(1), np.int64(2)),
        "retries": np.uint8(1),
    }

    def noisy_batch(batch: dict[str, Any]) -> dict[str, Any]:
        return {**batch, "noise": torch.rand(len(batch["number"]))}

    pack(Numbers(20), dest, noisy_batch, batched=True, **options)
    other = dest.with_name("other")
    pack(Numbers(20), other, noisy_batch, batched=True, workers=np.int64(0), **{**options, **numpys})
    assert files_of(other) == files_of(dest)
    # The same job, so it goes on with it.
    assert any("complete" in note for note in pack(Numbers(20), other, noisy_batch, batched=True, **options).notes)


@pytest.mark.parametrize(
    "wrong",
    [
        {"workers": True},
        {"workers": 1.0},
        {"workers": "2"},
        {"workers": 1 << 20},
        {"seed": None},
        {"seed": 1 << 63},
        {"batch_size": 2.5},
        {"max_pixels": 0},
        {"max_pixels": "many"},
        {"decode": "numpy"},
        {"decode_size": 0},
    ],
)
def test_wrong_options_are_named(dest: Path, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        pack(Numbers(3), dest, **wrong)
    assert not dest.exists()


@pytest.mark.parametrize(
    ("kept", "samples", "dropped"), [(lambda rows: rows[:2], 8, 12), (lambda rows: rows.repeat(2), 40, 0)]
)
def test_batches_that_come_back_shorter_or_longer_are_counted(
    dest: Path, kept: Any, samples: int, dropped: int
) -> None:
    """Nobody can tell which rows are of which input, but how many there are."""
    packed = pack(Numbers(20), dest, lambda batch: {"number": kept(batch["number"])}, batched=True, batch_size=5)
    assert (packed.inputs, packed.samples, packed.dropped) == (20, samples, dropped)
    assert ("dropped" in str(packed)) == bool(dropped)
