"""Turns of loaders: seconds a sample, processor seconds with those of worker processes, bytes from the disk.

turns = take_turns(settings, contest.epochs)
turns.seconds["ours, balanced"], turns.cpu["ours, balanced"]       # round by round, pass by pass
"""

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.data.samples import Epoch
from benchmarks.data.tensors import read_from_disk
from benchmarks.harness.outcome import Kind, Settings, Table
from benchmarks.harness.timing import Contender, Spread, UnavailableError, interleave, ratio
from benchmarks.store.contest import rounds

WARM_UPS = 2  # passes that `interleave` makes before it counts


@dataclass(frozen=True)
class Turns:
    """What a sample took, by the name of the way to load: seconds of the clock, of all cores, bytes of the disk."""

    seconds: dict[str, list[float]]
    cpu: dict[str, list[float]]
    read: dict[str, list[float]]

    def table(self, title: str, sizes: Mapping[str, float], ours: Sequence[str]) -> Table:
        """A row for every way to load, with the speed of ours beside it."""
        columns: list[tuple[str, Kind]] = [
            ("way", "text"),
            ("bytes a sample", "bytes"),
            ("samples a second", "bytes"),
            ("CPU ms a sample", "digits-ms"),
            ("samples a second of one core", "bytes"),
            *((f"{name}: speed, of this", "ratio") for name in ours),
        ]
        table = Table(title, columns)
        for name, seconds in self.seconds.items():
            cpu = self.cpu[name]
            speeds = [ratio(seconds, self.seconds[one]) for one in ours]
            table.add(name, sizes[name], rates(seconds), Spread.of(cpu), rates(cpu), *speeds)
        return table


def rates(seconds: Sequence[float]) -> Spread:
    """Samples a second."""
    return Spread.of([1 / second for second in seconds])


@dataclass
class Metered:
    """Runs an epoch, and notes after every pass what it took of the processors and of the disk."""

    epoch: Epoch
    cpu: list[float] = field(default_factory=list)
    read: list[float] = field(default_factory=list)

    def run(self) -> None:
        read, cpu = read_from_disk(), cpu_seconds()
        self.epoch.run()
        self.cpu.append((cpu_seconds() - cpu) / self.epoch.count)
        self.read.append((read_from_disk() - read) / self.epoch.count)


def take_turns(settings: Settings, epochs: Sequence[Epoch], before: Callable[[], object] | None = None) -> Turns:
    """All ways to load, in turns of one pass or more; of one if there is something to do before it, off the clock."""
    metered = {epoch.name: Metered(epoch) for epoch in epochs}
    contenders = [Contender(name, one.run, one.epoch.count, before) for name, one in metered.items()]
    seconds = interleave(contenders, rounds(settings), least_seconds=0 if before else settings.least_seconds)
    cpu = {name: one.cpu[WARM_UPS:] for name, one in metered.items()}
    return Turns(seconds, cpu, {name: one.read[WARM_UPS:] for name, one in metered.items()})


def cpu_seconds() -> float:
    """What this process has used of all cores so far, with its children: those that ended and those that live."""
    if sys.platform != "linux":
        raise UnavailableError("this system does not tell what a living worker process has used")
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Worker processes are kept from epoch to epoch, and only what has ended is in the sum above. Linux has a clock for
    # each process; its number is made of the process's, by clock_getcpuclockid(3), which Python does not offer.
    living = (~child.pid << 3 | 2 for child in multiprocessing.active_children() if child.pid)
    return time.process_time() + ended.ru_utime + ended.ru_stime + sum(map(time.clock_gettime, living))
