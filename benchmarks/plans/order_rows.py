"""Twelve further orders against the same samples shuffled, and two kinds of images in one store."""

from pathlib import Path

from benchmarks.data.synthetic import screenshots
from benchmarks.data.tensors import scratch
from benchmarks.harness.outcome import Outcome, Settings, Table
from benchmarks.harness.timing import Spread
from benchmarks.plans import previous
from benchmarks.plans.orders import SEED, Case, amounts, further_orders, photographs
from benchmarks.plans.packing import packed_bytes

TITLE = "Further orders, and mixed samples"
KEYS = ("plans-orders", "plans-mixed", "plans-orders-before")


def measure(settings: Settings) -> Outcome:
    """Both tables."""
    with scratch(settings) as folder:
        orders = measure_orders(settings, folder)
        orders.absorb(measure_mixed(settings, folder))
    return orders


def measure_orders(settings: Settings, folder: Path) -> Outcome:
    """Each order against the same samples shuffled."""
    table = Table(
        "Twelve further orders: bytes of the whole store",
        [("order", "text"), ("in this order", "bytes"), ("shuffled", "bytes"), ("of shuffled", "ratio"),
         ("shuffled, of the version before", "ratio")],
    )  # fmt: skip
    before, version = previous.recorded(settings)
    of_shuffled: list[float] = []
    of_before: list[float] = []
    for case in further_orders(settings):
        written, shuffled = packed_bytes(case, folder), packed_bytes(case.shuffled(), folder)
        of_shuffled.append(written / shuffled)
        then = shuffled / before[case.name] if case.name in before else None
        of_before += [] if then is None else [then]
        table.add(case.name, written, shuffled, of_shuffled[-1], then)
    table.notes.append(f"The version before: {version}.")
    measured = {"plans-orders": Spread.exact(max(of_shuffled))}
    if of_before:
        return Outcome([table], measured | {"plans-orders-before": Spread.exact(max(of_before))})
    return Outcome([table], measured, {"plans-orders-before": version})


def measure_mixed(settings: Settings, folder: Path) -> Outcome:
    """Screenshots and photographs shuffled in one store, against a store of each."""
    amount = amounts(settings)
    screens = Case("screenshots", list(screenshots(amount.screenshots, amount.side, SEED)))
    photos = Case("photographs", photographs(settings.cache, amount.photographs, amount.side)[:150])
    both = Case("both, shuffled, in one store", [*screens.rows, *photos.rows]).shuffled()
    table = Table(
        "Screenshots and photographs in one store: bytes",
        [("store", "text"), ("samples", "count"), ("bytes", "bytes"), ("of a store for each", "ratio")],
    )
    alone = {case.name: packed_bytes(case, folder) for case in (screens, photos)}
    mixed = packed_bytes(both, folder)
    table.add(screens.name, len(screens), alone[screens.name], None)
    table.add(photos.name, len(photos), alone[photos.name], None)
    table.add(both.name, len(both), mixed, mixed / sum(alone.values()))
    return Outcome([table], {"plans-mixed": Spread.exact(mixed / sum(alone.values()))})
