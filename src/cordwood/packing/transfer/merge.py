"""`merge`: several stores as one, without writing their samples again.

Shards are made to be moved: each has its own index, and names the plans of its frames. So a merged store has links to
the shards of the others, or copies where the file system has no links, all of their plans, and an index of its own. It
is made in a temporary folder and renamed at the end. Stores that are parts of one job must be all of its parts, and are
joined in the order of the parts; the merged store has the job that they make together.
"""

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from cordwood.common.html import Printed
from cordwood.common.tables import folded
from cordwood.common.text import brief
from cordwood.errors import FormatError, StorageError, UsageError
from cordwood.packing.journal import inputs, job_file
from cordwood.packing.journal.inputs import InputEntry, InputsHeader, Lines, Position, Totals
from cordwood.packing.journal.job_file import JobFile
from cordwood.packing.transform.identity import difference
from cordwood.store import Schema, check_is_store, check_meanings, described, index_of, store_bytes
from cordwood.store.format import manifest, plan_files, shard_index
from cordwood.store.format.lock import WriterLock
from cordwood.store.format.new_folder import beside
from cordwood.store.format.shard_file import shard_name
from cordwood.store.writing.shard_copy import NewStore

_OTHERWISE = "to read any stores as one without merging them there is cw.concat"
_MISSING_SHOWN = 10


def united(found: Sequence[tuple[Path, JobFile | None]]) -> JobFile | None:
    """The whole job, if these stores are all of its parts; None if they have nothing to do with parts.

    UsageError if some are parts, but not all of one job, each once.
    """
    jobs = [(path, job) for path, job in found if job is not None and job.part is not None]
    if not jobs:
        return None
    if len(jobs) < len(found):
        other = next(path for path, job in found if job is None or job.part is None)
        raise UsageError(
            f"{jobs[0][0]} is a part of a job, and {other} is none: merge the parts of the job first, and the result "
            "with others"
        )
    for path, job in jobs[1:]:
        _check_one_job(jobs[0], (path, job))
    _check_complete([(path, job.part or (0, 0)) for path, job in jobs])
    totals = Totals()
    for _, job in jobs:
        add_totals(totals, job.totals)
    return replace(jobs[0][1], part=None, totals=totals)


def add_totals(totals: Totals, more: Totals | None) -> None:
    """Count what another job did, too."""
    for name in (total.name for total in fields(Totals)) if more is not None else ():
        setattr(totals, name, getattr(totals, name) + getattr(more, name))


def _check_one_job(one: tuple[Path, JobFile], other: tuple[Path, JobFile]) -> None:
    """The folder of the source may have another path on another machine; everything else must be the same."""
    (first, job), (path, more) = one, other
    why = None
    if job.part is not None and more.part is not None and job.part[1] != more.part[1]:
        why = f"one is of {job.part[1]} parts, the other of {more.part[1]}"
    for what, here, there in (("source", job.source, more.source), ("options", job.options, more.options)):
        differing = [key for key in dict.fromkeys([*here, *there]) if here.get(key) != there.get(key) and key != "path"]
        if differing:
            key = differing[0]
            why = why or f"the {what}'s {key} is {brief(here.get(key))} of one, {brief(there.get(key))} of the other"
    if job.fingerprint != more.fingerprint:
        why = why or "their lists of inputs differ: files were added, removed or changed between them"
    why = why or difference(job.transform, more.transform)
    if why is not None:
        raise UsageError(f"{first} and {path} are not parts of one job: {why}; {_OTHERWISE}")


def _check_complete(parts: Sequence[tuple[Path, tuple[int, int]]]) -> None:
    count = parts[0][1][1]
    numbers = [part for _, (part, _) in parts]
    for number, (path, (part, _)) in enumerate(parts):
        if part in numbers[:number]:
            raise UsageError(f"{parts[numbers.index(part)][0]} and {path} are both part {part} of {count}: name one")
    missing = sorted(set(range(1, count + 1)) - set(numbers)) if count <= 1 << 20 else []
    if missing or len(numbers) != count:
        shown = ", ".join(map(str, missing[:_MISSING_SHOWN])) + (", ..." if len(missing) > _MISSING_SHOWN else "")
        raise UsageError(
            f"{len(numbers)} of {count} parts are here, missing: {shown}. Pack them with --part {(missing or [1])[0]}/"
            f"{count} and so on, and merge all; {_OTHERWISE}"
        )


Progress = Callable[[int, int], None]  # shards that are done, and all
_SHOWN = 5


