"""What a process holds over a hundred epochs of the Loader."""

from typing import Any

from benchmarks.data.samples import Samples, images, photographs, tokens
from benchmarks.data.tensors import scratch
from benchmarks.feed.ours import NORMALIZE, Fed
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Spread
from benchmarks.store.contest import packed
from benchmarks.store.memory import Job, watch
from benchmarks.store.memory_rows import LOOKS, MAY_GROW, growth_of
from cordwood.feed.ahead.pace import ReadAhead

TITLE = "Memory over a hundred epochs of the Loader"
KEYS = ("feed-memory",)
EPOCHS = 100


def measure(settings: Settings) -> Outcome:
    """A process for each kind of store."""
    table = Table(
        f"A process that loads {EPOCHS} shuffled epochs: what it holds, in bytes",
        [("what it loads", "text"), ("samples", "bytes"), ("before", "bytes"), ("after a tenth", "bytes"),
         ("at the end", "bytes"), ("growth", "bytes"), ("batches of one call", "bytes"),
         ("pages of files at the end", "bytes"), ("CPU ms a sample", "digits-ms")],
    )  # fmt: skip
    pictures = photographs(settings)
    work: list[tuple[str, Samples, Fed, int]] = [
        ("photographs, balanced", pictures, Fed("balanced"), 64),
        ("photographs, raw uint8, normalised", pictures, Fed("raw", "uint8", NORMALIZE), 64),
        ("3 KiB images, fast", images(settings), Fed("fast"), 256),
        ("512-token rows, raw", tokens(settings), Fed("raw"), 256),
    ]
    worst = 0
    for what, samples, fed, batch in work:
        with scratch(settings) as folder:
            store = fed.place(packed(fed, samples, folder))
            options: dict[str, Any] = dict(fed.options)
            looks = watch(Job("epochs", str(store), EPOCHS, batch, LOOKS, options))
        growth = growth_of(looks)
        together = of_one_call(samples.rows[0].nbytes * batch)
        worst = max(worst, growth - together)
        begin, last = looks[0], looks[-1]
        cpu = (last.cpu - begin.cpu) / last.samples
        tenth = looks[LOOKS // 10].own
        table.add(
            f"{what}, batches of {batch}", last.samples, begin.own, tenth, last.own, growth, together, last.mapped, cpu
        )
    table.notes.append(
        "Held is memory that no file stands behind: batches on their way and the pool that they come from. Growth is "
        "the most that was held after the first tenth of the epochs beyond what was held then. How many batches are "
        "alive at once depends on who is faster just then, within a fixed limit: the goal allows 4 MiB beyond those of "
        "one call."
    )
    return Outcome([table], {"feed-memory": Spread.exact(worst / MAY_GROW)})


def of_one_call(nbytes: int) -> int:
    """The bytes of the batches that the Loader makes together, when one has so many."""
    pace = ReadAhead()
    pace.batch_is(nbytes)
    return nbytes * pace.together
