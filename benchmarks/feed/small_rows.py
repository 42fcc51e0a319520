"""Small samples: shuffled epochs of 3 KiB images and of rows of 512 tokens, in batches of 256."""

from benchmarks.data.samples import Samples, counts
from benchmarks.data.tensors import scratch
from benchmarks.feed.ours import Fed
from benchmarks.feed.turns import take_turns
from benchmarks.harness.outcome import Outcome, Settings
from benchmarks.store.contest import Contest, Packer
from benchmarks.store.rivals.entrants import (
    FFCV_ARRAYS,
    FILES,
    HDF5,
    LITDATA,
    LMDB,
    NUMPY,
    TENSORDICT,
    WEBDATASET,
    ZIPPED,
    Rival,
    installed,
)
from benchmarks.store.small_rows import BATCH, GOALS, JUDGED, of_both_kinds, share

TITLE = "Small samples from the Loader"
AGAINST: dict[str, Rival] = {
    "files": FILES,
    "lmdb": LMDB,
    "tensordict": TENSORDICT,
    "litdata": LITDATA,
    "ffcv": FFCV_ARRAYS,
}
KEYS = tuple(f"feed-{kind}-{word}" for kind in ("images", "tokens") for word in AGAINST)


def measure(settings: Settings) -> Outcome:
    """A table for each kind of sample."""
    return of_both_kinds(settings, measure_kind)


def measure_kind(settings: Settings, kind: str, samples: Samples) -> Outcome:
    """The same samples with every rival; of the two goals that are judged, the slower counts."""
    rivals, missing = installed((*AGAINST.values(), ZIPPED, HDF5, WEBDATASET, NUMPY))
    few = samples.first(counts(settings).files)
    with scratch(settings) as folder:
        contest = Contest(folder, BATCH)
        contenders: list[Packer] = [*map(Fed, GOALS), *rivals]
        for contender in contenders:
            contest.enter(contender, share(contender, samples, few))
        contest.check(samples)
        turns = take_turns(settings, contest.epochs)
    title = f"{samples.title}, shuffled batches of {BATCH}, from the page cache"
    table = turns.table(title, contest.sizes, JUDGED)
    rest = ", ".join(rival.name for rival in rivals if not rival.takes_all)
    table.notes += [
        f"{len(samples):,} samples; {rest}: {len(few):,} of them at most. `{NUMPY.name}` is the speed of memory: a "
        "gather in this thread that knows neither labels nor checksums.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    outcome = Outcome([table])
    for word, rival in AGAINST.items():
        if rival in rivals:
            outcome.measured[f"feed-{kind}-{word}"] = contest.ratio(turns.seconds, rival.name, JUDGED)
        else:
            outcome.reasons[f"feed-{kind}-{word}"] = missing[rival.name]
    return outcome
