"""One thread, or worker process, to as many as there are cores: photographs as uint8 in shuffled epochs."""

import copy
from typing import Any

from benchmarks.data.samples import photographs
from benchmarks.data.tensors import scratch
from benchmarks.feed.ours import Fed, as_bytes
from benchmarks.harness.outcome import Chart, Outcome, Settings
from benchmarks.scaling.curves import Curves, cores, fastest_ways, rates, samples_a_second
from benchmarks.scaling.limits import MEMORY, SOURCE, memory_copy
from benchmarks.store.contest import Contest, Packer
from benchmarks.store.rivals.entrants import FFCV_ARRAYS, FILES, LITDATA, WEBDATASET, ZIPPED, Rival, installed
from benchmarks.store.rivals.ffcv import FfcvDefault
from cordwood.codecs import Goal

TITLE = "Threads"
KEYS: tuple[str, ...] = ()
BATCH = 64
LEAST = 4096  # samples of an epoch of ours and of FFCV's, so that its beginning is little against it
GOALS: tuple[Goal, ...] = ("raw", "balanced")
RIVALS: tuple[Rival, ...] = (FFCV_ARRAYS, LITDATA, WEBDATASET, FILES, ZIPPED)


def measure(settings: Settings) -> Outcome:
    """One table; those whose threads cannot be told are not in it."""
    places = thread_counts(cores())
    samples = as_bytes(photographs(settings))
    nbytes = samples.rows[0].nbytes
    rivals, missing = installed(RIVALS)
    curves = Curves()
    least = len(samples) if settings.quick else LEAST
    for place, threads in enumerate(places):
        with scratch(settings) as folder:
            contest = Contest(folder, BATCH)
            told: list[Packer] = [Fed(goal, options={"threads": threads}, least=least) for goal in GOALS]
            told += [with_workers(rival, threads, least) for rival in rivals]
            for contender in told:
                contest.enter(contender, samples)
            contest.check(samples)
            ways = fastest_ways(contest)
            copied = memory_copy(threads, nbytes * len(samples) if settings.quick else SOURCE)
            found = rates(settings, ways, [copied], unit=nbytes)
            names = {f"ours, {goal}, threads={threads}": f"ours, {goal}" for goal in GOALS}
            found = {names.get(name, name): each for name, each in found.items()}
            curves.add(place, samples_a_second(found, nbytes))
    chart = Chart("threads", "threads or worker processes", "samples a second", [float(n) for n in places], [MEMORY])
    title = f"Threads up to the number of cores, photographs as uint8, batches of {BATCH}: samples a second"
    table = curves.table(title, chart, [str(n) for n in places], "bytes")
    table.notes += [
        "The thread that asks for batches is not counted: it only waits. FFCV has threads, and is given the pixels as "
        "arrays; LitData, WebDataset and the stock DataLoader of the .pt files have worker processes.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    return Outcome([table])


def thread_counts(most: int) -> list[int]:
    """1, 2, 4 ... and as many as there are."""
    doubled = [1 << power for power in range(most.bit_length())]
    return sorted({*doubled, most})


def with_workers(rival: Rival, threads: int, least: int) -> Packer:
    """The same rival, told how many."""
    if rival is FFCV_ARRAYS:
        return FfcvDefault(threads, least)
    told: Any = copy.copy(rival)
    told.workers = (threads,)
    packer: Packer = told
    return packer
