"""Dry runs: which inputs are tried, what is said of them and of the whole; the clock is the tests' own."""

import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import cordwood as cw
from cordwood.errors import PackError, UsageError
from cordwood.packing.dry_run import estimate
from cordwood.packing.report.estimate import Estimate
from cordwood.packing.transform.transform import prepare_transform
from cordwood.packing.workers.work import seed_of
from cordwood.sources import find


class Numbers:
    """A dataset of small tensors that knows what was asked of it."""

    def __init__(self, length: int, broken: frozenset[int] = frozenset()) -> None:
        self.length, self.broken = length, broken
        self.asked: list[int] = []

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> dict[str, Any]:
        self.asked.append(number)
        if number in self.broken:
            raise ValueError(f"number {number} is broken")
        return {"x": torch.full((500,), float(number)), "n": number}


def ticking() -> Any:
    """A clock that is a second further whenever somebody looks."""
    return iter(map(float, range(1_000_000))).__next__


def tried(dataset: Any, transform: Any = None, *, batched: bool = False, **options: Any) -> Estimate:
    given = {"limit": 10, "workers": 1, "clock": ticking(), **options}
    return estimate(find(dataset), prepare_transform(transform, batched=batched), Path("/nowhere/x.cordwood"), **given)


def test_inputs_come_from_all_over_the_source() -> None:
    dataset = Numbers(1000)
    found = tried(dataset)
    assert sorted(number // 100 for number in dataset.asked) == list(range(10))
    assert (found.inputs, found.of_inputs, found.samples) == (10, 1000, 10)
    again = Numbers(1000)
    tried(again)
    assert again.asked == dataset.asked
    assert len({number % 10 for number in dataset.asked}) > 1  # no fixed stride


def test_a_source_smaller_than_the_limit_is_tried_whole() -> None:
    dataset = Numbers(7)
    assert tried(dataset).inputs == 7
    assert sorted(dataset.asked) == list(range(7))


def test_a_part_is_tried_by_itself() -> None:
    dataset = Numbers(1000)
    found = tried(dataset, span=(200, 300))
    assert found.of_inputs == 100
    assert all(200 <= number < 300 for number in dataset.asked)


def test_the_first_inputs_of_a_source_without_end() -> None:
    def numbers() -> Iterator[dict[str, int]]:
        number = 0
        while True:
            yield {"n": number}
            number += 1

    found = tried(numbers)
    assert (found.inputs, found.of_inputs, found.all_bytes, found.all_seconds, found.fits) == (
        10,
        None,
        None,
        None,
        None,
    )
    assert "the first ones" in str(found)


def test_batches_are_tried_whole_and_begin_where_a_run_has_them() -> None:
    dataset = Numbers(104)
    sizes: list[int] = []

    def note(batch: dict[str, Any]) -> dict[str, Any]:
        sizes.append(len(batch["x"]))
        return batch

    found = tried(dataset, note, batched=True, batch=8, limit=16)
    assert sizes == [8, 8]
    assert [number % 8 for number in dataset.asked] == list(range(8)) * 2
    assert found.inputs == 16


def test_the_seed_is_that_of_a_run() -> None:
    seeds: dict[int, int] = {}

    def note(sample: Any, seed: int) -> Any:
        seeds[sample["n"]] = seed
        return sample

    tried(Numbers(3), note, seed=5)
    assert seeds == {number: seed_of(5, number) for number in range(3)}


def test_times_and_sizes_a_sample() -> None:
    found = tried(Numbers(1000))
    assert found.preprocess_seconds == 1.0
    assert found.encode_seconds == found.read_seconds == 0.1
    assert found.raw_bytes == 10 * 2008
    assert found.stored_bytes > 0
    assert found.all_samples == 1000
    assert found.all_seconds == pytest.approx(1000 * 1.1)
    assert found.all_bytes == round(found.stored_bytes * 100) + found.fixed_bytes + found.bytes_per_shard
    assert found.epochs == pytest.approx(1.1 / 0.9)
    assert found.torch_save_bytes is not None
    assert found.torch_save_bytes > found.raw_bytes


def test_several_samples_of_an_input_and_none() -> None:
    found = tried(Numbers(1000), lambda sample: [sample] * 3)
    assert (found.samples, found.all_samples) == (30, 3000)
    assert found.preprocess_seconds == pytest.approx(1 / 3)
    half = tried(Numbers(10), lambda sample: sample if sample["n"] % 2 else None)
    assert (half.samples, half.dropped, half.all_samples) == (5, 5, 5)
    assert half.preprocess_seconds == 9 / 5  # the first one, which also imports and loads, is left out


def test_failures_are_told_and_left_out() -> None:
    found = tried(Numbers(10, broken=frozenset((2, 3, 5, 7))))
    assert (found.failed, found.samples) == (4, 6)
    assert found.failures == tuple(f"input {n}: ValueError: number {n} is broken" for n in (2, 3, 5))
    assert "4 failed in all" in str(found)


@pytest.mark.parametrize(("broken", "stops"), [((2, 3), True), ((2, 3), False), ((), True)])
def test_that_packing_would_stop_at_a_failure_is_said(broken: tuple[int, ...], stops: bool) -> None:
    found = tried(Numbers(10, broken=frozenset(broken)), stops_at_failures=stops)
    told = 'packing would stop at the first input that fails: .* on_error="skip" \\(--on-error skip\\)'
    assert bool(re.search(told, str(found))) == bool(broken and stops)
    assert found.to_dict()["stops_at_failures"] == stops


def test_fields_that_samples_lack_are_told() -> None:
    with pytest.raises(PackError, match=r"input 0: KeyError: 'label' \(the sample has the fields 'x', 'n'\)"):
        tried(Numbers(3), lambda sample: sample["label"])


def test_the_start_of_workers_counts_where_it_matters() -> None:
    quick = iter(number / 1000 for number in range(1_000_000)).__next__
    found = tried(Numbers(1000), clock=quick, starting=lambda: 4.0)
    assert found.all_seconds == pytest.approx(1000 * 0.0011 + 4)
    assert re.search(r"time to pack +0:05  with 1 worker, 0:04 of it to start", str(found))
    assert str(found).splitlines()[-2].startswith("a job as small as this is done sooner in one process: workers=0")
    assert found.to_dict()["starting_seconds"] == 4.0
    long = tried(Numbers(1000), starting=lambda: pytest.fail("nobody needs to know"))
    assert long.starting_seconds == 0


def test_what_goes_wrong_says_nothing_of_a_store_that_is_gone() -> None:
    with pytest.raises(UsageError, match="'y'") as caught:
        tried(Numbers(3), fields={"y": cw.Field(keep_encoded=True)})
    assert not getattr(caught.value, "__notes__", [])


def test_without_samples_it_is_said_why() -> None:
    with pytest.raises(PackError, match=r"none of 3 inputs .*input 0: ValueError: number 0 is broken") as caught:
        tried(Numbers(3, broken=frozenset(range(3))))
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(UsageError, match="returned nothing for all of 3"):
        tried(Numbers(3), lambda sample: None)
    with pytest.raises(UsageError, match=r"has no inputs, .* nothing to pack"):
        tried(Numbers(0))


@pytest.mark.parametrize("limit", [0, -1, 2.5, True])
def test_a_limit_that_cannot_be_meant(limit: Any) -> None:
    with pytest.raises(UsageError, match="limit must be"):
        tried(Numbers(3), limit=limit)


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    threads = torch.get_num_threads()
    dest = tmp_path / "x.cordwood"
    estimate(find(Numbers(5)), prepare_transform(None), dest, limit=5, workers=1)
    with pytest.raises(UsageError):
        estimate(find(Numbers(5)), prepare_transform(lambda sample: None), dest, limit=5, workers=1)
    assert list(tmp_path.iterdir()) == []
    assert torch.get_num_threads() == threads


def test_options_of_the_store_count() -> None:
    small = tried(Numbers(5), fields={"x": cw.Field(store_as="float16")})
    assert {row.name: row.stored_as for row in small.inspection.fields} == {"x": "float16", "n": None}
    assert {row.goal for row in tried(Numbers(5), goal="raw").inspection.fields} == {"raw"}


# ---- what it says ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def found() -> Estimate:
    return replace(
        tried(Numbers(1000)),
        source="photos/",
        dest="train.cordwood",
        preprocess_seconds=0.021,
        encode_seconds=0.0019,
        read_seconds=0.0002,
        stored_bytes=10 * 400,
        fixed_bytes=2000,
        bytes_per_shard=1000,
        torch_save_bytes=10 * 3500,
        free_bytes=10**9,
        workers=2,
        notes=(),
    )


def test_few_inputs_say_less_than_packing_looks_at() -> None:
    (note,) = tried(Numbers(1000)).notes
    assert note.startswith("packing chooses codecs on more inputs than these")
    limit = int(note.partition("limit=")[2].split()[0])
    assert tried(Numbers(1000), limit=limit).notes == ()


def test_the_verdict(found: Estimate) -> None:
    assert found.verdict == "preprocessing 21 ms, reading back 0.20 ms a sample: pays off after about 1.1 epochs"
    never = replace(found, preprocess_seconds=0.0001)
    assert never.epochs is None
    assert never.verdict == (
        "not worth packing: reading back costs more than preprocessing (preprocessing 0.10 ms, reading back 0.20 ms a "
        "sample)"
    )
    late = replace(found, preprocess_seconds=0.000_21, encode_seconds=0.0048)
    assert late.verdict.endswith("0.20 ms a sample, which is hardly faster: pays off after about 501 epochs, if at all")


def test_the_table(found: Estimate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    lines = str(found).splitlines()
    assert lines[0] == "dry run: 10 inputs of 1,000 of photos/, spread evenly"
    assert [line.split()[0] for line in lines[4:6]] == ["x", "n"]
    assert lines[6].startswith("plans ")
    start = lines.index("samples                     1,000")
    assert lines[start:] == [
        "samples                     1,000",
        "preprocessing     21 ms            read and transformed, on one core",
        "encoding         1.9 ms",
        "reading back    0.20 ms            in batches of 64, on one core",
        "values           2.0 kB    2.0 MB",
        "as .pt files     3.5 kB    3.5 MB",
        "store             400 B  403.0 kB  1.0 GB free on its disk",
        "time to pack                 0:11  with 2 workers",
        "",
        "preprocessing 21 ms, reading back 0.20 ms a sample: pays off after about 1.1 epochs",
    ]


def test_the_files_stand_beside_the_store(found: Estimate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert found.growth is None
    assert "source files" not in str(found)
    larger = replace(found, file_bytes=10 * 160)
    assert larger.growth == 2.5
    lines = str(larger).splitlines()
    assert "source files      160 B  160.0 kB" in lines
    assert lines[-2] == "the store would take 2.5x the bytes of the files it is made of: that buys time, not space"
    assert lines[-1] == larger.verdict
    smaller = replace(found, file_bytes=10 * 800)
    assert "that buys time" not in str(smaller)
    assert smaller.to_dict()["a_sample"]["file_bytes"] == 800


def test_the_bytes_of_the_files_that_were_tried(tmp_path: Path) -> None:
    for number in range(6):
        torch.save({"x": torch.full((100 * (number + 1),), number)}, tmp_path / f"{number}.pt")
    found = tried(tmp_path)
    assert found.file_bytes == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert tried(Numbers(5)).file_bytes is None


def test_a_notebook_shows_the_table(found: Estimate) -> None:
    assert (
        replace(found, source="<b>")
        ._repr_html_()
        .split(">", 1)[1]
        .startswith("dry run: 10 inputs of 1,000 of &lt;b&gt;, ")
    )


def test_a_disk_that_is_too_small_is_told(found: Estimate) -> None:
    assert found.fits
    full = replace(found, free_bytes=400_000)
    assert full.fits is False
    assert "not enough space: the store would take about 403.0 kB, and 400.0 kB are free where train.cordwood" in str(
        full
    )


def test_as_json(found: Estimate) -> None:
    told = json.loads(json.dumps(found.to_dict()))
    assert told["tried"] == {"inputs": 10, "samples": 10, "dropped": 0, "failed": 0}
    assert (told["samples"], told["bytes"], told["workers"]) == (1000, 403_000, 2)
    assert told["a_sample"]["stored_bytes"] == 400
    assert told["epochs"] == pytest.approx(1.1, abs=0.01)
    assert told["fields"][0]["plan"]
    assert told["verdict"] == found.verdict
