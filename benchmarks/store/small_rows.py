"""Small samples: 3 KiB images and rows of 512 tokens in random batches of 256."""

from collections.abc import Callable

from benchmarks.data.samples import Samples, counts, images, tokens
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Spread, ratio
from benchmarks.store.contest import Contest, Packer
from benchmarks.store.ours import Ours
from benchmarks.store.rivals.entrants import (
    FEW_SMALL,
    FILES,
    FOR_SMALL_SAMPLES,
    LITDATA,
    LMDB,
    NUMPY,
    TENSORDICT,
    ZIPPED,
    installed,
)
from cordwood.codecs import Goal

TITLE = "Small samples in a store"
AGAINST = {"files": FILES.name, "lmdb": LMDB.name, "tensordict": TENSORDICT.name, "litdata": LITDATA.name}
KEYS = tuple(f"store-{kind}-{word}" for kind in ("images", "tokens") for word in AGAINST)
BATCH = 256
GOALS: tuple[Goal, ...] = ("balanced", "fast", "raw")
JUDGED = ("ours, raw", "ours, fast")


def measure(settings: Settings) -> Outcome:
    """A table for each kind of sample."""
    return of_both_kinds(settings, measure_kind)


def of_both_kinds(settings: Settings, measure_one: Callable[[Settings, str, Samples], Outcome]) -> Outcome:
    outcome = Outcome()
    for kind, samples in (("images", images(settings)), ("tokens", tokens(settings))):
        outcome.absorb(measure_one(settings, kind, samples))
    return outcome


def measure_kind(settings: Settings, kind: str, samples: Samples) -> Outcome:
    """The same samples with every rival; of the two goals that are judged, the slower counts."""
    rivals, missing = installed(FOR_SMALL_SAMPLES)
    few = samples.first(counts(settings).files)
    with scratch(settings) as folder:
        contest = Contest(folder, BATCH)
        contenders: list[Packer] = [*map(Ours, GOALS), *rivals]
        for contender in contenders:
            contest.enter(contender, share(contender, samples, few))
        contest.check(samples)
        times = contest.take_turns(settings)
    table = Table(
        f"{samples.title}, random batches of {BATCH}, from the page cache",
        [("way", "text"), ("bytes a sample", "bytes"), ("samples a second", "bytes"),
         *((f"ours, {goal}: speed, of this", "ratio") for goal in ("raw", "fast"))],
    )  # fmt: skip
    for name, seconds in times.items():
        rates = Spread.of([1 / second for second in seconds])
        table.add(name, contest.sizes[name], rates, *(ratio(seconds, times[ours]) for ours in JUDGED))
    rest = ", ".join(rival.name for rival in rivals if not rival.takes_all)
    table.notes += [
        f"{len(samples):,} samples; {rest}: {len(few):,} of them at most. `{NUMPY.name}` is the speed of memory: a "
        "gather that knows neither labels nor checksums.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    outcome = Outcome([table])
    for word, name in AGAINST.items():
        if name in contest.ways:
            outcome.measured[f"store-{kind}-{word}"] = contest.ratio(times, name, JUDGED)
        else:
            outcome.reasons[f"store-{kind}-{word}"] = missing[name]
    return outcome


def share(contender: Packer, samples: Samples, few: Samples) -> Samples:
    """All samples, or as many of them as a slow contender reads in a turn."""
    if contender.takes_all:
        return samples
    return few.first(FEW_SMALL) if contender is ZIPPED else few
