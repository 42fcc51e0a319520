"""Plans that a store is given while it is written: when they come, what they save, and that a resumed writer agrees."""

import json
import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cordwood as cw
from cordwood import codecs
from cordwood.store.format import plan_files
from cordwood.store.format.shard_file import read_footer, shard_name
from cordwood.store.writing import later_plans, shard_copy
from tests.format.store.store_readers import as_torch, plain
from tests.marks import slow_after
from tests.store.support.photos import files_of

SHARD = 100_000
WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small shards are looked at as often as large ones."""
    monkeypatch.setattr(later_plans, "BYTES_PER_LOOK", 1)


class Stopped(Exception):  # noqa: N818 - it is none of the writer's
    pass


def texts(kind: str, count: int) -> list[str]:
    """Sentences of the words of a kind, which a dictionary makes small."""
    chance = random.Random(kind)
    words = [f"{kind}-{word}-{chance.randrange(1000)}" for word in WORDS]
    return [" ".join(chance.choices(words, k=8)) for _ in range(count)]


# What comes, and how often another kind does.
KINDS: dict[str, tuple[Callable[[], list[Any]], int]] = {
    "empty texts first": (lambda: [""] * 300 + texts("a", 12_000), 1),
    "three kinds of texts": (lambda: texts("a", 9000) + texts("b", 9000) + texts("c", 9000), 2),
    "noise, then levels": (lambda: levels(400, 3000), 1),
}


def levels(noisy: int, others: int) -> list[Any]:
    """Rows of noise, then rows of few distinct values, which a palette of the plan makes small."""
    chance = np.random.default_rng(1)
    few = chance.standard_normal(50).astype(np.float32)
    noise = list(chance.standard_normal((noisy, 300)).astype(np.float32))
    return [*noise, *few[chance.integers(0, 50, (others, 300))]]


def write(store: Path, values: Iterable[Any], mode: Any = "create") -> Path:
    with cw.Writer(store, mode=mode, shard_bytes=SHARD) as writer:
        for value in values:
            writer.append({"value": value})
    return store


def files(store: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_of(store).items() if name != ".lock"}


def nbytes(store: Path) -> int:
    return sum(map(len, files(store).values()))


def read(store: Path) -> Any:
    dataset = cw.open(store)
    return dataset[list(range(len(dataset)))]["value"]


def same(found: Sequence[Any], expected: Sequence[Any]) -> bool:
    return all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_later_samples_of_another_kind_take_little_more_than_shuffled_ones(kind: str, tmp_path: Path) -> None:
    make, changes = KINDS[kind]
    values = make()
    store = write(tmp_path / "s", values)
    shuffled = write(tmp_path / "shuffled", random.Random(0).sample(values, len(values)))
    others = len(plan_files.found(store)) - 1
    assert others > 0
    assert f"plans of their own: {others} more plan" in str(cw.inspect(store))
    # Two shards of each kind are written before its plans are there.
    assert nbytes(store) < nbytes(shuffled) + 2 * SHARD * changes
    assert same(read(store), values)
    assert cw.verify(store).ok
    places = range(0, len(values), 601)
    plainly = plain.Store(store)
    assert same([as_torch(plainly[place]["value"]) for place in places], [values[place] for place in places])


def test_samples_of_one_kind_keep_their_plan(tmp_path: Path) -> None:
    store = write(tmp_path / "s", texts("a", 20_000))
    assert len(list(store.glob("shard-*"))) > 3
    assert len(plan_files.found(store)) == 1


@pytest.mark.parametrize("kind", slow_after(1, KINDS))
def test_a_writer_that_resumes_chooses_the_same_plans(kind: str, tmp_path: Path) -> None:
    values = KINDS[kind][0]()
    whole = files(write(tmp_path / "whole", values))
    store, committed = tmp_path / "s", 0
    while committed < len(values):
        with suppress(Stopped), cw.Writer(store, mode="resume", shard_bytes=SHARD) as writer:
            assert writer.committed == committed
            for value in values[committed:]:
                writer.append({"value": value})
                if writer.committed > committed:  # each process writes a shard or two
                    raise Stopped
        committed = len(cw.open(store))
    assert files(store) == whole


def test_shards_that_cannot_be_read_choose_nothing(tmp_path: Path) -> None:
    values = KINDS["empty texts first"][0]()
    store = write(tmp_path / "s", values[:6000])
    path = store / shard_name(0)
    path.write_bytes(path.read_bytes()[:-100] + bytes(100))
    write(store, values[6000:], mode="resume")
    assert len(cw.open(store)) == len(values)


def test_merging_keeps_the_plans_of_shards_and_writing_goes_on(tmp_path: Path) -> None:
    values = KINDS["noise, then levels"][0]()
    parts = [write(tmp_path / name, some) for name, some in (("a", values), ("b", values[::-1]))]
    both = tmp_path / "both"
    cw.merge(parts, both)
    assert same(read(both), [*values, *values[::-1]])
    write(both, values, mode="resume")
    assert same(read(both), [*values, *values[::-1], *values])


def test_kinds_that_come_again_keep_their_chains(tmp_path: Path) -> None:
    kinds = [texts(name, 6000) for name in "abcd"]
    runs = [kind[start : start + 1500] for start in range(0, 6000, 1500) for kind in kinds]
    values = [value for run in runs for value in run]
    store = write(tmp_path / "s", values)
    shuffled = write(tmp_path / "shuffled", random.Random(0).sample(values, len(values)))
    assert nbytes(store) < nbytes(shuffled) + 2 * SHARD * len(kinds)
    assert len(plan_files.found(store)) <= len(kinds) + 1
    assert same(read(store), values)


def test_large_arrays_are_looked_at_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    monkeypatch.setattr(shard_copy, "decode", lambda frame, **given: counting(decoded, codecs.decode(frame, **given)))
    chance = np.random.default_rng(0)
    masks = [np.zeros((1024, 1024), np.uint8) for _ in range(200)]
    for mask in masks:
        mask[:: chance.integers(50, 200)] = 1
    write(tmp_path / "s", masks)
    assert 0 < sum(decoded) <= 20 * (later_plans._MAX_ARRAY_BYTES + masks[0].nbytes)


def counting(decoded: list[int], array: Any) -> Any:
    decoded.append(array.nbytes)
    return array


@pytest.mark.parametrize("field", ["{}", '{"name":"value","raw_bytes":"a","stored_bytes":1}'])
def test_footers_of_others_do_not_stop_a_writer(field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(later_plans, read_footer.__name__, lambda path, ends: json.loads(f'{{"fields":[{field}]}}'))
    values = texts("a", 9000)
    assert same(read(write(tmp_path / "s", values)), values)
