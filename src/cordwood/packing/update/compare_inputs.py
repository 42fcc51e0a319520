"""Compares the inputs of a store with those of its source: unchanged, changed, removed, or new.

    plan = compare(Path("train.cordwood"), source, shards=12)
    plan.changed, plan.vanished, plan.added
    plan.shards[3]              # what is to be done with each input of shard 3, or None: the shard stays as it is

Inputs are known by their names. There may be ten million of them: of each name a hash of 128 bits is kept, beside its
size and its date.
"""

import hashlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from cordwood.errors import UsageError
from cordwood.packing.journal import inputs
from cordwood.packing.journal.inputs import FAILED, InputEntry
from cordwood.sources import Input, Source

KEEP, REDO, DROP, MOVED = 0, 1, 2, 3  # MOVED: its samples stand where the input began, in a shard before
_NEVER: Final = 255
_NOT_TOLD: Final = -(1 << 63)  # a size or date that is None

Decisions = npt.NDArray[np.uint8]


@dataclass
class UpdatePlan:
    """What is to be done to bring a store up to date; numbers of `kept`, `changed` and so on are of inputs."""

    shards: list[Decisions | None] = field(default_factory=list)
    kept: int = 0
    changed: int = 0
    vanished: int = 0
    added: int = 0
    redone: list[int] = field(default_factory=list)  # numbers in the source of the inputs to do again, in store order
    listed: npt.NDArray[np.bool_] | None = None  # of each input of the source whether the store has it; None: unnamed
    finished: int = 0  # inputs of the store that are not to be gone on with
    unfinished: list[int] = field(default_factory=list)  # numbers in the source of those that are

    @property
    def rewrites(self) -> bool:
        """Whether shards change."""
        return any(decisions is not None for decisions in self.shards)

    def __str__(self) -> str:
        told = [
            f"{count:,} {what}"
            for count, what in ((self.added, "new"), (self.changed, "changed"), (self.vanished, "vanished"))
            if count
        ]
        return f"{', '.join(told)} of {self.kept + self.changed + self.added:,} inputs" if told else "nothing changed"


def compare(store: Path, source: Source, shards: int, *, batch: int = 1, retry_failed: bool = False) -> UpdatePlan:
    """Compare the inputs that a store of so many shards tells of with those that the source has now.

    UsageError if that cannot be told, because inputs have no names. `batch` is that of the job.
    """
    first = next((entry for shard in range(shards) for entry in inputs.read(store, shard).entries()), None)
    now = next(iter(source.inputs()), None)
    if (first is not None and first.name is None) or (now is not None and now.name is None):
        return _by_number(store, source, shards)
    names = _Names(source.inputs())
    finished = inputs.read_header(store, shards - 1).after.input if shards else 0
    plan = _Comparison(store, names, shards, finished, retry_failed).plan(frozenset())
    if plan.rewrites and plan.unfinished:  # what was not finished is finished on the way
        plan = _Comparison(store, names, shards, finished, retry_failed).plan(frozenset(plan.unfinished))
    if batch > 1 and plan.rewrites:
        _check_rows(store, shards)
    return plan


def gathered(source: Source, numbers: Iterable[int]) -> list[Input]:
    """The inputs with these numbers, in this order."""
    wanted = list(numbers)
    found: dict[int, Input] = {}
    there = set(wanted)
    for number, one in enumerate(islice(source.inputs(), max(there, default=-1) + 1)):
        if number in there:
            found[number] = one
    return [found[number] for number in wanted]


def _by_number(store: Path, source: Source, shards: int) -> UpdatePlan:
    """Inputs without names: those that are there are taken to be the same, and more may have come behind them."""
    told = inputs.read_header(store, shards - 1) if shards else None
    known = told.after.input if told is not None else 0
    if any(entry.name is not None for shard in range(shards) for entry in inputs.read(store, shard).entries()):
        raise UsageError(
            f"{store} has inputs that are known by name, and the source has some without: this is another source; pack "
            "to a new store"
        )
    if source.count is not None and source.count < known:
        raise UsageError(
            f"{store} holds {known:,} inputs, and the source has {source.count:,} now: which ones are gone cannot be "
            f"told, since they have no names; pack to another path, or delete {store} to pack it anew"
        )
    added = 0 if source.count is None else source.count - known
    return UpdatePlan([None] * shards, kept=known, added=added, finished=known)


