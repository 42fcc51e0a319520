"""In what way inputs are not those that were packed, in words that help."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from cordwood.errors import PackError, UsageError
from cordwood.packing.update.first_change import first_change
from cordwood.sources import Input, Source
from cordwood.store.format import shard_index
from tests.packing.support.numbers import pack
from tests.packing.support.packed_stores import named, size_of, write_packed

Listed = Sequence[tuple[str | None, int, int]]  # name, size, stamp


class Listing(Source):
    """These inputs."""

    kind = "listing"

    def __init__(self, inputs: Listed) -> None:
        self._inputs = inputs

    def inputs(self, start: int = 0) -> Iterator[Input]:
        return (Input(None, *one) for one in self._inputs[start:])

    def reader(self) -> Callable[[Any], Any]:
        raise NotImplementedError


def as_packed(names: str) -> list[tuple[str | None, int, int]]:
    return [(name, size_of(name), 7) for name in names]


BEHIND = "what is packed, up to 'e', is as it was, but inputs behind that were added, removed or changed"


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (as_packed("acde"), "'b' was packed behind 'a', and 'c' is there now"),
        (as_packed("bcde"), "'a' was packed, and 'b' is there now"),
        (as_packed("abcxde"), "'d' was packed behind 'c', and 'x' is there now"),
        (as_packed("Aabcde"), "'a' was packed, and 'A' is there now"),
        (as_packed("abcd"), "'e' is not there any more"),
        ([], "'a' is not there any more"),
        (as_packed("abcdef"), BEHIND),
        (as_packed("abcde"), BEHIND),
        ([*as_packed("ab"), ("c", size_of("c") + 1, 7), *as_packed("de")], "'c' was changed after it was packed"),
        ([*as_packed("abc"), ("d", size_of("d"), 8), *as_packed("e")], "'d' was changed after it was packed"),
        ([(None, 1, 1)] * 5, "'a' is not there any more"),
    ],
)
@pytest.mark.parametrize("samples", [1, 4])
def test_what_is_told(tmp_path: Path, now: Listed, told: str, samples: int) -> None:
    """Also if the samples of an input are in several shards."""
    store = write_packed(tmp_path / "s", named("abcde", samples))
    shards = len(shard_index.read(store).records)
    assert shards > 1
    assert first_change(store, shards, Listing(now), 0) == told


def test_inputs_that_gave_nothing_are_compared_too(tmp_path: Path) -> None:
    store = write_packed(tmp_path / "s", [("a", 1), ("b", 0), ("c", -1), ("d", 1)])
    shards = len(shard_index.read(store).records)
    assert (
        first_change(store, shards, Listing(as_packed("acd")), 0) == "'b' was packed behind 'a', and 'c' is there now"
    )
    assert (
        first_change(store, shards, Listing(as_packed("abd")), 0) == "'c' was packed behind 'b', and 'd' is there now"
    )


def test_a_part_is_compared_with_its_own_inputs(tmp_path: Path) -> None:
    store = write_packed(tmp_path / "s", named("cde"), start=2)
    shards = len(shard_index.read(store).records)
    assert first_change(store, shards, Listing(as_packed("abcde")), 2) == BEHIND
    assert first_change(store, shards, Listing(as_packed("bcde")), 2) == "'c' was packed, and 'd' is there now"


def test_before_there_is_a_shard(tmp_path: Path) -> None:
    assert first_change(tmp_path, 0, Listing(as_packed("abc")), 0) == "inputs were added, removed or changed"


def test_inputs_without_names(tmp_path: Path) -> None:
    store = write_packed(tmp_path / "s", [(None, 1)] * 3)
    assert first_change(store, 1, Listing([(None, 0, 0)] * 4), 0) == "there were other inputs"


def test_a_job_that_is_refused_says_it(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(6):
        torch.save({"x": torch.full((100,), number)}, tmp_path / "in" / f"{number}.pt")

    def fails_at_four(sample: dict[str, Any]) -> dict[str, Any]:
        if sample["x"][0] == 4:
            raise ValueError("four")
        return sample

    options: dict[str, Any] = {"shard_bytes": 500, "goal": "raw"}
    pack(tmp_path / "in", tmp_path / "whole", **options)
    with pytest.raises(PackError):
        pack(tmp_path / "in", tmp_path / "begun", fails_at_four, **options)
    (tmp_path / "in" / "2.pt").unlink()
    change = r"the inputs are not those that .* was begun with: '2\.pt' was packed behind '1\.pt', and '3\.pt' is there"
    with pytest.raises(UsageError, match=rf"{change} now\. Bring the store up to date with update=True \(--update\)"):
        pack(tmp_path / "in", tmp_path / "whole", **options)
    # No shard of it is finished: there is no list to compare with.
    with pytest.raises(
        UsageError, match=r"inputs were added, removed or changed\. Put them back .*; or .* update=True"
    ):
        pack(tmp_path / "in", tmp_path / "begun", fails_at_four, **options)
