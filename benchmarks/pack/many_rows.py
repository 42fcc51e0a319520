"""A million tiny samples: what `pack` holds meanwhile, and how soon it writes again after it was killed at 90%."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import MismatchError, Spread
from benchmarks.pack.data import counts
from benchmarks.pack.process import Job, Look, Run

TITLE = "A million tiny samples"
KEYS = ("pack-memory", "pack-resume")
WORKERS = 2
MAY_GROW = 16 << 20  # of three processes together: 16 bytes a sample would not fit
MAY_TAKE = 5.0  # seconds
RESUMES = 5


def measure(settings: Settings) -> Outcome:
    """An uninterrupted run that is watched, one that is killed, and some that resume it."""
    samples = counts(settings).tiny
    with scratch(settings) as folder:
        whole = Job(str(folder / "whole.cordwood"), str(folder / "counter"), samples, WORKERS)
        looks = watched_to_the_end(whole)
        broken = Job(str(folder / "broken.cordwood"), str(folder / "counter"), samples, WORKERS)
        run = Run.start(broken)
        run.watched(until=samples * 9 // 10)
        run.kill()
        seconds = [resumed(broken, folder / f"again{number}") for number in range(2 if settings.quick else RESUMES)]
        watched_to_the_end(broken)
        if files_of(Path(broken.store)) != files_of(Path(whole.store)):
            raise MismatchError("a run that was killed and resumed left other bytes than one that was not")
    early = early_look(looks, samples)
    most = max(look.own for look in looks if look.samples >= early.samples)
    memory = Table(
        f"Packing {samples:,} samples of two numbers, two workers: bytes that all three processes hold",
        [("after a tenth", "bytes"), ("at most later", "bytes"), ("at the end", "bytes"), ("growth", "bytes")],
    )
    memory.add(early.own, most, looks[-1].own, most - early.own)
    memory.notes.append(
        "Held is memory that no file stands behind. Growth is the most that was held after the first tenth beyond what "
        "was held then; the goal allows 16 MiB, for all processes together."
    )
    again = Table(
        f"Killed after {samples * 9 // 10:,} of {samples:,} samples, and resumed",
        [("what", "text"), ("seconds", "seconds")],
    )
    again.add("from the call of cw.pack to the first new bytes in the store", Spread.of(seconds))
    again.notes.append(
        "All processes are killed at once. Each resume is that of a new process, which starts its workers in that "
        "time, on a copy of what was left; then the job is ended, and the store compared with that of a run that was "
        "not interrupted: they are the same, byte for byte. The goal allows five seconds."
    )
    return Outcome(
        [memory, again],
        {
            "pack-memory": Spread.exact((most - early.own) / MAY_GROW),
            "pack-resume": Spread.of([second / MAY_TAKE for second in seconds]),
        },
    )


def watched_to_the_end(job: Job) -> list[Look]:
    run = Run.start(job)
    looks = run.watched(until=job.samples + 1)
    if run.finish():
        raise MismatchError("the process that was to pack did not come to its end")
    return looks


def early_look(looks: Sequence[Look], samples: int) -> Look:
    """The first one after a tenth of the samples."""
    return next((look for look in looks if look.samples >= samples // 10), looks[-1])


def resumed(job: Job, copy: Path) -> float:
    """Seconds until something new is written to a copy of the store; then it is killed again."""
    shutil.copytree(job.store, copy)
    run = Run.start(Job(str(copy), job.counter, job.samples, job.workers))
    try:
        return run.first_written()
    finally:
        run.kill()


def files_of(store: Path) -> dict[str, bytes]:
    """Everything in a store."""
    return {str(file.relative_to(store)): file.read_bytes() for file in store.rglob("*") if file.is_file()}
