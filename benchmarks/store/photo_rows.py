"""Photographs: bytes a sample, and random batches of 64 that arrive as normalised float32."""

from benchmarks.data.samples import photographs
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Spread, ratio
from benchmarks.store.contest import Contest, Packer
from benchmarks.store.ours import Ours
from benchmarks.store.rivals.entrants import FEW, FFCV, FILES, FOR_PHOTOGRAPHS, ZIPPED, installed
from cordwood.codecs import Goal

TITLE = "Photographs in a store"
KEYS = ("store-size-ffcv", "store-size-pt", "store-batch-ffcv")
BATCH = 64
GOALS: tuple[Goal, ...] = ("small", "balanced", "fast", "raw")


def measure(settings: Settings) -> Outcome:
    """One table of sizes and one of speeds, of the same files."""
    samples = photographs(settings)
    rivals, missing = installed(FOR_PHOTOGRAPHS)
    sizes: dict[str, float] = {}
    with scratch(settings) as folder:
        contest = Contest(folder, BATCH)
        contenders: list[Packer] = [*map(Ours, GOALS), *rivals]
        for contender in contenders:
            contest.enter(contender, samples.first(FEW) if contender is ZIPPED else samples)
            sizes[contender.name] = contest.sizes[contest.ways[contender.name][0]]
        if FFCV in rivals:
            sizes[FFCV.name] = FFCV.bytes_of_many(samples, folder)
        contest.check(samples)
        times = contest.take_turns(settings)
    best = contest.best(times, FFCV.name) if FFCV in rivals else None
    table = speeds(times, best)
    table.notes += [f"Not measured: {line}" for line in missing.values()]
    measured = {"store-size-pt": Spread.exact(sizes[FILES.name] / sizes["ours, balanced"])}
    reasons = {}
    if best:
        measured["store-size-ffcv"] = Spread.exact(sizes["ours, balanced"] / sizes[FFCV.name])
        measured["store-batch-ffcv"] = ratio(best, times["ours, balanced"])
    else:
        reasons = dict.fromkeys(("store-size-ffcv", "store-batch-ffcv"), missing[FFCV.name])
    return Outcome([table_of_sizes(sizes, len(samples)), table], measured, reasons)


def table_of_sizes(sizes: dict[str, float], count: int) -> Table:
    table = Table(
        f"A store of {count:,} photographs, 3x224x224: bytes a sample",
        [("kept by", "text"), ("bytes a sample", "bytes"), ("of FFCV raw", "ratio"), (".pt is larger by", "ratio")],
    )  # fmt: skip
    for name, size in sizes.items():
        of_ffcv = size / sizes[FFCV.name] if FFCV.name in sizes else None
        table.add(name, size, of_ffcv, sizes[FILES.name] / size)
    table.notes.append(
        "All files of each, indexes included. FFCV keeps uint8, without the normalisation; everybody else keeps "
        "normalised float32 and gives it back bit for bit. FFCV's figure is that of "
        "many more samples: it writes pages of 8 MiB, and of a few the last ones are mostly empty."
    )
    return table


def speeds(times: dict[str, list[float]], rival: list[float] | None) -> Table:
    table = Table(
        f"Random batches of {BATCH} photographs as float32, two threads or processes, from the page cache",
        [("way", "text"), ("ms a sample", "ms"), ("samples a second", "bytes"), ("speed, of FFCV's best", "ratio")],
    )
    for name, seconds in times.items():
        rates = Spread.of([1 / second for second in seconds])
        table.add(name, Spread.of(seconds), rates, ratio(rival, seconds) if rival else None)
    table.notes += [
        "Ours is `ds[[...]]`, channels first and contiguous, every frame's checksum verified; of the others, only "
        "those of the zipped .pt are. A batch of FFCV's is memory that it uses again a few batches later; ours is the "
        "caller's for good.",
        "The rival is the fastest of FFCV's rows in each round. Its channels-last rows give the same numbers in "
        "another order in memory.",
        f"{ZIPPED.name}: {FEW} photographs at most.",
    ]
    return table
