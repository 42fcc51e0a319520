"""``data-starved``: training that waits for its data: how long, for which stage of loading, and for which line."""

from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from cordwood.common.numbers import figure, milliseconds
from cordwood.common.text import human
from cordwood.doctor.evidence.evidence import PHASES, Evidence, LoaderSeen, StepTimes
from cordwood.doctor.evidence.fetches import Fetches
from cordwood.doctor.evidence.findings import STARVED, CodeLine, Detail, Finding, Rule
from cordwood.doctor.rules.data.iterator_per_batch import one_iterator, what_happens
from cordwood.doctor.trials.whole_batches import stacks_samples

_STARVED = 0.10  # of a step
_FEWEST_STEPS = 20
_STRETCH = 5  # steps: loaders with workers deliver in bursts
_MOST_OF_IT = 0.5  # of a step
_WORTH_MS = 2.0  # for a batch: less is what a DataLoader costs at any rate
_BLOCKS = 8  # of steps, for the spread: steps next to each other are not independent
_TURNS = 7
_HEAVY = 0.25  # of loading: a line that takes less is not the one to look at
_FAR_BEYOND = 1.5  # times what it takes to make a batch: then that is not what is waited for
_SENT = 64 << 10  # bytes through a pipe: fewer are only the names of tensors in shared memory
_FROM_DISK = 0.5  # of the bytes read: less than that came from the page cache

_CURES = {
    "read": (
        "# files that are read again and again: keep them in RAM (/dev/shm) or on an NVMe drive,\n"
        "# or pack them, so that a batch is read in one go; once, beside the dataset:\n"
        'cw.pack(dataset, "train.cordwood")'
    ),
    "decode": '# decode once, not in each epoch; once, beside the dataset:\ncw.pack(dataset, "train.cordwood")',
    "transform": (
        "# make this line faster, or do it on whole batches, in place of one sample after the other;\n"
        "# what is the same in each epoch can be done once, before training: cw.pack"
    ),
    "collate": "# make this line faster: fill a batch with whole tensors, not element by element",
    "transfer": "# let workers return tensors, which go by shared memory: lists and arrays are copied through a pipe",
}
_IN_MEMORY = (
    "# the samples are in memory already; indexed by whole batches, they need not be stacked one by one:\n"
    "order = BatchSampler(RandomSampler(dataset), batch_size=64, drop_last=False)\n"
    "loader = DataLoader(dataset, sampler=order, batch_size=None)  # what it saves was not proved"
)
_SMALL = (
    "# batches are small: handing one over from a worker takes longer than making it. Larger batches make it\n"
    "# worth while; so may fewer workers, down to num_workers=0 (what trials of that showed: see the notes)"
)


