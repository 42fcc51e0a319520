"""Batches of 1 to 1,024 samples, 3 KiB images in shuffled epochs."""

from benchmarks.data.samples import images
from benchmarks.data.tensors import scratch
from benchmarks.feed.ours import Fed
from benchmarks.harness.outcome import Chart, Outcome, Settings
from benchmarks.scaling.curves import Curves, cores, fastest_ways, rates, samples_a_second
from benchmarks.scaling.limits import MEMORY, SOURCE, memory_copy
from benchmarks.store.contest import Contest, Packer
from benchmarks.store.rivals.entrants import FOR_CURVES, installed
from cordwood.codecs import Goal

TITLE = "Batches of all sizes"
KEYS: tuple[str, ...] = ()
BATCHES = (1, 4, 16, 64, 256, 1024)
FEW_BATCHES = (1, 16, 256)  # of a quick run
SAMPLES, SLOW = 8192, 4096
GOALS: tuple[Goal, ...] = ("raw", "balanced")


def measure(settings: Settings) -> Outcome:
    """One table; everybody's files are written anew for each size, which takes a moment."""
    batches = FEW_BATCHES if settings.quick else BATCHES
    samples = images(settings).first(SAMPLES)
    nbytes = samples.rows[0].nbytes
    rivals, missing = installed(FOR_CURVES)
    curves = Curves()
    copied = memory_copy(cores(), nbytes * len(samples) if settings.quick else SOURCE)
    for place, batch in enumerate(batches):
        with scratch(settings) as folder:
            contest = Contest(folder, batch)
            contenders: list[Packer] = [*map(Fed, GOALS), *rivals]
            for contender in contenders:
                contest.enter(contender, samples if contender.takes_all else samples.first(max(SLOW, batch)))
            contest.check(samples)
            found = rates(settings, fastest_ways(contest), [copied], unit=nbytes)
            curves.add(place, samples_a_second(found, nbytes))
    chart = Chart("batches", "samples of a batch", "samples a second", [float(batch) for batch in batches], [MEMORY])
    title = "Batches of all sizes, 3 KiB images, shuffled, from the page cache: samples a second"
    table = curves.table(title, chart, [f"{batch:,}" for batch in batches], "bytes")
    table.notes += [
        f"{len(samples):,} samples; LitData, WebDataset and the .pt files: {SLOW:,}, or a batch. Ours is the Loader.",
        *(f"Not measured: {line}" for line in missing.values()),
    ]
    return Outcome([table])
