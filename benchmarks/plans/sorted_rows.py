"""Stores whose first samples are of another kind than the rest, against stores of the same samples shuffled."""

from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Spread
from benchmarks.plans import previous
from benchmarks.plans.orders import first_table
from benchmarks.plans.packing import LIMIT, packed_bytes, predicted_bytes
from cordwood.codecs import Goal

TITLE = "The first samples are of another kind"
KEYS = ("plans-sorted", "plans-predicted", "plans-shuffled-before")


def measure(settings: Settings) -> Outcome:
    """One table; the worst row counts, of every goal."""
    table = Table(
        f"{TITLE}: bytes of the whole store",
        [("first samples, then the rest", "text"), ("goal", "text"), ("in this order", "bytes"),
         ("shuffled", "bytes"), ("of shuffled", "ratio"), (f"predicted by limit={LIMIT}", "bytes"),
         ("predicted, of written", "ratio"), ("shuffled, of the version before", "ratio")],
    )  # fmt: skip
    before, version = previous.recorded(settings)
    of_shuffled: list[float] = []
    off: list[float] = []
    of_before: list[float] = []
    with scratch(settings) as folder:
        for number, case in enumerate(first_table(settings)):
            goals: tuple[Goal, ...] = ("balanced", "small") if number == 0 else ("balanced",)
            for goal in goals:
                written = packed_bytes(case, folder, goal)
                shuffled = packed_bytes(case.shuffled(), folder, goal)
                of_shuffled.append(written / shuffled)
                if goal != "balanced":
                    table.add(case.name, goal, written, shuffled, of_shuffled[-1], None, None, None)
                    continue
                predicted = predicted_bytes(case, folder)
                off.append(max(predicted / written, written / predicted))
                then = shuffled / before[case.name] if case.name in before else None
                of_before += [] if then is None else [then]
                table.add(case.name, goal, written, shuffled, of_shuffled[-1], predicted, predicted / written, then)
    table.notes += [
        "Samples are packed from memory, in this order and in one random order; some of each store are compared with "
        "their source. Of each goal the worst row counts; a prediction that is too low counts like one that is too "
        "high.",
        f"The version before: {version}.",
    ]
    measured = {
        "plans-sorted": Spread.exact(max(of_shuffled)),
        "plans-predicted": Spread.exact(max(off)),
    }
    if of_before:
        return Outcome([table], measured | {"plans-shuffled-before": Spread.exact(max(of_before))})
    return Outcome([table], measured, {"plans-shuffled-before": version})
