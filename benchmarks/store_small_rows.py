"""Small samples: 3 KiB images and rows of 512 tokens in random batches of 256."""

from benchmarks.harness import Spread, ratio
from benchmarks.outcome import Outcome, Settings, Table
from benchmarks.store_data import Epoch, Samples, counts, images, nbytes, tokens
from benchmarks.store_ours import Ours, best, packed, take_turns
from benchmarks.store_rivals import FILES, FOR_SMALL_SAMPLES, LITDATA, LMDB, NUMPY, TENSORDICT, installed
from benchmarks.tensor_data import scratch

TITLE = "Small samples in a store"
AGAINST = {"files": FILES.name, "lmdb": LMDB.name, "tensordict": TENSORDICT.name, "litdata": LITDATA.name}
KEYS = tuple(f"store-{kind}-{word}" for kind in ("images", "tokens") for word in AGAINST)
BATCH = 256
GOALS = ("balanced", "fast", "raw")
JUDGED = ("ours, raw", "ours, fast")


def measure(settings: Settings) -> Outcome:
    """A table for each kind of sample."""
    outcome = Outcome()
    for kind, samples in (("images", images(settings)), ("tokens", tokens(settings))):
        outcome.absorb(measure_kind(settings, kind, samples))
    return outcome


def measure_kind(settings: Settings, kind: str, samples: Samples) -> Outcome:
    """The same samples with every rival; of the two goals that are judged, the slower counts."""
    rivals, missing = installed(FOR_SMALL_SAMPLES)
    few = samples.first(counts(settings).files)
    sizes: dict[str, float] = {}
    epochs: list[Epoch] = []
    ways: dict[str, list[str]] = {}
    with scratch(settings) as folder:
        for ours in map(Ours, GOALS):
            place = packed(ours, samples, folder)
            sizes[ours.name] = nbytes(place) / len(samples)
            epochs.append(ours.epoch(samples, place, BATCH))
        for rival in rivals:
            given = samples if rival.takes_all else few
            place = packed(rival, given, folder)
            found = rival.epochs(given, place, BATCH)
            ways[rival.name] = [epoch.name for epoch in found]
            sizes |= dict.fromkeys(ways[rival.name], nbytes(place) / len(given))
            epochs += found
        for epoch in epochs:
            epoch.check(samples)
        times = take_turns(settings, epochs)
    table = Table(
        f"{samples.title}, random batches of {BATCH}, from the page cache",
        [("way", "text"), ("bytes a sample", "bytes"), ("samples a second", "bytes"),
         *((f"ours, {goal}: speed, of this", "ratio") for goal in ("raw", "fast"))],
    )  # fmt: skip
    for name, seconds in times.items():
        rates = Spread.of([1 / second for second in seconds])
        table.add(name, sizes[name], rates, *(ratio(seconds, times[ours]) for ours in JUDGED))
    rest = " and ".join(rival.name for rival in rivals if not rival.takes_all)
    table.notes += [
        f"{len(samples):,} samples; {rest}: {len(few):,} of them. `{NUMPY.name}` is the speed of memory: a gather "
        "that knows neither labels nor checksums.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    outcome = Outcome([table])
    for word, name in AGAINST.items():
        if name in ways:
            found_best = best(times, ways[name])
            judged = [ratio(found_best, times[ours]) for ours in JUDGED]
            outcome.measured[f"store-{kind}-{word}"] = min(judged, key=lambda spread: spread.median)
        else:
            outcome.reasons[f"store-{kind}-{word}"] = missing[name]
    return outcome