def _check_rows(store: Path, shards: int) -> None:
    """With batches it is known which rows are of which input only if there are as many of them."""
    for shard in range(shards):
        for entry in inputs.read(store, shard).entries():
            if entry.samples not in (1, FAILED):
                raise UsageError(
                    f"{store} was packed with a batched transform that gave other numbers of samples than it got "
                    f"(input {entry.name!r} has {entry.samples}): which ones are to be done again cannot be told; pack "
                    "to a new store"
                )


def _digest(name: str | None) -> bytes:
    return hashlib.blake2b((name or "").encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _told(value: int | None) -> int:
    return _NOT_TOLD if value is None else value


class _Names:
    """Of every input a hash of its name, its size and its date; looked up by the hash."""

    def __init__(self, listed: Iterator[Input]) -> None:
        digests, sizes, stamps = bytearray(), array("q"), array("q")
        for one in listed:
            digests += _digest(one.name)
            sizes.append(_told(one.size))
            stamps.append(_told(one.stamp))
        self.facts = np.stack([np.frombuffer(facts, np.int64) for facts in (sizes, stamps)], axis=1)
        pairs = np.frombuffer(bytes(digests), np.dtype("V16"))
        self._order = np.argsort(_comparable(pairs), kind="stable")
        self._sorted = _comparable(pairs)[self._order]
        if (self._sorted[1:] == self._sorted[:-1]).any():
            raise UsageError("two inputs of the source have one name, so it cannot be told which of them has changed")

    def __len__(self) -> int:
        return len(self._order)

    def find(self, entries: list[InputEntry]) -> npt.NDArray[np.int64]:
        """The number of the input of that name in the source, or -1."""
        wanted = _comparable(np.frombuffer(b"".join(_digest(entry.name) for entry in entries), np.dtype("V16")))
        places = np.searchsorted(self._sorted, wanted)
        found = np.full(len(entries), -1, np.int64)
        inside = places < len(self)
        inside[inside] = self._sorted[places[inside]] == wanted[inside]
        found[inside] = self._order[places[inside]]
        return found


def _comparable(digests: npt.NDArray[np.void]) -> npt.NDArray[np.bytes_]:
    """As NumPy orders them. Trailing zero bytes do not count there, which makes two of 2^128 the same: so be it."""
    return digests.view("S16")


class _Comparison:
    """One walk through the lists of a store."""

    def __init__(self, store: Path, names: _Names, shards: int, finished: int, retry_failed: bool) -> None:
        self._store = store
        self._names = names
        self._shards = shards
        self._finished = finished
        self._retry_failed = retry_failed
        self._first_met = bytearray([_NEVER]) * len(names)  # the decision on each input
        self._plan = UpdatePlan(finished=finished)
        self._number = 0  # of inputs before
        self._last: str | None = None

    def plan(self, forced: frozenset[int]) -> UpdatePlan:
        """What is to be done; inputs with these numbers in the source are done again in any case."""
        plan = self._plan
        for shard in range(self._shards):
            entries = list(inputs.read(self._store, shard).entries())
            decisions = np.fromiter(self._decide(entries, forced), np.uint8, len(entries))
            plan.shards.append(decisions if decisions.any() else None)
        plan.listed = np.frombuffer(self._first_met, np.uint8) != _NEVER
        plan.added = len(self._names) - int(plan.listed.sum())
        if forced:
            plan.finished = plan.kept + plan.changed
            plan.unfinished = []
        return plan

    def _decide(self, entries: list[InputEntry], forced: frozenset[int]) -> Iterable[int]:
        found = self._names.find(entries)
        told = np.array([(_told(entry.size), _told(entry.stamp)) for entry in entries], np.int64).reshape(-1, 2)
        same = (self._names.facts[found] == told).all(axis=1) if len(self._names) else np.zeros(len(entries), np.bool_)
        decisions = []
        for entry, number, as_it_was in zip(entries, found.tolist(), same.tolist(), strict=True):
            goes_on = entry.name == self._last
            self._last = entry.name
            if not goes_on:
                self._number += 1
            redo = not as_it_was or number in forced or (self._retry_failed and entry.samples == FAILED)
            decisions.append(self._decision(number, goes_on, redo, as_it_was))
        return decisions

    def _decision(self, number: int, goes_on: bool, redo: bool, as_it_was: bool) -> int:
        plan = self._plan
        if number < 0:
            plan.vanished += not goes_on
            return DROP
        before = self._first_met[number]
        if before != _NEVER:
            return KEEP if before == KEEP else MOVED
        self._first_met[number] = REDO if redo else KEEP
        if redo:
            plan.redone.append(number)
            plan.changed += not as_it_was
            plan.kept += as_it_was
        else:
            plan.kept += 1
            if self._number > self._finished:
                plan.unfinished.append(number)
        return REDO if redo else KEEP
