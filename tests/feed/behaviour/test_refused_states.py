"""A state of something else, or a damaged one, is refused with what differs; a loader that refuses one is as before."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cordwood as cw
from cordwood import Loader
from cordwood.errors import UsageError
from tests.feed.support.numbered import numbered, numbers_of, taken
from tests.feed.support.plain_order import shuffled

COUNT = 101


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> cw.Dataset:
    return numbered(tmp_path_factory.mktemp("refused") / "s", COUNT, shard_bytes=2000)


def order(epoch: int) -> list[int]:
    return shuffled(COUNT, 0, epoch)


def test_a_copy_of_the_store_elsewhere_is_the_same_store(ds: cw.Dataset, tmp_path: Path) -> None:
    found, state = taken(Loader(ds, 10, True), 2)
    shutil.copytree(ds.path, tmp_path / "copy")
    copied = Loader(cw.open(tmp_path / "copy"), 10, True)
    copied.load_state_dict(state)
    assert found + numbers_of(copied) == order(0)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"seed": 1}, "seed 0 in the state but 1 here"),
        ({"shuffle": False}, "shuffle True in the state but False here"),
        ({"drop_last": True}, "drop_last"),
        ({"pad": True}, "pad"),
        ({"sampler": list(range(COUNT))}, "sampler"),
        ({"sampler": [1, 2]}, f"samples {COUNT} in the state but 2 here"),
        ({"seed": 1, "drop_last": True}, "seed 0 in the state but 1 here, drop_last False"),
    ],
)
def test_a_state_of_other_options_is_refused_with_what_differs(
    ds: cw.Dataset, options: dict[str, Any], told: str
) -> None:
    _, state = taken(Loader(ds, 10, True), 2)
    other = Loader(ds, **{"batch_size": 10, "shuffle": True, **options})
    before = other.state_dict()
    with pytest.raises(UsageError, match=told):
        other.load_state_dict(state)
    assert other.state_dict() == before


def test_a_state_of_another_store_is_refused(ds: cw.Dataset, tmp_path: Path) -> None:
    _, state = taken(Loader(ds, 10, True), 2)
    others = [
        numbered(tmp_path / "other", COUNT, size=17),
        ds[::-1],
        ds.subset(np.random.default_rng(0).permutation(COUNT)),
        ds.select("number"),
        ds[1:],
    ]
    for other in others:
        with pytest.raises(UsageError, match=r"another order: .*store"):
            Loader(other, 10, True).load_state_dict(state)


@pytest.mark.parametrize(
    "change",
    [
        {"consumed": COUNT + 1},
        {"consumed": -1},
        {"consumed": 1.0},
        {"consumed": "10"},
        {"epoch": None},
        {"epoch": 1 << 64},
        {"version": 2},
        {"version": "1"},
        {"shuffle": 1},
        {"store": True},
    ],
)
def test_a_damaged_state_is_refused(ds: cw.Dataset, change: dict[str, Any]) -> None:
    _, state = taken(Loader(ds, 10, True), 2)
    loader = Loader(ds, 10, True)
    with pytest.raises(UsageError, match="the state"):
        loader.load_state_dict({**state, **change})
    for name in state:
        with pytest.raises(UsageError, match=name):
            loader.load_state_dict({key: value for key, value in state.items() if key != name})
    assert numbers_of(loader) == order(0)


@pytest.mark.parametrize("wrong", [None, [], 3, "state", {}])
def test_what_is_no_state_is_refused(ds: cw.Dataset, wrong: Any) -> None:
    with pytest.raises(UsageError, match="state"):
        Loader(ds).load_state_dict(wrong)


def test_a_state_at_the_very_end_means_the_next_epoch(ds: cw.Dataset) -> None:
    loader = Loader(ds, 10, True)
    loader.load_state_dict({**loader.state_dict(), "epoch": 3, "consumed": COUNT})
    assert numbers_of(loader) == order(4)