@dataclass(repr=False)
class Merged(Printed):
    """What a merged store is made of.

    ::

        result = cw.merge(["a.cordwood", "b.cordwood"], "all.cordwood")
        print(result.samples, result.linked, result.copied)

    `bytes` is the size of the new store. `linked` shards are shared with the stores they came from, and take no room of
    their own; `copied` ones do.
    """

    path: str
    stores: list[str]
    samples: int = 0
    shards: int = 0
    bytes: int = 0
    linked: int = 0
    copied: int = 0
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shards = f"{self.shards:,} {'shard' if self.shards == 1 else 'shards'}"
        how = "linked, not copied" if not self.copied else f"{self.linked:,} linked, {self.copied:,} copied"
        what = f"{self.samples:,} samples of {len(self.stores)} stores in {shards}"
        return folded([f"{self.path}: {what} ({how}), {self.bytes:,} bytes", *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return dict(vars(self))


@dataclass
class _Part:
    """One of the stores, as far as it is known without its shards."""

    path: Path
    manifest: manifest.Manifest
    records: shard_index.Records
    job: JobFile | None
    is_listed: bool  # whether it tells the inputs of its shards

    @property
    def samples(self) -> int:
        return int(self.records["count"].sum())

    @property
    def number(self) -> int:
        """Which part of its job it is; 0 if it is none."""
        return 0 if self.job is None or self.job.part is None else self.job.part[0]


def merge(
    stores: Sequence[str | os.PathLike[str]], out: str | os.PathLike[str], *, progress: Progress | None = None
) -> Merged:
    """Join stores into a new one, the samples of the first before those of the second; parts of a job in their order.

    ::

        cw.merge(["a.cordwood", "b.cordwood"], "all.cordwood")

    No sample is read or written again: the shards are linked, or copied where the new store is on another file system.
    All must have the same fields and classes. Parts of one job (``cw.pack(..., part="3/16")``) must be all of them, and
    may be named in any order: the result is what one run would have packed, and can be updated as such. The stores
    themselves stay as they are.
    """
    if isinstance(stores, str | os.PathLike) or not stores:
        raise UsageError("merge takes a list of stores: cw.merge(['a.cordwood', 'b.cordwood'], 'all.cordwood')")
    paths = [Path(path) for path in stores]
    target = Path(out)
    _check_paths(paths, target)
    with ExitStack() as locks:
        parts = sorted((locks.enter_context(_opened(path)) for path in paths), key=lambda part: part.number)
        _check_alike(parts)
        job = united([(part.path, part.job) for part in parts])
        if job is not None:
            _check_packed(parts)
        with beside(target) as folder:
            merger = _Merger(folder, parts, Merged(str(target), [str(part.path) for part in parts]))
            merger.run(progress)
            if job is not None:
                job_file.write(folder, job)
            elif merger.listed:
                merger.merged.notes.append("it is made of several jobs, so it cannot be brought up to date by one")
    merger.merged.bytes = store_bytes(target)
    return merger.merged


def _check_paths(paths: Sequence[Path], target: Path) -> None:
    if target.exists() or target.is_symlink():
        raise UsageError(f"{target} exists already: merge makes a new store, name another folder")
    for number, path in enumerate(paths):
        check_is_store(path)
        if path.resolve() in target.resolve().parents:
            raise UsageError(f"{target} is inside of {path}, which is left as it is: name another folder")
        for before in paths[:number]:
            if before.samefile(path):
                raise UsageError(f"{path} is named twice: every store is joined once")


@contextmanager
def _opened(path: Path) -> Iterator[_Part]:
    """A store that nobody writes to meanwhile."""
    lock = None
    try:
        lock = WriterLock(path)
    except StorageError as error:
        # Nobody writes to a store that may only be read; but one that a writer has is not finished.
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
    try:
        job = job_file.read(path)
        if job is not None and not job.complete:
            raise UsageError(f"{path} is not packed to its end: run the same `cordwood pack` again, which resumes")
        stored = manifest.read(path)
        records = index_of(path, stored.schema).records
        listed = all(inputs.path_of(path, shard).exists() for shard in range(len(records)))
        yield _Part(path, stored, records, job, listed)
    finally:
        if lock is not None:
            lock.release()


def _check_alike(parts: Sequence[_Part]) -> None:
    """Whether all of the stores have the same fields; UsageError names those that differ."""
    there = [part for part in parts if part.manifest.schema is not None]
    if not there:
        raise UsageError(f"{', '.join(str(part.path) for part in parts)}: there are no samples to merge")
    one = there[0].manifest.schema
    for part in there[1:]:
        other = part.manifest.schema
        if one is not None and other is not None and one.hash != other.hash:
            raise UsageError(
                f"{there[0].path} and {part.path} hold different samples, and cannot be merged without writing them "
                f"again: {_differences(one, other)}"
            )
    check_meanings([part.path for part in there], [part.manifest for part in there])


def _check_packed(parts: Sequence[_Part]) -> None:
    """Whether parts of a job hold what was packed, and nothing else."""
    for part in parts:
        packed = part.job.totals.samples if part.job is not None and part.job.totals is not None else None
        if packed != part.samples or not part.is_listed:
            raise UsageError(
                f"{part.path} was packed with {packed} samples and has {part.samples}, or does not tell their inputs: "
                "somebody else has written to it; pack this part again"
            )


def _differences(one: Schema, other: Schema) -> str:
    here, there = ({leaf.name: described(leaf) for leaf in schema.leaves} for schema in (one, other))
    told = [
        f"field {name!r} is {here.get(name, 'not there')} in the first, {there.get(name, 'not there')} in the other"
        for name in dict.fromkeys([*here, *there])
        if here.get(name) != there.get(name)
    ]
    if not told:
        return "the same fields lie in another structure or order"
    return "; ".join(told[:_SHOWN]) + (f"; {len(told) - _SHOWN} more" if len(told) > _SHOWN else "")


def _manifest(found: Sequence[manifest.Manifest]) -> manifest.Manifest:
    """That of the first store; samples may lack what those of any store may lack."""
    names = {name for one in found for name in one.optional}
    places = found[0].schema.places if found[0].schema is not None else ()
    return replace(found[0], optional=tuple(place.name for place in places if place.name in names))


class _Merger:
    """The new store, and what was put into it so far."""

    def __init__(self, folder: Path, parts: Sequence[_Part], merged: Merged) -> None:
        self.merged = merged
        self.listed = any(part.is_listed and len(part.records) for part in parts)
        self._folder = folder
        self._parts = parts
        self._new = NewStore(folder, _manifest([part.manifest for part in parts if part.manifest.schema is not None]))
        self._totals = Totals()  # of the stores before
        self._last = Totals()  # up to the last shard, of its store alone
        self._position = Position()
        self._shift = 0

    def run(self, progress: Progress | None) -> None:
        """Put everything into the folder, durably."""
        all_shards = sum(len(part.records) for part in self._parts)
        for part in self._parts:
            self._take_plans(part)
            for shard in range(len(part.records)):
                self._take_shard(part, shard)
                if progress is not None:
                    progress(self.merged.shards, all_shards)
            self._count(part)
        self._new.finish()

    def _take_plans(self, part: _Part) -> None:
        names = dict.fromkeys([*part.manifest.plan_names, *plan_files.found(part.path)])
        for name in names:
            plan_files.load(part.path, name)  # a damaged plan would stay unnoticed until a frame needs it
        self._new.take_plans(part.path, names)

    def _take_shard(self, part: _Part, shard: int) -> None:
        number, path = self.merged.shards, part.path / shard_name(shard)
        ends, linked = self._new.take_shard(path)
        self.merged.linked += linked
        self.merged.copied += not linked
        shard_index.check_record(str(path), part.records[shard], ends)
        if self.listed:
            self._take_inputs(part, shard, number)
        self.merged.shards, self.merged.samples = self._new.shards, self._new.samples

    def _take_inputs(self, part: _Part, shard: int, number: int) -> None:
        """The list of a shard's inputs, as that of a shard of one job."""
        count = int(part.records["count"][shard])
        if part.is_listed:
            told = inputs.read(part.path, shard)
            header, lines = InputsHeader(told.first, told.after, told.totals), told.lines
            found = sum(entry.inputs * max(entry.samples, 0) for entry in told.entries())
            if found != count:
                raise FormatError(
                    f"{inputs.path_of(part.path, shard)}: its inputs have {found} samples, but the shard has "
                    f"{count}: it is the list of another shard; restore it from a copy"
                )
        else:  # nothing is known of its inputs: each sample is taken for one
            before = int(part.records["first"][shard])
            totals = Totals(inputs=before + count, samples=before + count)
            header = InputsHeader(Position(before), Position(before + count), totals)
            some = Lines()
            some.add(InputEntry(None, None, None, 1, inputs=count))
            lines = some.text()
        if shard == 0:
            # The inputs of a part have the numbers that they have in the whole source already.
            numbered = part.job is not None and part.job.part is not None
            self._shift = 0 if numbered else self._position.input - header.first.input
        first, after = (Position(place.input + self._shift, place.samples) for place in header[:2])
        totals = replace(header.totals)
        add_totals(totals, self._totals)
        inputs.write(self._folder, number, first, after, totals, lines)
        self._position = after
        self._last = header.totals

    def _count(self, part: _Part) -> None:
        """What the next store's totals begin with."""
        if self.listed and part.job is not None and part.job.totals is not None:
            add_totals(self._totals, part.job.totals)
        elif self.listed and len(part.records):
            add_totals(self._totals, self._last)
