"""The parts of one job: whether they are all there, in their order, and the job that they make together.

job = united([(path, jobfile.read(path)) for path in paths])       # None: they are not parts
"""

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path

from cordwood.common.saferepr import brief
from cordwood.errors import UsageError
from cordwood.packing.journal.inputs import Totals
from cordwood.packing.journal.job_file import JobFile
from cordwood.packing.transform.identity import difference

_OTHERWISE = "to read any stores as one without merging them there is cw.concat"
_SHOWN = 10


def refuse_unfinished(path: Path, job: JobFile | None) -> None:
    """UsageError if a job is not finished."""
    if job is not None and not job.complete:
        raise UsageError(f"{path} is not packed to its end: run the same `cordwood pack` again, which goes on, first")


def united(found: Sequence[tuple[Path, JobFile | None]]) -> JobFile | None:
    """The whole job, if these stores are all of its parts; None if they have nothing to do with parts.

    UsageError if some are parts, but not all of one job, each once and in their order.
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
    _check_order([(path, job.part or (0, 0)) for path, job in jobs])
    totals = Totals()
    for _, job in jobs:
        add_totals(totals, job.totals)
    return replace(jobs[0][1], part=None, totals=totals)


def add_totals(totals: Totals, more: Totals | None) -> None:
    """Count what another job did, too."""
    for name in (field.name for field in fields(Totals)) if more is not None else ():
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


def _check_order(parts: Sequence[tuple[Path, tuple[int, int]]]) -> None:
    count = parts[0][1][1]
    numbers = [part for _, (part, _) in parts]
    for number, (path, (part, _)) in enumerate(parts):
        if part in numbers[:number]:
            raise UsageError(f"{parts[numbers.index(part)][0]} and {path} are both part {part} of {count}: name one")
    missing = sorted(set(range(1, count + 1)) - set(numbers)) if count <= 1 << 20 else []
    if missing or len(numbers) != count:
        shown = ", ".join(map(str, missing[:_SHOWN])) + (", ..." if len(missing) > _SHOWN else "")
        raise UsageError(
            f"{len(numbers)} of {count} parts are here, missing: {shown}. Pack them with --part {(missing or [1])[0]}/"
            f"{count} and so on, and merge all; {_OTHERWISE}"
        )
    if numbers != sorted(numbers):
        right = " ".join(str(path) for _, path in sorted((part, path) for path, (part, _) in parts))
        raise UsageError(f"the parts are not in their order; the samples are in the order of one run with: {right}")
