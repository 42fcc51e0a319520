"""``iterator-per-batch``: ``next(iter(loader))`` in every step, which starts and drops an iterator for each batch."""

from typing import Any

from torch.utils.data import SequentialSampler

from cordwood.common.numbers import milliseconds
from cordwood.doctor.code.loader_call import iterated_name
from cordwood.doctor.evidence.evidence import LEAST_WAITING, Evidence, LoaderSeen
from cordwood.doctor.evidence.findings import MEDIUM_SHARE, Finding, Rule
from cordwood.doctor.measure.per_step import pace_of
from cordwood.doctor.measure.stand_in_step import training_device
from cordwood.doctor.trials.iterator import try_one_iterator
from cordwood.doctor.trials.loader import check_is_alone

_FEWEST_STEPS = 20


class IteratorPerBatch(Rule):
    """Tries the training loader with one iterator, in place of one for every batch."""

    id = "iterator-per-batch"
    title = "a new iterator for every batch"
    measures = (
        "Iterators and batches of the training loader are counted. Where there are as many of the one as of the other, "
        "though an epoch has more than one batch, and a step waits for data for 5% of its time or more, the script's "
        "own DataLoader is tried both ways, in turns: `next(iter(loader))` for every batch, and one iterator for all. "
        "The loop that takes the batches works as training does in between. It speaks of a gain of at least 3% of a "
        "step and of three spreads."
    )
    costs = (
        "Whoever begins an iterator has all indices shuffled, and starts the worker processes; whoever drops it stops "
        "them, and throws away what they have prepared. None of it is of use for more than one batch. "
        "`persistent_workers=True` alone is no cure: workers then live on, but still begin from the start each time."
    )
    wrong = (
        "A loader whose whole epoch is one batch is not meant, nor one that a loop leaves after some batches. Without "
        "workers, beginning anew may cost next to nothing: then nothing is said. Every new iterator shuffles anew, so "
        "samples come with repetitions; one iterator gives each of them once in an epoch. Where several ranks share "
        "the cores the rule abstains."
    )
    cure = (
        "Loop over the loader, `for batch in loader:`, or begin the iterator once, before the loop, and again only "
        "when it is at its end:\n\n"
        "```py\ndef endless(loader):\n    while True:\n        yield from loader\n\n\nbatches = endless(loader)\n"
        "for step in range(1000):\n    batch = next(batches)\n```"
    )

    def judge(self, evidence: Evidence) -> list[Finding]:
        steps = evidence.need_steps(_FEWEST_STEPS)
        if steps.phase_share("wait") < LEAST_WAITING:
            return []
        seen = evidence.training_loader()
        if not seen.begins_for_every_batch:
            return []
        seconds = evidence.need_seconds()
        check_is_alone()
        pace = pace_of(evidence, steps)
        gain = try_one_iterator(
            seen.loader,
            busy_ms=pace.busy_ms,
            step_ms=pace.batch_ms,
            seconds=seconds,
            device=training_device(evidence),
        )
        # Stopping workers is no waiting: it happens where the iterator is dropped, in whatever else the step does.
        phases = ("wait", "other") if seen.loader.num_workers else ("wait",)
        saves, spread = pace.saved(gain, sum(steps.phase_ms(phase) for phase in phases))
        if not pace.is_worth(saves, spread, MEDIUM_SHARE):
            return []
        return [
            Finding(
                rule=self.id,
                message=(
                    f"{what_happens(seen)}. With one iterator a batch and the work with it take "
                    f"{milliseconds(gain.after_ms)}, not {milliseconds(gain.before_ms)}: tried with your own loader, "
                    f"{gain.pairs} times in turns"
                ),
                fix=one_iterator(seen),
                place=seen.place,
                saves_ms=saves,
                spread_ms=spread,
                verified="trial",
            )
        ]


def what_happens(seen: LoaderSeen) -> str:
    """The fault, in the figures of the run."""
    text = f"a new iterator is begun for every batch: {seen.epochs} iterators for {seen.batches} batches"
    loader: Any = seen.loader
    if getattr(loader, "num_workers", 0):
        count = "its worker is" if loader.num_workers == 1 else f"its {loader.num_workers} workers are"
        if getattr(loader, "persistent_workers", False):
            text += ", and what its workers have prepared ahead is thrown away each time"
        else:
            text += f", and {count} started and stopped each time (stopping them counts as everything else)"
    if isinstance(getattr(loader, "sampler", None), SequentialSampler):
        text += ". Nothing is shuffled, so all of them give the same first batch"
    return text


def one_iterator(seen: LoaderSeen) -> str:
    """The lines to write instead."""
    name = iterated_name(seen.place) or "loader"
    lines = []
    if getattr(seen.loader, "num_workers", 0) and not getattr(seen.loader, "persistent_workers", True):
        lines = [
            "# DataLoader(..., persistent_workers=True), so that later epochs start at once; that alone is no cure"
        ]
    return "\n".join(
        [
            *lines,
            "def endless(loader):",
            "    while True:",
            "        yield from loader",
            "",
            f"batches = endless({name})  # once, before the loop",
            "batch = next(batches)  # in every step",
            f"# or, where an epoch is meant: for batch in {name}:",
        ]
    )
