"""A Loader's state: a few numbers that survive JSON, and are never taken for those of another order."""

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cordwood as cw
from cordwood.codecs import Goal
from cordwood.errors import UsageError
from cordwood.feed.order.fingerprints import fingerprint, fingerprint_of
from cordwood.feed.state import OrderIdentity, OrderPosition, check_drawn, new_state, read_state
from tests.store.support.packed import images, pack

GOLDEN = Path(__file__).parent.parent / "golden" / "store"
WHO = OrderIdentity(seed=3, shuffle=True, samples=1000, store=77, sampler=0, drop_last=False, pad=False)
WRONG = [None, "1", 1.0, [], {}, -1, 2**64, float("nan"), 1 << 20_000, object()]
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.builds(
        OrderIdentity,
        seed=st.integers(0, 2**64 - 1),
        shuffle=st.booleans(),
        samples=st.integers(0, 2**62),
        store=st.integers(1, 2**53 - 1),
        sampler=st.integers(0, 2**53 - 1),
        drop_last=st.booleans(),
        pad=st.booleans(),
    ),
    st.integers(0, 2**40),
    st.integers(0, 2**53 - 1),
    st.floats(0, 1),
)
def test_a_state_survives_json(who: OrderIdentity, epoch: int, drawn: int, part: float) -> None:
    place = OrderPosition(epoch, int(who.samples * part), drawn)
    state = json.loads(json.dumps(new_state(who, place)))
    over = place.consumed > 0 and place.consumed == who.samples
    assert read_state(state, who) == (OrderPosition(epoch + 1, 0, 0) if over else place)
    assert all(type(value) in (int, bool) for value in state.values())


def test_a_state_is_what_it_always_was() -> None:
    assert new_state(WHO, OrderPosition(2, 512, 0)) == {
        "version": 1,
        "epoch": 2,
        "consumed": 512,
        "drawn": 0,
        "seed": 3,
        "shuffle": True,
        "samples": 1000,
        "store": 77,
        "sampler": 0,
        "drop_last": False,
        "pad": False,
    }


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(OrderIdentity)])
def test_a_state_of_another_order_is_refused(name: str) -> None:
    value = getattr(WHO, name)
    other = dataclasses.replace(WHO, **{name: not value if isinstance(value, bool) else value + 1})
    state = new_state(WHO, OrderPosition(0, 0, 0))
    with pytest.raises(UsageError, match=f"{name} {value} in the state but {getattr(other, name)} here") as caught:
        read_state(state, other)
    assert "set_epoch" in str(caught.value)


def test_all_that_differs_is_told_at_once() -> None:
    state = new_state(WHO, OrderPosition(0, 0, 0))
    other = dataclasses.replace(WHO, seed=4, pad=True, store=78)
    with pytest.raises(UsageError) as caught:
        read_state(state, other)
    assert str(caught.value) == (
        "the state is of another order: seed 3 in the state but 4 here, pad False in the state but True here, store 77 "
        "in the state but 78 here. To resume, make the Loader with the seed, pad of the state, open the same store, "
        "with the same samples and fields chosen; or start afresh, with set_epoch(n) and without the state"
    )


@pytest.mark.parametrize("name", new_state(WHO, OrderPosition(0, 0, 0)))
@pytest.mark.parametrize(
    "value",
    [None, "1", 1.0, [], {}, -1, 2**64, float("nan"), 1 << 20_000, object()],
    ids=lambda value: type(value).__name__,
)
def test_damaged_values_are_refused(name: str, value: Any) -> None:
    with pytest.raises(UsageError, match=name):
        read_state({**new_state(WHO, OrderPosition(0, 0, 0)), name: value}, WHO)


def test_numbers_and_truths_are_told_apart() -> None:
    for name, value in (("seed", True), ("epoch", False), ("shuffle", 1), ("pad", 0)):
        with pytest.raises(UsageError, match=f"the state's {name} is"):
            read_state({**new_state(WHO, OrderPosition(0, 0, 0)), name: value}, WHO)


@pytest.mark.parametrize("name", new_state(WHO, OrderPosition(0, 0, 0)))
def test_missing_values_are_refused(name: str) -> None:
    state = new_state(WHO, OrderPosition(0, 0, 0))
    del state[name]
    with pytest.raises(UsageError, match=name):
        read_state(state, WHO)


def test_more_than_the_epoch_has_cannot_be_consumed() -> None:
    assert read_state(new_state(WHO, OrderPosition(0, 999, 0)), WHO) == OrderPosition(0, 999, 0)
    assert read_state(new_state(WHO, OrderPosition(0, 1000, 0)), WHO) == OrderPosition(
        1, 0, 0
    )  # all of it: the next one begins
    with pytest.raises(UsageError, match="1001 samples of the epoch are consumed, but it has 1000"):
        read_state(new_state(WHO, OrderPosition(0, 1001, 0)), WHO)


