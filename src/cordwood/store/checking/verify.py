"""``cw.verify``: reads every byte of a store and reports what is damaged."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cordwood.common.html import Printed
from cordwood.common.tables import folded, section, terminal_width
from cordwood.common.text import counted, human, printable
from cordwood.errors import CordwoodError
from cordwood.store.checking.damage import Damage, ranges
from cordwood.store.checking.shard_check import ShardChecker, ShardFindings
from cordwood.store.checking.survey import StoreSurvey, take_survey
from cordwood.store.format import shard_index
from cordwood.store.format.folder import store_bytes
from cordwood.store.reading.reader import Reader
from cordwood.store.writing.options import checked_threads

Progress = Callable[[int, int], None]  # bytes that are done, and all


@dataclass(repr=False)
class Verification(Printed):
    """What `verify` found.

    ::

        result = cw.verify("train.cordwood")
        if not result.ok:
            print(result)
            print(result.lost)          # [(901, 901), (4096, 4177)]: samples from, to

    `size` counts the bytes of all files of the store. `damages` are all that was found. `lost` are the samples that
    cannot be had any more, as runs, both ends included; a sample that only cannot be read because its shard's ends or
    the manifest are damaged is not among them: `salvage` brings it back. `notes` tell of what is unusual, but no
    damage; `unfinished` is what there is to say of a store whose packing has not come to its end: it may be good, and
    lacks samples.
    """

    path: str
    samples: int
    shards: int
    size: int
    damages: list[Damage] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unfinished: str | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damages

    @property
    def lost_count(self) -> int:
        """How many samples are lost."""
        return sum(last - first + 1 for first, last in self.lost)

    @property
    def has_good(self) -> bool:
        """Whether there is a sample that `salvage` can save."""
        return self.lost_count < self.samples

    def __str__(self) -> str:
        return self.text()

    def text(self, *, most: int | None = 20, width: int | None = None) -> str:
        """What `print` shows; `most=None` lists all damage, however long that gets."""
        good = "all good" if self.unfinished is None else "good so far, but not finished"
        verdict = good if self.ok else f"{len(self.damages)} damaged piece{'s' * (len(self.damages) != 1)}"
        lines = [
            f"{printable(self.path)}: store, {counted(self.samples, 'sample')} in {counted(self.shards, 'shard')}, "
            f"{human(self.size)}: "
            f"{verdict}"
        ]
        limit = 10**12 if most is None else most
        for title, items in (
            ("damaged", [str(damage) for damage in self.damages]),
            ("lost", [self._loss()] if self.damages else []),
            ("note", [*self.notes, *([] if self.unfinished is None else [self.unfinished])]),
        ):
            found = list(section(title, items, width or terminal_width(), limit))
            if found:
                lines += ["", *found]
        return folded(lines)

    def _loss(self) -> str:
        if not self.lost:
            return "no sample"
        return f"{self.lost_count:,} of {self.samples:,} samples: {runs_text(self.lost)}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "path": self.path,
            "ok": self.ok,
            "samples": self.samples,
            "shards": self.shards,
            "size": self.size,
            "damages": [damage.to_dict() for damage in self.damages],
            "lost": [list(run) for run in self.lost],
            "lost_count": self.lost_count,
            "notes": self.notes,
            "unfinished": self.unfinished,
        }


def runs_text(runs: list[tuple[int, int]], most: int = 20) -> str:
    """Runs of samples in words."""
    shown = ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in runs[:most])
    return f"{shown} and {len(runs) - most} more runs" if len(runs) > most else shown


def verify(
    path: str | os.PathLike[str], *, progress: Progress | None = None, threads: int | None = None
) -> Verification:
    """Check everything in a store: the manifest, the index, the plans, and every byte of every shard.

    ::

        result = cw.verify("train.cordwood")
        assert result.ok, str(result)

    Every frame is decoded. Damage does not stop it, and is never an exception; a folder that is no store is a
    UsageError. Nothing is written. `progress` is called with the bytes of shards that are done and those there are.
    """
    return look_through(take_survey(path), progress=progress, threads=checked_threads(threads))


def _reader(survey: StoreSurvey, threads: int | None) -> Reader | None:
    """What reads the store, if it can be opened as it is."""
    try:
        return Reader([survey.path], threads=threads) if not survey.damages.found else None
    except CordwoodError:
        return None


def look_through(
    survey: StoreSurvey,
    *,
    progress: Progress | None = None,
    threads: int | None = None,
    each: Callable[[ShardFindings], None] | None = None,
) -> Verification:
    """Check all shards of a store; `each` is called with what was found in one after the other."""
    found = Verification(
        str(survey.path),
        survey.samples,
        len(survey.records),
        store_bytes(survey.path),
        notes=survey.notes,
        unfinished=survey.unfinished,
    )
    found.damages += survey.damages.found
    schema = survey.manifest.schema if survey.manifest is not None else None
    if schema is None:
        if survey.samples:
            found.lost = [(0, survey.samples - 1)]
        _miss_packed(found, survey)
        return found
    checker = ShardChecker(schema, survey.plans, threads, _reader(survey, threads))
    done = 0

    def step(nbytes: int) -> None:
        nonlocal done
        done += nbytes
        if progress is not None:
            progress(min(done, survey.size), survey.size)

    lost: list[int] = []
    for shard, record in zip(survey.shards, survey.records, strict=True):
        before = done
        placed = record.copy()
        placed["first"] += found.samples - survey.samples  # of shards that only turn out now to hold some
        findings = checker.check(shard, placed, step)
        found.samples += findings.count - int(record["count"])
        if shard.is_file():
            step(before + shard.stat().st_size - done)
        found.damages += findings.damages.found
        lost += findings.lost
        if each is not None:
            each(findings)
    found.lost = ranges(lost)
    _miss_packed(found, survey)
    return found


def _miss_packed(found: Verification, survey: StoreSurvey) -> None:
    """Where the last shards are gone, and what the index said of them, the packing job still counts their samples."""
    if found.samples < survey.packed:
        missing = found.samples, survey.packed - 1
        what = f"{counted(survey.packed, 'sample')} were packed, but the index and the shards have {found.samples:,}"
        found.damages.append(Damage(shard_index.NAME, what, *missing))
        found.lost.append(missing)
        found.samples = survey.packed
