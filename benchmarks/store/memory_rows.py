"""What a process holds while it reads a million random samples, and what opening a hundred million takes."""

from collections.abc import Sequence
from pathlib import Path

import cordwood as cw
from benchmarks.data.samples import Samples, counts, images, photographs, tokens
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import MismatchError, Spread
from benchmarks.store.contest import packed
from benchmarks.store.memory import Job, Look, watch
from benchmarks.store.ours import Ours
from cordwood.codecs import Goal
from cordwood.store.format import shard_file, shard_index

TITLE = "Memory, and a store of a hundred million samples"
KEYS = ("store-memory", "store-open-time", "store-open-memory")
LOOKS = 20
MAY_GROW = 4 << 20
ALL_SAMPLES = 100_000_000
SHARDS = 62_500  # photographs, `balanced`: 1,600 of them fill a shard
MAY_TAKE = 0.050  # seconds
MAY_HOLD = 8 << 20
OPENINGS = 7


def measure(settings: Settings) -> Outcome:
    """Both tables."""
    with scratch(settings) as folder:
        reading, growth = measure_reading(settings, folder)
        opening, measured = measure_opening(folder)
    return Outcome([reading, opening], {"store-memory": Spread.exact(growth / MAY_GROW)} | measured)


def measure_reading(settings: Settings, folder: Path) -> tuple[Table, int]:
    """The table, and the largest growth after the first tenth."""
    table = Table(
        "A process that reads random samples: what it holds, in bytes",
        [("what it reads", "text"), ("samples", "bytes"), ("before", "bytes"), ("after a tenth", "bytes"),
         ("at the end", "bytes"), ("growth", "bytes"), ("pages of files at the end", "bytes")],
    )  # fmt: skip
    amount = counts(settings)
    small, large = images(settings), photographs(settings)
    work: list[tuple[str, Samples, Goal, str, int, int]] = [
        ("3 KiB images, fast, batches of 256", small, "fast", "batches", amount.reads, 256),
        ("3 KiB images, raw, one by one", small, "raw", "singles", amount.reads, 1),
        ("512-token rows, raw, batches of 256", tokens(settings), "raw", "batches", amount.reads, 256),
        ("photographs, balanced, batches of 64", large, "balanced", "batches", amount.watched_photographs, 64),
        ("photographs, raw, one by one", large, "raw", "singles", amount.watched_photographs, 1),
    ]
    worst = 0
    for number, (what, samples, goal, action, reads, batch) in enumerate(work):
        place = folder / str(number)
        place.mkdir()
        ours = Ours(goal)
        store = ours.place(packed(ours, samples, place))
        looks = watch(Job(action, str(store), reads, batch, LOOKS))
        growth = growth_of(looks)
        worst = max(worst, growth)
        last = looks[-1]
        table.add(what, last.samples, looks[0].own, looks[LOOKS // 10].own, last.own, growth, last.mapped)
    table.notes.append(
        "Held is memory that no file stands behind. Growth is the most that was held after the first tenth of the "
        "samples beyond what was held then; the goal allows 4 MiB. Pages of files are the system's cache: it takes "
        "them back when it needs them."
    )
    return table, worst


def growth_of(looks: Sequence[Look]) -> int:
    """The most that was held after the first tenth, beyond what was held then."""
    settled = len(looks) // 10  # looks until pools and caches have what they need
    return max(look.own for look in looks[settled + 1 :]) - looks[settled].own


def measure_opening(folder: Path) -> tuple[Table, dict[str, Spread]]:
    """A store whose index tells of a hundred million samples, opened by new processes."""
    store = folder / "large.cordwood"
    write_index(store)
    openings = [watch(Job("open", str(store))) for _ in range(OPENINGS)]
    if any(after.samples != ALL_SAMPLES for _, after in openings):
        raise MismatchError(f"a store of {ALL_SAMPLES} samples was opened as one of {openings[0][1].samples}")
    seconds = [after.seconds for _, after in openings]
    own = [after.own - before.own for before, after in openings]
    mapped = [after.mapped - before.mapped for before, after in openings]
    table = Table(
        f"Opening {ALL_SAMPLES:,} samples in {SHARDS:,} shards",
        [("what", "text"), ("ms", "ms"), ("memory, bytes", "bytes"), ("pages of files, bytes", "bytes")],
    )
    table.add("cw.open", Spread.of(seconds), Spread.of(own), Spread.of(mapped))
    table.notes.append(
        "The index is the library's own, of shards as photographs fill them; only the first shard exists, as the "
        "others are looked at when they are needed. Each opening is that of a new process that has imported torch "
        "and Cordwood. The goals allow 50 ms and 8 MiB."
    )
    return table, {
        "store-open-time": Spread.of([second / MAY_TAKE for second in seconds]),
        "store-open-memory": Spread.of([held / MAY_HOLD for held in own]),
    }


def write_index(store: Path) -> None:
    """A real store of one shard, whose index is then that of many such shards."""
    with cw.Writer(store, "raw") as writer:
        writer.extend([{"value": number} for number in range(ALL_SAMPLES // SHARDS)])
    multiply(store, SHARDS)


def multiply(store: Path, shards: int) -> None:
    """Let the index of a store of one shard tell of many such shards."""
    ends = shard_file.read_ends(store / shard_file.shard_name(0))
    records = [shard_index.pack_record(number, number * ends.count, ends) for number in range(shards)]
    (store / shard_index.NAME).write_bytes(shard_index.pack_file_header() + b"".join(records))