def test_a_newer_version_is_refused_and_what_it_adds_to_this_one_ignored() -> None:
    state = new_state(WHO, OrderPosition(1, 2, 3))
    with pytest.raises(UsageError, match="version 2, but this Cordwood reads up to version 1: upgrade it"):
        read_state({**state, "version": 2}, WHO)
    assert read_state({**state, "remark": "a word"}, WHO) == (1, 2, 3)


@given(ANYTHING)
def test_anything_else_is_refused(found: Any) -> None:
    with pytest.raises(UsageError, match="state_dict"):
        read_state(found, WHO)


def test_other_draws_of_a_sampler_are_refused_in_the_middle_of_an_epoch() -> None:
    check_drawn(OrderPosition(1, 10, 5), 5)
    check_drawn(OrderPosition(1, 0, 5), 6)  # nothing of it was used yet
    with pytest.raises(UsageError, match=r"other samples for epoch 1 \(fingerprint 6\).*taken \(5\)"):
        check_drawn(OrderPosition(1, 10, 5), 6)


# ---- fingerprints ---------------------------------------------------------------------------------------------------


def test_a_copy_of_a_store_has_the_same_fingerprint(tmp_path: Path) -> None:
    ds = pack(tmp_path / "a", images(7), shard_bytes=1)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    found = fingerprint_of(ds)
    assert found == fingerprint_of(cw.open(tmp_path / "b")) == fingerprint_of(cw.open(tmp_path / "a"))
    assert 0 < found < 2**53


def test_fingerprints_in_saved_states_stay_valid() -> None:
    ds = cw.open(GOLDEN / "v1-labelled-small.cordwood")
    assert [fingerprint_of(view) for view in (ds, ds[1:], ds.select("0"), ds.subset([2, 0]))] == [
        8900311667297173,
        8750201436341203,
        4040136718365975,
        2465062112019809,
    ]


def test_a_store_packed_anew_of_the_same_samples_has_the_same_fingerprint(tmp_path: Path) -> None:
    assert fingerprint_of(pack(tmp_path / "a", images(7))) == fingerprint_of(pack(tmp_path / "b", images(7)))


@pytest.mark.parametrize("goal", ["raw", "balanced"])
def test_one_pixel_makes_another_fingerprint(tmp_path: Path, goal: Goal) -> None:
    samples = images(3)
    one = fingerprint_of(pack(tmp_path / "a", samples, goal))
    samples[1]["image"][0, 2, 2] ^= 1
    assert fingerprint_of(pack(tmp_path / "b", samples, goal)) != one


def test_other_views_have_other_fingerprints(tmp_path: Path) -> None:
    ds = pack(tmp_path / "a", images(9), shard_bytes=1)
    other = pack(tmp_path / "b", images(9)[::-1], shard_bytes=1)
    views = [
        ds,
        other,
        ds[:8],
        ds[1:],
        ds[::-1],
        ds[::2],
        ds[3:3],
        ds[3:4],
        ds[4:5],
        ds.subset([0, 1, 2, 3, 4, 5, 6, 8, 7]),
        ds.subset([0, 0]),
        ds.select("image"),
        ds.select("image", "label"),
        ds.select("label", "image"),
        cw.concat([ds, ds]),
        cw.concat([ds, other]),
        cw.concat([other, ds]),
    ]
    found = [fingerprint_of(view) for view in views]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("part", [slice(2, 7), slice(0, 9), slice(None, None, -2), slice(4, 5), slice(3, 3)])
def test_the_same_samples_chosen_otherwise_have_the_same_fingerprint(tmp_path: Path, part: slice) -> None:
    ds = pack(tmp_path / "a", images(9))
    assert fingerprint_of(ds[part]) == fingerprint_of(ds.subset(np.arange(9)[part]))
    assert fingerprint_of(ds[part]) == fingerprint_of(ds.subset(torch.arange(9).numpy()[part].tolist()))


def test_what_is_added_to_a_store_does_not_change_those_who_have_it_open(tmp_path: Path) -> None:
    ds = pack(tmp_path / "a", images(3), shard_bytes=1)
    before = fingerprint_of(ds)
    with cw.Writer(tmp_path / "a", mode="append") as writer:
        writer.append(images(4)[3])
    grown = cw.open(tmp_path / "a")
    assert fingerprint_of(grown) != before
    assert fingerprint_of(cw.concat([ds])) == before == fingerprint_of(ds)


def test_a_store_without_samples_has_a_fingerprint(tmp_path: Path) -> None:
    cw.Writer(tmp_path / "empty").close()
    assert fingerprint_of(cw.open(tmp_path / "empty")) > 0


def test_fingerprints_tell_parts_and_their_order_apart() -> None:
    numbers = np.array([1, 2, 3])
    found = [
        fingerprint("a", "b"),
        fingerprint("b", "a"),
        fingerprint("ab"),
        fingerprint("ab", ""),
        fingerprint(numbers),
        fingerprint(numbers[::-1]),
        fingerprint(numbers[:2], numbers[2:]),
        fingerprint(numbers.astype(np.int32)),
        fingerprint(1, 2, 3),
        fingerprint(-1),
    ]
    assert len(set(found)) == len(found)
    assert found[4] == fingerprint(np.array([1, 0, 2, 0, 3])[::2])
