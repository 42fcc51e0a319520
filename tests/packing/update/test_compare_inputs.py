"""What has become of a store's inputs, told by their names, sizes and dates."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cordwood.errors import UsageError
from cordwood.packing.journal import inputs as inputfiles
from cordwood.packing.journal.inputs import InputEntry, Lines, Position, Totals
from cordwood.packing.update.compare_inputs import DROP, KEEP, MOVED, REDO, compare, gathered
from cordwood.sources import Input, Source


class Listed(Source):
    kind = "listed"

    def __init__(self, *inputs: Input) -> None:
        self._inputs = inputs

    @property
    def count(self) -> int:
        return len(self._inputs)

    def inputs(self, start: int = 0) -> Iterator[Input]:
        return iter(self._inputs[start:])

    def reader(self) -> Callable[[Any], Any]:
        return str


def write_lists(store: Path, *shards: list[InputEntry], after: Position | None = None) -> Path:
    done = 0
    for number, entries in enumerate(shards):
        lines = Lines()
        for entry in entries:
            lines.add(entry)
        first, done = done, done + sum(entry.inputs for entry in entries)
        end = after if after is not None and number == len(shards) - 1 else Position(done)
        inputfiles.write(store, number, Position(first), end, Totals(), lines.text())
    return store


def packed(name: str | None, samples: int = 1, size: int | None = 1, stamp: int | None = 1) -> InputEntry:
    return InputEntry(name, size, stamp, samples)


def there(name: str | None, size: int | None = 1, stamp: int | None = 1) -> Input:
    return Input(name, name, size, stamp)


def test_every_kind_of_change(tmp_path: Path) -> None:
    store = write_lists(
        tmp_path, [packed("a"), packed("b"), packed("c")], [packed("d", -1), packed("e")], [packed("f")]
    )
    source = Listed(there("0"), there("f"), there("a", stamp=2), there("c"), there("d"), there("e"))
    plan = compare(store, source, 3)
    assert [None if one is None else one.tolist() for one in plan.shards] == [[REDO, DROP, KEEP], None, None]
    assert (plan.kept, plan.changed, plan.vanished, plan.added) == (4, 1, 1, 1)
    assert (plan.redone, plan.finished, plan.unfinished) == ([2], 6, [])
    assert plan.listed is not None
    assert plan.listed.tolist() == [False, True, True, True, True, True]
    assert str(plan) == "1 new, 1 changed, 1 vanished of 6 inputs"
    again = compare(store, source, 3, retry_failed=True)
    assert [one.name for one in gathered(source, again.redone)] == ["a", "d"]


@pytest.mark.parametrize(
    "other", [there("a", size=2), there("a", size=None), there("a", stamp=None), there("a", stamp=-(1 << 63) + 1)]
)
def test_size_and_date_tell_of_changes(tmp_path: Path, other: Input) -> None:
    assert compare(write_lists(tmp_path, [packed("a")]), Listed(other), 1).changed == 1


def test_what_is_not_told_is_not_compared(tmp_path: Path) -> None:
    plan = compare(write_lists(tmp_path, [packed("a", size=None, stamp=None)]), Listed(there("a", None, None)), 1)
    assert (plan.kept, plan.rewrites) == (1, False)
    assert str(plan) == "nothing changed"


def test_an_input_in_several_shards_counts_once(tmp_path: Path) -> None:
    shards = [packed("a"), packed("b", 2)], [packed("b", 3)], [packed("b", 1), packed("c")]
    store = write_lists(tmp_path, *shards, after=Position(3))
    plan = compare(store, Listed(there("a"), there("b", stamp=2), there("c")), 3)
    assert [one.tolist() for one in plan.shards if one is not None] == [[KEEP, REDO], [MOVED], [MOVED, KEEP]]
    assert (plan.kept, plan.changed, plan.vanished) == (2, 1, 0)
    plan = compare(store, Listed(there("a"), there("c")), 3)
    assert [one.tolist() for one in plan.shards if one is not None] == [[KEEP, DROP], [DROP], [DROP, KEEP]]
    assert (plan.kept, plan.changed, plan.vanished) == (2, 0, 1)


def test_an_input_that_is_not_finished_is_gone_on_with_or_done_again(tmp_path: Path) -> None:
    store = write_lists(tmp_path, [packed("a")], [packed("b", 2)], after=Position(1, 2))
    plan = compare(store, Listed(there("a"), there("b"), there("c")), 2)
    assert (plan.finished, plan.unfinished, plan.rewrites, plan.added) == (1, [1], False, 1)
    plan = compare(store, Listed(there("b"), there("c")), 2)
    assert [one.tolist() for one in plan.shards if one is not None] == [[DROP], [REDO]]
    assert (plan.redone, plan.unfinished) == ([0], [])


def test_without_shards_everything_is_new(tmp_path: Path) -> None:
    assert compare(tmp_path, Listed(there("a"), there("b")), 0).added == 2
    assert str(compare(tmp_path, Listed(), 0)) == "nothing changed"


def test_an_empty_source(tmp_path: Path) -> None:
    assert compare(write_lists(tmp_path, [packed("a"), packed("b")]), Listed(), 1).vanished == 2


def test_what_cannot_be_told(tmp_path: Path) -> None:
    store = write_lists(tmp_path, [packed("a")])
    with pytest.raises(UsageError, match="two inputs of the source have one name"):
        compare(store, Listed(there("a"), there("b"), there("a")), 1)
    with pytest.raises(UsageError, match="this is another source"):
        compare(store, Listed(there(None)), 1)
    (tmp_path / "unnamed").mkdir()
    unnamed = write_lists(tmp_path / "unnamed", [packed(None), packed(None)])
    with pytest.raises(UsageError, match="which ones are gone cannot be told"):
        compare(unnamed, Listed(there(None)), 1)
    assert compare(unnamed, Listed(there(None), there(None), there(None)), 1).added == 1