class DataStarved(Rule):
    """Looks at the time inside next() of the training loader."""

    id = STARVED
    title = "training waits for data"
    measures = (
        "The share of a training step that is spent inside `next()` of the loader: 10% or more over at least 20 steps, "
        "the first batch of each epoch and warm-up left out. Fetches are timed where they happen, inside workers too, "
        "and a few of them are profiled: reading, decoding, transforming, collating, and the way between processes are "
        "told apart, and the ten functions with the most own time are listed."
    )
    costs = "While training waits, the device or the cores that it works on stand still."
    wrong = (
        "Where a loader is started for each epoch, the first batch takes long: it is not counted. Fewer than 20 steps "
        "say too little. What is called decoding or reading is told by the names of functions; a library that is not "
        "known counts as transform."
    )
    cure = (
        "Other settings of the loader (see `workers`), preprocessing done once (see `cacheable-preprocessing`), "
        "one iterator for many batches (see `iterator-per-batch`), whole batches at once (see `whole-batches`), "
        "a faster place for the files, or less work in the line that is named."
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        steps = evidence.need_steps(_FEWEST_STEPS)
        if not _is_starved(steps):
            return []
        seen = evidence.training_loader()
        handing_ms = _handing_over_ms(seen.last_batch) * max(evidence.micro_batches, 1.0)
        saves_ms = steps.phase_ms("wait") - handing_ms
        spread_ms = spread_of_waiting(steps)
        if saves_ms < 3 * spread_ms or saves_ms < _STARVED * steps.mean_ms:
            return []
        fetches = evidence.fetches
        stage = fetches.slowest_stage if fetches is not None else None
        anew = _begins_anew(seen, fetches, steps.phase_ms("wait") / max(evidence.micro_batches, 1.0))
        place = None if anew else _heavy_line(fetches)
        # Without a line of the user's to blame, a little waiting is what a DataLoader itself costs for small batches.
        mostly = steps.phase_share("wait") >= _MOST_OF_IT
        blames = (
            (anew and bool(getattr(seen.loader, "num_workers", 0)))
            or place is not None
            or stage in ("read", "decode")
            or fetches is None
            or mostly
        )
        worth = blames and steps.phase_ms("wait") / max(evidence.micro_batches, 1.0) >= _WORTH_MS
        return [
            Finding(
                rule=self.id,
                message=_message(evidence, steps, stage, what_happens(seen) if anew else ""),
                fix=one_iterator(seen) if anew else _cure(seen, fetches, stage),
                place=place or seen.place,
                saves_ms=saves_ms if worth else None,
                spread_ms=spread_ms if worth else None,
                verified="measured",
                level=None if worth else "info",
                details=() if anew or fetches is None else _details(fetches),
            )
        ]


def _is_starved(steps: StepTimes) -> bool:
    """Whether most stretches of the run wait: a busy moment of the machine is no property of the loader."""
    waits = steps.times[:, PHASES.index("wait")]
    stretches = np.array_split(np.arange(len(waits)), max(1, len(waits) // _STRETCH))
    shares = [waits[stretch].sum() / steps.totals[stretch].sum() for stretch in stretches]
    return steps.phase_share("wait") >= _STARVED and float(np.median(shares)) >= _STARVED


def _begins_anew(seen: LoaderSeen, fetches: Fetches | None, waited_ms: float) -> bool:
    """Whether it is not the making of a batch that takes the time, but a new iterator for each of them."""
    if not seen.begins_for_every_batch:
        return False
    workers = getattr(seen.loader, "num_workers", 0)
    return bool(workers) or (fetches is not None and waited_ms > _FAR_BEYOND * fetches.total_ms)


def _message(evidence: Evidence, steps: StepTimes, stage: str | None, anew: str) -> str:
    share, fetches = steps.phase_share("wait"), evidence.fetches
    text = (
        f"{share:.0%} of each step is waiting for data: {figure(steps.phase_ms('wait'))} of "
        f"{milliseconds(steps.mean_ms)}"
    )
    if anew:
        return f"{text}; {anew}"
    if fetches is None:
        why = evidence.missing.get("fetches", "fetches of this loader cannot be watched")
        return f"{text}; what takes the time cannot be told: {why}"
    return text + _of_which(fetches, stage)


def _cure(seen: LoaderSeen, fetches: Fetches | None, stage: str | None) -> str:
    if stacks_samples(seen.loader):
        return _IN_MEMORY
    if fetches is not None and stage == "transfer" and (fetches.sent_bytes_per_batch or 0.0) < _SENT:
        return _SMALL
    return _CURES.get(stage or "", "# see what the loader does for a batch")


def spread_of_waiting(steps: StepTimes) -> float:
    """The standard error of the mean waiting of a step."""
    waits = steps.times[:, PHASES.index("wait")]
    means = [block.mean() for block in np.array_split(waits, min(_BLOCKS, len(waits)))]
    return float(np.std(means, ddof=1) / len(means) ** 0.5)


def _handing_over_ms(batch: Any) -> float:
    """What a loader costs that has everything in memory: one copy of the batch. 0 if no batch was kept."""
    tensors = [leaf for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor) and leaf.device.type == "cpu"]
    times = []
    for _ in range(_TURNS):
        begin = perf_counter()
        copies = [tensor.detach().clone() for tensor in tensors]
        times.append(perf_counter() - begin)
        del copies
    return median(times) * 1e3


def _of_which(fetches: Fetches, stage: str | None) -> str:
    where = "in the training loop's own process"
    if fetches.workers:
        where = f"in {fetches.workers} workers" if fetches.workers > 1 else "in 1 worker"
    text = f". A batch takes {milliseconds(fetches.total_ms)} to make, {where}"
    if stage is None:
        return text
    text += f", most of it to {_VERBS[stage]}: {milliseconds(fetches.stage_ms[stage])}"
    if stage == "read" and fetches.bytes_read_per_batch:
        text += f" for {human(int(fetches.bytes_read_per_batch))}"
        if fetches.device is not None:
            text += f" from {fetches.device}"
        if fetches.read_mb_per_s is not None:
            text += f", {fetches.read_mb_per_s:.0f} MB/s"
        if (fetches.disk_bytes_per_batch or 0.0) < _FROM_DISK * fetches.bytes_read_per_batch:
            text += " (most of it was in the page cache already)"
    if stage == "transfer" and fetches.sent_bytes_per_batch:
        text += f" ({human(int(fetches.sent_bytes_per_batch))} through a pipe)"
    return text


_VERBS = {
    "read": "read",
    "decode": "decode",
    "transform": "transform samples",
    "collate": "collate samples",
    "transfer": "get it from a worker to training",
}


def _heavy_line(fetches: Fetches | None) -> CodeLine | None:
    """The user's line that loading spends most time in, if there is such a line."""
    if fetches is not None and fetches.lines:
        place, ms = fetches.lines[0]
        if ms >= _HEAVY * fetches.total_ms:
            return place
    return None


def _details(fetches: Fetches) -> tuple[Detail, ...]:
    stages = tuple((stage, f"{ms:.2f} ms") for stage, ms in fetches.stage_ms.items())
    if not fetches.batches_profiled:
        stages = (("get samples", f"{fetches.get_ms:.2f} ms"), *stages)
    details = [Detail("making a batch", ("stage", "a batch"), stages)]
    if fetches.functions:
        rows = tuple(
            (each.name, f"{each.file}:{each.line}" if each.file else "C", each.stage, f"{each.own_ms:.2f} ms")
            for each in fetches.functions
        )
        details.append(Detail("functions with most own time", ("function", "where", "stage", "a batch"), rows))
    if fetches.lines:
        lines = tuple((str(place), place.source, f"{ms:.2f} ms") for place, ms in fetches.lines[:5])
        details.append(
            Detail("your lines with most time, what they call included", ("where", "line", "a batch"), lines)
        )
    if fetches.worker_busy_share is not None:
        busy = ((f"{fetches.workers}", f"{fetches.worker_busy_share:.0%}"),)
        details.append(Detail("workers", ("workers", "busy"), busy))
    if fetches.notes:
        details.append(Detail("what could not be seen", ("",), tuple((note,) for note in fetches.notes)))
    return tuple(details)
