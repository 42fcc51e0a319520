"""The benchmark of codec plans on tiny data: every part runs to its end, measures all its goals, and can say no."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import cordwood as cw  # noqa: E402
from benchmarks.data import synthetic  # noqa: E402
from benchmarks.data.photographs import Photographs  # noqa: E402
from benchmarks.harness.outcome import Settings  # noqa: E402
from benchmarks.harness.packages import PackageCache  # noqa: E402
from benchmarks.harness.suite import ROOT  # noqa: E402
from benchmarks.harness.timing import MismatchError, UnavailableError  # noqa: E402
from benchmarks.plans import (  # noqa: E402
    order_rows,
    orders,
    photo_rows,
    previous,
    revision,
    small_rows,
    sorted_rows,
    text_rows,
    tiny_rows,
)
from benchmarks.plans.orders import Case, blocks, drawn  # noqa: E402
from benchmarks.plans.packing import packed, packed_bytes, predicted_bytes  # noqa: E402
from benchmarks.plans.rounds import Turns  # noqa: E402
from tests.benchmarks.support.tiny import measured, rows_of  # noqa: E402

pytestmark = pytest.mark.slow


def numbers(count: int, seed: int = 1) -> list[Any]:
    return list(np.random.default_rng(seed).integers(0, 50, (count, 64), np.uint8))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    ramp = np.arange(224 * 224 * 3).reshape(224, 224, 3)

    def made_up(cache: PackageCache, count: int) -> Photographs:
        pixels = [(ramp // (number + 50)).astype(np.uint8) for number in range(count)]
        return Photographs(pixels, [f"ramp {number % 2}" for number in range(count)], [])

    cases = [
        Case("zeros, then numbers", [*[np.zeros(64, np.uint8)] * 20, *numbers(20)]),
        Case("numbers", numbers(30)),
    ]
    monkeypatch.setattr(sorted_rows, "first_table", lambda settings: iter(cases))
    monkeypatch.setattr(order_rows, "further_orders", lambda settings: iter(cases))
    monkeypatch.setattr(orders, "QUICK", orders.Amounts(32, 32, 6, 20, 5, 5, 2, 16))
    monkeypatch.setattr(orders, "load_photographs", made_up)
    monkeypatch.setattr(orders, "token_ids", lambda cache: (np.arange(2000) % 777, "made up"))
    monkeypatch.setattr(photo_rows, "load_photographs", made_up)
    monkeypatch.setattr(previous, "FILE", tmp_path.with_name(f"{tmp_path.name}.json"))
    for module in (text_rows, small_rows):
        monkeypatch.setattr(module, "QUICK_COUNT", 512)
    orders.photographs.cache_clear()
    orders.token_rows.cache_clear()
    caches = orders.photographs, orders.token_rows  # of made-up data, which no other test may find
    yield Settings(True, PackageCache(tmp_path), 2, 0.0, 2, None, 0, 0, 0, 0)
    for each in caches:
        each.cache_clear()


def test_first_samples_of_another_kind(settings: Settings) -> None:
    shuffled = {"zeros, then numbers": 1000, "numbers": 1000}
    previous.FILE.write_text(json.dumps({"version": "1", "commit": "abc", "quick": shuffled, "full": {}}))
    outcome = measured(sorted_rows, settings)
    assert outcome.reasons == {}
    rows: list[list[Any]] = [list(row) for row in outcome.tables[0].rows]
    first, second, third = rows
    assert [row[:2] for row in rows] == [
        ["zeros, then numbers", "balanced"],
        ["zeros, then numbers", "small"],
        ["numbers", "balanced"],
    ]
    assert outcome.measured["plans-sorted"].median == max(row[4] for row in rows)
    assert first[4] == first[2] / first[3]
    assert outcome.measured["plans-predicted"].median >= max(first[6], 1 / first[6])
    assert outcome.measured["plans-shuffled-before"].median == max(first[3], third[3]) / 1000
    assert second[5:] == [None, None, None]
    assert outcome.tables[0].notes[-1] == "The version before: Cordwood 1, commit abc."


def test_orders_and_mixed_images(settings: Settings) -> None:
    outcome = measured(order_rows, settings)
    assert outcome.reasons == {"plans-orders-before": "no version was recorded"}
    assert {row[-1] for row in outcome.tables[0].rows} == {None}
    rows = rows_of(outcome, 1)
    alone = rows["screenshots"][1] + rows["photographs"][1]
    assert outcome.measured["plans-mixed"].median == rows["both, shuffled, in one store"][1] / alone


def test_photographs(settings: Settings) -> None:
    outcome = measured(photo_rows, settings)
    assert "where --against names" in outcome.reasons["plans-pack-before"]
    rows = rows_of(outcome)
    assert outcome.measured["plans-webp-size"].median == rows["small"][0] / rows["WebP"][0]
    asked = 4 if rows["small"][1] <= 0.93 else 5
    assert outcome.measured["plans-webp-speed"].median == pytest.approx(rows["small"][3].median / asked)


def test_photographs_against_another_version(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(photo_rows, "built", lambda revision, folder: Path(cw.__file__).parent.parent)
    photographs = list(np.random.default_rng(1).integers(0, 256, (3, 32, 32, 3), np.uint8))
    outcome = photo_rows.measure_before(replace(settings, against="v0"), photographs, settings.cache.folder)
    rows = rows_of(outcome)
    assert {name: row[0] for name, row in rows.items()} == {"uint8": 1.0, "normalised float32": 1.0}
    assert outcome.measured["plans-pack-before"].median == min(row[2].median for row in rows.values())
    assert outcome.measured["plans-decode-before"].median == min(row[4].median for row in rows.values())


def test_texts_and_short_rows(settings: Settings) -> None:
    outcome = measured(text_rows, settings)
    rows = rows_of(outcome)
    assert set(rows) == {*synthetic.TEXTS, "512 int8 values", "boxes, [N, 4] float32"}
    assert outcome.measured["plans-texts"].median == max(rows[name][4] for name in synthetic.TEXTS)
    assert all(row[1] < row[0] for row in rows.values())


def test_batches_of_small_samples(settings: Settings) -> None:
    outcome = measured(small_rows, settings)
    speeds = [row[2] for row in rows_of(outcome).values()]
    assert len(speeds) == 5
    assert outcome.measured["plans-small-decode"].median == min(speed.median for speed in speeds)


def test_tiny_samples(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiny_rows, "QUICK_COUNT", 500)
    monkeypatch.setattr(tiny_rows, "CHUNK", 200)
    outcome = measured(tiny_rows, settings)
    rows = rows_of(outcome)
    assert rows["lists of samples"][1] == pytest.approx(rows["batches of columns"][1], rel=0.01)
    assert outcome.measured["plans-tiny-size"].median == rows["lists of samples"][1] / 40
    assert outcome.measured["plans-tiny-speed"].median == rows["lists of samples"][0] / 200_000


def test_the_cases_are_what_they_are_called(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(orders, "photographs", lambda cache, count, side: numbered_images(count, side))
    monkeypatch.setattr(orders, "sorted_folder", lambda *amounts: numbered_images(9, 40))
    monkeypatch.setattr(orders, "token_ids", lambda cache: (np.arange(9000) % 777, "made up"))
    first, further = list(orders.first_table(settings)), list(orders.further_orders(settings))
    assert (len(first), len(further)) == (10, 12)
    assert len({case.name for case in [*first, *further]}) == 22
    assert not any(row.any() for row in first[0].rows[:300])
    assert all(row.any() for row in first[0].rows[300:])
    assert first[1].rows[0].dtype == bool
    assert (first[7].rows[0].shape, first[8].rows[0].shape) == ((3, 4, 4), (1, 64, 64))
    for case in [*first, *further]:
        assert sorted(row.tobytes() for row in case.rows) == sorted(row.tobytes() for row in case.shuffled().rows)
        assert len({row.dtype for row in case.rows}) == 1


def numbered_images(count: int, side: int) -> list[Any]:
    return [np.full((3, side, side), number + 1, np.uint8) for number in range(count)]


def test_a_folder_is_sorted_by_class(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    image = pytest.importorskip("PIL.Image")
    thirds = np.arange(240, dtype=np.uint8)[None, :, None].repeat(90, 0).repeat(3, 2) // 80
    pictures = {"bus.jpg": image.fromarray(thirds), "flower.jpg": image.fromarray(thirds + np.uint8(10))}
    monkeypatch.setattr(orders, "open_sources", lambda cache: (pictures, []))
    crops = orders.sorted_folder(settings.cache, 6, 2, 32)
    assert [int(crop.mean().round()) for crop in crops] == [10, 10, 11, 11, 12, 12, 0, 0, 1, 1, 2, 2]


def test_blocks_and_runs_hold_every_sample_once() -> None:
    assert blocks([1, 2, 3, 4, 5], [6, 7], 2) == [1, 2, 6, 7, 3, 4, 5]
    kinds = [range(50), range(50, 90), range(90, 150)]
    assert sorted(drawn(kinds, 1)) == list(range(150))
    assert drawn(kinds, 1) != drawn(kinds, 2)


def test_synthetic_samples_are_the_same_each_time() -> None:
    for make in (synthetic.json_texts, synthetic.path_texts, synthetic.sentence_texts):
        texts = make(50, 1)
        assert texts == make(50, 1) != make(50, 2)
        assert 40 <= np.mean([len(text) for text in texts]) <= 100
    assert synthetic.masks(3, 32, 1).tobytes() == synthetic.masks(3, 32, 1).tobytes()
    assert synthetic.screenshots(2, 64, 1).shape == (2, 3, 64, 64)
    assert all(each.shape[1:] == (4,) and len(each) for each in synthetic.boxes(20, 1))
    assert synthetic.digits(4, 1).max(axis=(1, 2)).min() > 200


@pytest.mark.parametrize("wrong", [numbers(6, 2), [row.astype(np.int16) for row in numbers(6)]])
def test_a_store_of_other_samples_ends_the_run(
    wrong: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, pack = Case("numbers", numbers(6)), cw.pack
    with packed(right, tmp_path) as store:
        assert store.is_dir()
    assert list(tmp_path.iterdir()) == []
    assert predicted_bytes(right, tmp_path) > 0
    monkeypatch.setattr(
        "benchmarks.plans.packing.cw.pack", lambda case, *rest, **options: pack(Case("", wrong), *rest, **options)
    )
    with pytest.raises(MismatchError, match="numbers: sample 0 is not what was packed"), packed(right, tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


def test_texts_are_compared_too(tmp_path: Path) -> None:
    assert packed_bytes(Case("texts", ["a", "bc", ""]), tmp_path) > 0


def test_a_process_of_another_package_is_told_apart(tmp_path: Path) -> None:
    file = tmp_path / "photographs.npy"
    np.save(file, np.zeros((2, 3, 8, 8), np.uint8))
    with pytest.raises(MismatchError, match="was to be measured, and that of"):
        Turns(tmp_path, file, tmp_path)


def test_a_revision_that_cannot_be_had_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="git -C"):
        revision.built("no-such-revision", tmp_path)
    assert ROOT.is_dir()


@pytest.mark.parametrize("part", [sorted_rows, order_rows, photo_rows, text_rows, small_rows, tiny_rows])
def test_every_goal_is_in_the_table_of_goals(part: ModuleType) -> None:
    from benchmarks.harness.goals import BY_KEY

    assert set(part.KEYS) <= BY_KEY.keys()
